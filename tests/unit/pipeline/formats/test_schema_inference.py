"""A schema is inferred from the good examples; odd ones do not decide."""

from headrace.pipeline.formats.schema import to_ddl
from headrace.pipeline.formats.schema_inference import infer_schema


def inferred(*texts: bytes | None) -> str:
    found = infer_schema(texts)
    return "" if found is None else to_ddl(found)


def test_fields_of_all_examples_are_columns() -> None:
    assert inferred(
        b'{"id":1,"a":{"b":1.5},"n":null}', b'{"id":2.5,"c":["x"],"t":true}', b'{"id":3}'
    ) == ("`id` double, `a` struct<`b`:double>, `n` string, `c` array<string>, `t` boolean")


def test_values_that_are_not_objects_are_ignored() -> None:
    assert inferred(b"bad", None, b"[1]", b"\xff", b"[" * 100_000, b"{}") == ""
    assert inferred(b"bad", b'{"id":1}') == "`id` bigint"


def test_the_type_of_most_examples_wins() -> None:
    assert inferred(b'{"a":"x"}', b'{"a":1}', b'{"a":2}', b'{"a":null}') == "`a` bigint"
    assert inferred(b'{"a":{}}', b'{"b":[]}', b'{"c":99999999999999999999}') == (
        "`b` array<string>, `c` double"
    )


def test_names_that_differ_in_case_become_one_column_with_the_commonest_spelling() -> None:
    assert (
        inferred(
            b'{"Id":"x"}', b'{"id":1,"in":{"A":1}}', b'{"id":2,"in":{"a":"b","A":2}}', b'{"ID":3}'
        )
        == "`id` bigint, `in` struct<`A`:bigint>"
    )
