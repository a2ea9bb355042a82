"""`headrace pipeline validate` tries a spec's steps without rows and reports error lines."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from support.cli.command import Cli

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark")

NOBODY = "127.0.0.1:1"
STEPS = """
from pyspark.sql import functions as F

def doubled(rows):
    return rows.withColumn("amount", F.col("amount") * 2)

def broken(rows):
    return rows.select("nothing")

def grouped(rows):
    return rows.groupBy("id", "day").agg(F.sum("amount").alias("amount"))

def forgetful(rows):
    rows.count
"""
SPEC = """pipeline: orders
source:
  topics: [orders]
  value: {format: json, schema: "id BIGINT, amount DOUBLE, day DATE"}
transform:
  - sql: SELECT id, amount, day FROM source
  - python: steps.py:doubled
expect:
  - {name: positive, sql: amount > 0}
sink: {format: delta, table: table, partition_by: [day]}
dead_letter: {topic: orders.dlq}
checkpoint: checkpoint
"""


class Validate:
    """The command, on the spec above with a part of it replaced."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._cli = Cli(NOBODY, home)
        (home / "steps.py").write_text(STEPS)

    def __call__(self, *replaced: tuple[str, str], options: tuple[str, ...] = ()) -> Any:
        text = SPEC
        for old, new in replaced:
            assert old in text
            text = text.replace(old, new)
        path = self._home / "orders.yaml"
        path.write_text(text)
        ended = self._cli("pipeline", "validate", str(path), "--format", "json", *options)
        facts: Any = ended.facts
        assert ended.code == (0 if facts["valid"] else 2)
        return facts


@pytest.fixture
def validate(tmp_path: Path, spark: "SparkSession") -> Validate:
    return Validate(tmp_path)


def test_a_valid_spec_is_reported_as_valid(validate: Validate) -> None:
    assert validate() == {
        "valid": True,
        "flows": [{"flow": "orders", "sink": "delta"}],
        "not_checked": "",
    }


def test_skipped_checks_are_reported(validate: Validate) -> None:
    found = validate(("amount, day FROM", "amont, day FROM"), options=("--no-spark",))
    assert found["valid"]
    assert "SQL and Python steps" in found["not_checked"]


def test_columns_of_an_inferred_schema_are_not_known_before_a_run(validate: Validate) -> None:
    given = '{format: json, schema: "id BIGINT, amount DOUBLE, day DATE"}'
    assert validate((given, "{format: json}"))["valid"]


@pytest.mark.parametrize(
    ("old", "new", "line", "path", "said"),
    [
        ("amount, day FROM", "amont, day FROM", 6, "transform[0].sql", "`amont`"),
        ("SELECT id,", "SELEC id,", 6, "transform[0].sql", "SELECT"),
        ("steps.py:doubled", "steps.py:halved", 7, "transform[1].python", "halved"),
        ("steps.py:doubled", "nowhere.py:f", 7, "transform[1].python", "nowhere.py"),
        ("steps.py:doubled", "steps.py:broken", 7, "transform[1].python", "`nothing`"),
        ("steps.py:doubled", "steps.py:forgetful", 7, "transform[1].python", "not a DataFrame"),
        ("day FROM source", "day FROM source LIMIT 5", 6, "transform[0].sql", "LIMIT: each batch"),
        ("steps.py:doubled", "steps.py:grouped", 7, "transform[1].python", "an aggregation: each"),
        ("amount > 0", "amout > 0", 9, "expect[0].sql", "`amout`"),
        ("amount > 0", "amount + 1", 9, "expect[0].sql", "is not a condition: its type is double"),
        ("[day]", "[amount]", 10, "sink.partition_by[0]", "of type double cannot be a partition"),
        ("[day]", "[month]", 10, "sink.partition_by[0]", "there is no column month"),
    ],
    ids=lambda value: str(value)[:24],
)
def test_a_step_that_does_not_fit_is_reported_with_its_line(
    validate: Validate, old: str, new: str, line: int, path: str, said: str
) -> None:
    (mistake,) = validate((old, new))["mistakes"]
    assert (mistake["line"], mistake["path"]) == (line, path)
    assert said in mistake["message"]


def test_mistakes_of_all_layers_are_reported_in_one_run(validate: Validate) -> None:
    found = validate(
        ("pipeline: orders\n", "pipeline: orders\nkafka: {sasl.password: hunter2}\n"),
        ("topics: [orders]\n", "topics: [orders]\n  max_records_per_batch: many\n  retries: 3\n"),
        ("SELECT id, amount, day FROM", "SELECT idd, amount, dya AS day FROM"),
        ("amount > 0", "amount >"),
        ("table: table", "table: '${UNSET_LAKE}/t'"),
        ("[day]", "[month]"),
    )["mistakes"]
    assert [(each["line"], each["path"]) for each in found] == [
        (2, "kafka.sasl.password"),  # in plain text
        (5, "source.max_records_per_batch"),  # the wrong type
        (6, "source.retries"),  # an unknown key
        (9, "transform[0].sql"),  # two missing columns
        (9, "transform[0].sql"),
        (12, "expect[0].sql"),  # SQL that does not parse
        (13, "sink.table"),  # a variable that is not set
        (13, "sink.partition_by[0]"),  # a missing column
    ]
    assert ["`idd`" in found[3]["message"], "`dya`" in found[4]["message"]] == [True, True]


@pytest.mark.parametrize(
    "changes",
    [
        [("SELECT id, amount,", "SELEC id, amount,"), ("amount > 0", "nothing > 0")],
        [("id BIGINT, amount DOUBLE", "id BIGNT, amount DOUBLE"), ("[day]", "[month]")],
        [("steps.py:doubled", "steps.py:halved"), ("amount > 0", "amount + 1")],
        [("sql: SELECT id, amount, day FROM source", "sql: 5"), ("[day]", "[month]")],
        [("SELECT id, amount, day", "SELECT id, amount, dya")],
    ],
    ids=["sql", "schema", "function", "field", "name"],
)
def test_mistakes_about_columns_that_an_earlier_mistake_hides_are_not_reported(
    validate: Validate, changes: list[tuple[str, str]]
) -> None:
    assert len(validate(*changes)["mistakes"]) == 1


def test_a_step_that_combines_rows_does_not_hide_the_mistakes_after_it(validate: Validate) -> None:
    found = validate(("day FROM source", "day FROM source LIMIT 5"), ("amount > 0", "amout > 0"))
    assert [each["path"] for each in found["mistakes"]] == ["transform[0].sql", "expect[0].sql"]


def test_steps_that_combine_rows_are_valid_if_their_scope_is_a_batch(
    validate: Validate,
) -> None:
    by_sql = (
        "sql: SELECT id, amount, day FROM source",
        "{sql: SELECT * FROM source, scope: batch}",
    )
    grouped = ("python: steps.py:doubled", "{python: steps.py:grouped, scope: batch}")
    limited = (by_sql[0], "{sql: SELECT * FROM source LIMIT 5, scope: batch}")
    assert validate(by_sql, grouped)["valid"]
    assert validate(limited)["valid"]


def test_validation_leaves_no_files_behind(validate: Validate, tmp_path: Path) -> None:
    validate()
    assert sorted(each.name for each in tmp_path.iterdir() if each.suffix) == [
        "orders.yaml",
        "steps.py",
    ]
    assert not (tmp_path / "checkpoint").exists()
    assert not (tmp_path / "table").exists()
