"""A plain SELECT is rewritten to keep its record; SQL that combines rows is recognized."""

import pytest

from headrace.pipeline.spec.select import ONLY_SPARK, NotASelect, read_select
from support.pipelines.row_scopes import ACROSS_ROWS, ROW_BY_ROW


def carried(sql: str) -> str:
    select = read_select(sql)
    assert not select.untraceable
    return " ".join(select.carrying("v", "bad", "_record").split())


@pytest.mark.parametrize(
    ("sql", "rewritten"),
    [
        ("SELECT id FROM source", "SELECT id, _record FROM v AS source"),
        (
            "select a as b from source s where a > 0 or b;",
            "select a as b, _record FROM v AS s where (bad) OR ( a > 0 or b )",
        ),
        ("SELECT * FROM source", "SELECT * FROM v AS source"),
        ("SELECT s.*, 1 AS x FROM `source` AS s", "SELECT s.*, 1 AS x FROM v AS s"),
        ("SELECT id, `S`.* FROM source S", "SELECT id, `S`.* FROM v AS S"),
        # The fields of a struct are not all columns.
        ("SELECT id, a.* FROM source", "SELECT id, a.*, _record FROM v AS source"),
        ("SELECT _record.* FROM source s", "SELECT _record.*, _record FROM v AS s"),
        ("SELECT source.a.* FROM source", "SELECT source.a.*, _record FROM v AS source"),
        ("SELECT b.source.* FROM source", "SELECT b.source.*, _record FROM v AS source"),
        ("SELECT * EXCEPT (a) FROM source", "SELECT * EXCEPT (a) FROM v AS source"),
        ("SELECT a*b AS p FROM source", "SELECT a*b AS p, _record FROM v AS source"),
        (
            "SELECT a IS DISTINCT FROM b AS d FROM source",
            "SELECT a IS DISTINCT FROM b AS d, _record FROM v AS source",
        ),
        (
            "SELECT extract(year FROM ts) AS y FROM source",
            "SELECT extract(year FROM ts) AS y, _record FROM v AS source",
        ),
        (
            "SELECT first, `limit`, offset FROM source",
            "SELECT first, `limit`, offset, _record FROM v AS source",
        ),
        (
            "SELECT 'GROUP BY; FROM x' AS t FROM source -- DISTINCT",
            "SELECT 'GROUP BY; FROM x' AS t, _record FROM v AS source -- DISTINCT",
        ),
        (
            "SELECT a FROM source WHERE a IN (SELECT max(a) FROM t)",
            "SELECT a, _record FROM v AS source WHERE (bad) OR ( a IN (SELECT max(a) FROM t) )",
        ),
        # Positions count characters, and comments and strings are not clauses.
        (
            "/* FROM x */ SELECT 'ä–🙂', ü FROM /* WHERE */ `source` AS `ß` WHERE ü > 'WHERE'",
            "/* FROM x */ SELECT 'ä–🙂', ü, _record FROM v AS `ß` WHERE (bad) OR ( ü > 'WHERE' )",
        ),
    ],
)
def test_a_plain_select_is_rewritten_to_keep_the_record(sql: str, rewritten: str) -> None:
    assert carried(sql) == rewritten


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("SELECT id FROM source JOIN other USING (id)", "JOIN"),
        ("SELECT id FROM source, other", "JOIN"),
        ("SELECT id FROM (SELECT * FROM source)", "FROM"),
        ("SELECT id FROM source s (id, i)", "renames"),
        ("SELECT id FROM source UNION ALL SELECT id FROM source", "UNION"),
        ("WITH t AS (SELECT * FROM source) SELECT * FROM t", "WITH"),
        ("SELECT id FROM source SORT BY id", "SORT BY"),
        ("SELECT id FROM source UNPIVOT (v FOR k IN (i))", "UNPIVOT"),
    ],
)
def test_other_selects_lose_the_record_even_if_they_do_not_combine_rows(sql: str, why: str) -> None:
    select = read_select(sql)
    assert (why in select.untraceable, select.crosses_rows) == (True, "")


@pytest.mark.parametrize("sql", ROW_BY_ROW)
def test_a_select_that_handles_each_row_separately_is_recognized(sql: str) -> None:
    assert read_select(sql).crosses_rows == ""


@pytest.mark.parametrize(("sql", "why"), ACROSS_ROWS)
def test_a_select_that_combines_rows_is_recognized(sql: str, why: str) -> None:
    select = read_select(sql)
    assert why in select.crosses_rows
    assert select.untraceable == select.crosses_rows


def test_sql_that_only_spark_can_parse_is_accepted() -> None:
    assert read_select("SELECT a FROM source ~~ b").untraceable == ONLY_SPARK


@pytest.mark.parametrize(
    "sql", ["SELECT x, explode(xs) FROM source", "SELECT x FROM source LATERAL VIEW explode(y) t"]
)
def test_functions_that_generate_rows_are_recognized(sql: str) -> None:
    assert read_select(sql).generates


@pytest.mark.parametrize("sql", ["", "DELETE FROM source", "SELECT 1", "SELECT a FROM source.b"])
def test_a_text_that_is_not_a_select_over_source_is_rejected(sql: str) -> None:
    with pytest.raises(NotASelect):
        read_select(sql)
