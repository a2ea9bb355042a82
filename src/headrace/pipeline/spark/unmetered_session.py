"""A copy of a session that does not measure what it hands to Python at every row.

Spark collects rows in Arrow batches for its Python workers, up to so many rows or so many bytes.
For the bytes it asks all columns of the batch for their sizes after each row, which took a third of
a task's time in the JVM for rows of 100 bytes. Where tasks look after the sizes of what they read
themselves (`source.bound`), the number of rows is limit enough.

The setting belongs to a session, and flows share theirs: so a flow that can do without the question
gets a copy, with the same views, functions and settings.
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
"""Unless somebody has chosen another limit."""
UNLIMITED: Final = (1 << 31) - 1
MOST_ROWS: Final = 10_000


class QuickSession(NamedTuple):
    """The copy, and what its tasks must keep to."""

    spark: "SparkSession"
    bound: ByteLimit


def can_be_quick(flow: Flow) -> bool:
    """Whether rows are about as large as the records that they come from, and in their order.

    Python may do anything, `explode` repeats the other columns for each element, and a merge brings
    together by key what lay far apart. Into a topic no batch is written twice without need.
    """
    sql = [read_select(step.sql) for step in flow.transform if isinstance(step, SqlStep)]
    return (
        isinstance(flow.sink, TableSink)
        and flow.sink.mode == "append"
        and len(sql) == len(flow.transform)
        and not any(each.untraceable or each.generates for each in sql)
    )


def quick_session(spark: "SparkSession") -> QuickSession | None:
    """None where there is none to be had: over Spark Connect, or where the limits are not Spark's
    own, as somebody had a reason for that."""
    from pyspark.sql import SparkSession

    if type(spark) is not SparkSession:  # that of Spark Connect has the same name, elsewhere
        return None
    rows = int(spark.conf.get(ROWS) or 0)
    if spark.conf.get(BYTES) != f"{SPARKS_BYTES}b" or not 0 < rows <= MOST_ROWS:
        return None
    copy = SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())
    copy.conf.set(BYTES, str(UNLIMITED))
    return QuickSession(copy, ByteLimit(rows, SPARKS_BYTES))
