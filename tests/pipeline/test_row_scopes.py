"""A step that combines rows is rejected by its Spark plan, unless its scope is a batch."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.pipeline.application.spec_loader import parse_spec
from headrace.pipeline.batch.stateful_plan import StatefulStep, row_combining_nodes
from headrace.pipeline.batch.transform import run_step
from headrace.pipeline.spec import PythonStep, SqlStep
from headrace.pipeline.spec.flow import Flow
from headrace.pipeline.spec.stateful_sql import NotReadable, parse_query, row_scope
from support.pipelines.row_scopes import ACROSS_ROWS, ROW_BY_ROW

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.xdist_group("spark")

COLUMNS = "id BIGINT, i BIGINT, xs ARRAY<INT>, ts TIMESTAMP"
OWN = "_record STRUCT<offset: BIGINT>, _error STRUCT<class: STRING>, _deleted BOOLEAN"
SPEC = "{pipeline: p, source: {topics: [t]}, sink: {format: parquet, table: t}}"
STEPS = """
from pyspark.sql import Window, functions as F

def columns(rows):
    return rows.where("i > 0").withColumn("j", F.explode("xs")).withColumnRenamed("i", "k")

def with_other(rows):
    return rows.join(rows.sparkSession.table("other").groupBy("id").count(), "id", "left")

def repeated(rows):
    return rows.select("id").unionByName(rows.select(F.col("i").alias("id")))

def in_arrow(rows):
    return rows.mapInArrow(lambda batches: batches, rows.schema)

def spread(rows):
    return rows.repartition(4, "id").sortWithinPartitions("ts")

def with_text(rows):
    return rows.withColumn("text", F.lit("two\\nlines"))

def grouped(rows):
    return rows.groupBy("id").agg(F.count("*").alias("n"))

def in_pandas(rows):
    return rows.groupBy("id").applyInPandas(lambda group: group, rows.schema)

def once(rows):
    return rows.dropDuplicates(["id"])

def ranked(rows):
    return rows.withColumn("n", F.row_number().over(Window.partitionBy("id").orderBy("ts")))

def few(rows):
    return rows.limit(5)

def ordered(rows):
    return rows.orderBy("ts")

def sampled(rows):
    return rows.sample(0.5)

def paired(rows):
    return rows.select("id").join(rows.selectExpr("id AS other_id"), F.expr("id = other_id"))

def by_sql(rows):
    rows.createOrReplaceTempView("mine")
    return rows.sparkSession.sql("SELECT max(id) AS id FROM mine")

def collected(rows):
    return rows.sparkSession.createDataFrame(rows.groupBy("id").count().toPandas(), "id int")
"""
Run = Callable[..., "DataFrame"]


@pytest.fixture
def run(spark: "SparkSession", tmp_path: Path) -> Iterator[Run]:
    """Runs one step on no rows."""
    spark.range(3).createOrReplaceTempView("other")
    (tmp_path / "steps.py").write_text(STEPS)
    rows = spark.createDataFrame([], f"{COLUMNS}, {OWN}")

    def run_one(scope: str = "row", **step: str) -> "DataFrame":
        return run_step(rows, flow_with({**step, "scope": scope}), 0)

    def flow_with(step: dict[str, str]) -> Flow:
        """The spec would reject this text; here the plan decides."""
        made = SqlStep.model_validate(step) if "sql" in step else PythonStep.model_validate(step)
        return parse_spec(SPEC).resolved()[0].model_copy(update={"transform": (made,)})

    yield run_one
    spark.catalog.dropTempView("other")
    sys.modules.pop("headrace_step_steps", None)


@pytest.mark.parametrize("sql", ROW_BY_ROW)
def test_sql_that_handles_each_row_separately_runs(run: Run, sql: str) -> None:
    run(sql=sql)


@pytest.mark.parametrize("sql", [sql for sql, _ in ACROSS_ROWS])
def test_sql_that_combines_rows_is_rejected_by_its_plan(run: Run, sql: str) -> None:
    with pytest.raises(StatefulStep, match="each batch would be computed by itself"):
        run(sql=sql)
    run("batch", sql=sql)


@pytest.mark.parametrize(
    "function", ["columns", "with_other", "repeated", "in_arrow", "spread", "with_text"]
)
def test_python_that_handles_each_row_separately_runs(
    run: Run, tmp_path: Path, function: str
) -> None:
    run(python=f"{tmp_path}/steps.py:{function}")


@pytest.mark.parametrize(
    ("function", "why"),
    [
        ("grouped", "an aggregation"),
        ("in_pandas", "a grouping"),
        ("once", "a removal of duplicates"),
        ("ranked", "a window function"),
        ("few", "a limit"),
        ("ordered", "a sort"),
        ("sampled", "a sample"),
        ("paired", "a join of the step's rows with themselves"),
        ("by_sql", "an aggregation"),
        ("collected", "does not trace"),
    ],
)
def test_python_that_combines_rows_is_rejected(
    run: Run, tmp_path: Path, function: str, why: str
) -> None:
    with pytest.raises(StatefulStep, match=why):
        run(python=f"{tmp_path}/steps.py:{function}")
    run("batch", python=f"{tmp_path}/steps.py:{function}")


def test_every_aggregate_function_of_spark_is_recognized_by_name(spark: "SparkSession") -> None:

    registry = spark._jsparkSession.sessionState().functionRegistry()
    names = registry.listFunction().iterator()
    unknown = []
    while names.hasNext():
        name = names.next()
        if registry.lookupFunction(name).get().getGroup() == "agg_funcs":
            calls = [f"{name.funcName()}({given})" for given in ("x", "x, 1", "x, 1, 1", "")]
            if not any(_is_known(call) for call in calls):
                unknown.append(name.funcName())
    assert unknown == []


def _is_known(call: str) -> bool:
    try:
        return bool(row_scope(parse_query(f"SELECT {call} AS a FROM source")).crosses_rows)
    except NotReadable:
        return False


def test_plan_nodes_below_the_steps_input_are_ignored() -> None:
    plan = (
        "Project [a]\n+- SubqueryAlias mine\n   +- Aggregate [a], [a]\n      +- LocalRelation [a]\n"
    )
    assert row_combining_nodes(plan, "mine") == ""
    assert row_combining_nodes("Aggregate [a]\n+- SubqueryAlias mine\n", "mine") == "an aggregation"
    assert "does not trace" in row_combining_nodes("LocalRelation [a]\n", "mine")
