"""The relevant line of an error is reported, and whether a retry may help."""

import pytest
from pyspark.errors import AnalysisException, PythonException

from headrace.client.errors import AuthenticationFailed, ConnectionFailed
from headrace.pipeline.batch.planner import PlanError
from headrace.pipeline.producer.errors import CommitUncertain, ProducerFailed, ProducerFenced
from headrace.pipeline.runner.failures import FREE_SPACE, failure_of, raised_exception
from headrace.pipeline.sinks.table_sink import SinkError
from headrace.pipeline.source.settings import DataLost, ReadFailed
from headrace.pipeline.spark.session import is_on_this_machine, java_version

IN_A_TASK = """\
Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 times, most recent failure: Lost task
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "worker.py", line 12, in main
    process()
headrace.pipeline.source.record_reader.{error}
\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(P.scala:1)
\tat java.base/java.lang.Thread.run(Thread.java:840)
Driver stacktrace:
"""


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    "error",
    [
        caused(ReadFailed("cannot be asked"), ConnectionFailed("refused")),
        PythonException(IN_A_TASK.format(error="ReadFailed: t-0: the leader is gone")),
        DataLost("gone"),
        PythonException(IN_A_TASK.format(error="DataLost: t-0: offsets were deleted")),
        PythonException(IN_A_TASK.format(error="RegistryUnreachable: it does not answer")),
        PythonException("Python worker exited unexpectedly (crashed): EOF"),
        PythonException("ExecutorLostFailure (executor 1 exited)"),
        caused(ProducerFailed("no answer"), ConnectionFailed("refused")),
        CommitUncertain("no answer"),
    ],
)
def test_transient_failures_are_retried(error: Exception) -> None:
    assert failure_of(error).retriable


@pytest.mark.parametrize(
    "error",
    [
        caused(ReadFailed("cannot be asked"), AuthenticationFailed("no")),
        PlanError("recreated"),
        SinkError("a column of another type"),
        ProducerFenced("another run"),
        ProducerFailed("INVALID_RECORD To do: keys"),
        PythonException(IN_A_TASK.format(error="ReadFailed: t-0: the batch at 5 is damaged")),
        PythonException(IN_A_TASK.format(error="ZeroDivisionError: division by zero")),
        PythonException(IN_A_TASK.format(error="RegistryError: it refuses access")),
        PythonException("Lost task 0.0: SparkArithmeticException: [DIVIDE_BY_ZERO] Division"),
        AnalysisException("[UNRESOLVED_COLUMN] there is no column x"),
        OSError(28, "No space left on device"),
    ],
)
def test_permanent_failures_are_not_retried(error: Exception) -> None:
    assert not failure_of(error).retriable


@pytest.mark.parametrize(
    "error",
    [
        OSError(28, "No space left on device"),
        PythonException(IN_A_TASK.format(error="OSError: [Errno 28] No space left on device: 'x'")),
        RuntimeError("(sqlite3.OperationalError) database or disk is full"),
    ],
)
def test_a_full_disk_is_reported_with_advice(error: Exception) -> None:
    failure = failure_of(error)
    assert not failure.retriable
    assert FREE_SPACE in failure.message


def test_the_relevant_line_of_an_error_is_found() -> None:
    text = IN_A_TASK.format(error="DataLost: t-0: offsets were deleted")
    assert raised_exception(text) == ("DataLost", "t-0: offsets were deleted")
    assert failure_of(PythonException(text)).message == "t-0: offsets were deleted"
    assert raised_exception("no traceback: here") is None


@pytest.mark.parametrize(
    ("text", "lacking"),
    [
        (
            "Traceback (most recent call last):\nModuleNotFoundError: No module named 'headrace'",
            "there is no module headrace on Spark's workers",
        ),
        (
            'java.io.IOException: Cannot run program "/opt/x/python": error=2, No such file',
            "there is no /opt/x/python on Spark's workers",
        ),
        (
            "[DATA_SOURCE_NOT_FOUND] Failed to find the data source: headrace. Make sure",
            "does not find the data source headrace",
        ),
    ],
)
def test_a_package_missing_on_workers_is_reported_with_how_to_install_it(
    text: str, lacking: str
) -> None:
    failure = failure_of(PythonException(text))
    assert lacking in failure.message
    assert "install 'headrace[pipeline]' there" in failure.message
    assert not failure.retriable


def test_bucket_files_that_spark_cannot_read_are_reported() -> None:
    failure = failure_of(
        PythonException('UnsupportedFileSystemException: No FileSystem for scheme "s3"')
    )
    assert "has no S3 client" in failure.message


def test_an_unreachable_spark_cluster_is_recognized() -> None:
    assert failure_of(caused(ReadFailed("x"), ConnectionFailed("refused"))).unreachable
    assert not failure_of(PlanError("x")).unreachable


def test_the_java_version_is_parsed_from_its_output() -> None:
    assert java_version('openjdk version "17.0.15" 2025-04-15') == 17
    assert java_version('openjdk version "21" 2023-09-19') == 21
    assert java_version('java version "1.8.0_392"') == 8
    assert java_version("nonsense") is None


@pytest.mark.parametrize(
    ("master", "here"),
    [
        ("local[2]", True),
        ("spark://127.0.0.1:7077", True),
        ("spark://localhost:7077", True),
        ("spark://10.0.0.1:7077", False),
        ("spark://a:7077,b:7077", False),
        ("yarn", False),
    ],
)
def test_a_cluster_on_this_machine_is_reached_over_loopback(master: str, here: bool) -> None:
    assert is_on_this_machine(master) is here
