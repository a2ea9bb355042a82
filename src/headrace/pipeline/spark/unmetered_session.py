"""A copy of a session that does not measure the size of its Arrow batches after each row.

Spark collects rows in Arrow batches for its Python workers, up to a limit in rows and a limit in
bytes. For the limit in bytes, it computes the sizes of all columns after each row. With rows of 100
bytes, this takes a third of a task's time in the JVM. If tasks check the size of the records that
they read (`source.byte_limit`), the limit in rows is sufficient.

The setting belongs to a session, and flows share a session. So a flow that does not need the limit
in bytes gets a copy with the same views, functions and settings.
"""

from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.pipeline.source.byte_limit import ByteLimit
from headrace.pipeline.spec.flow import Flow, SqlStep
from headrace.pipeline.spec.select import read_select
from headrace.pipeline.spec.sinks import TableSink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BYTES: Final = "spark.sql.execution.arrow.maxBytesPerBatch"
ROWS: Final = "spark.sql.execution.arrow.maxRecordsPerBatch"
SPARKS_BYTES: Final = 64 << 20
"""Spark's default."""
UNLIMITED: Final = (1 << 31) - 1
MOST_ROWS: Final = 10_000


class UnmeteredSession(NamedTuple):
    """The copy of the session, and the byte limit that its tasks must check."""

    spark: "SparkSession"
    bound: ByteLimit


def can_run_unmetered(flow: Flow) -> bool:
    """Whether rows are about as large as their source records, and in the same order.
    A Python step may do anything. `explode` repeats the other columns for each element. A merge
    brings distant records together by key. For a topic, a batch must not be written twice
    unnecessarily.
    """
    sql = [read_select(step.sql) for step in flow.transform if isinstance(step, SqlStep)]
    return (
        isinstance(flow.sink, TableSink)
        and flow.sink.mode == "append"
        and len(sql) == len(flow.transform)
        and not any(each.untraceable or each.generates for each in sql)
    )


def open_unmetered_session(spark: "SparkSession") -> UnmeteredSession | None:
    """None for Spark Connect, and if the limits are not Spark's defaults: a changed limit has a
    reason."""
    from pyspark.sql import SparkSession

    if type(spark) is not SparkSession:  # Spark Connect has another class
        return None
    rows = int(spark.conf.get(ROWS) or 0)
    if spark.conf.get(BYTES) != f"{SPARKS_BYTES}b" or not 0 < rows <= MOST_ROWS:
        return None
    copy = SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())
    copy.conf.set(BYTES, str(UNLIMITED))
    return UnmeteredSession(copy, ByteLimit(rows, SPARKS_BYTES))
