"""Of an error's many lines the one that matters is told, and whether another try may help."""

import pytest
from pyspark.errors import AnalysisException, PythonException

from headrace.client.errors import AuthenticationFailed, ConnectionFailed
from headrace.pipeline.producer.errors import CommitUncertain, ProducerFailed, ProducerFenced
from headrace.pipeline.runner.failures import failure_of, raised_in
from headrace.pipeline.runner.planner import PlanError
from headrace.pipeline.runner.session import is_on_this_machine, java_version
from headrace.pipeline.sinks.table import SinkError
from headrace.pipeline.source.settings import DataLost, ReadFailed

IN_A_TASK = """\
Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 times, most recent failure: Lost task
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "worker.py", line 12, in main
    process()
headrace.pipeline.source.reading.{error}
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
        PythonException("Python worker exited unexpectedly (crashed): EOF"),
        PythonException("ExecutorLostFailure (executor 1 exited)"),
        caused(ProducerFailed("no answer"), ConnectionFailed("refused")),
        CommitUncertain("no answer"),
    ],
)
def test_what_may_pass_is_tried_again(error: Exception) -> None:
    assert failure_of(error).passing


@pytest.mark.parametrize(
    "error",
    [
        caused(ReadFailed("cannot be asked"), AuthenticationFailed("no")),
        DataLost("gone"),
        PlanError("recreated"),
        SinkError("a column of another type"),
        ProducerFenced("another run"),
        ProducerFailed("INVALID_RECORD To do: keys"),
        PythonException(IN_A_TASK.format(error="DataLost: t-0: offsets were deleted")),
        PythonException(IN_A_TASK.format(error="ReadFailed: t-0: the batch at 5 is damaged")),
        AnalysisException("[UNRESOLVED_COLUMN] there is no column x"),
        OSError(28, "No space left on device"),
    ],
)
def test_what_a_person_must_mend_is_not(error: Exception) -> None:
    assert not failure_of(error).passing


def test_the_line_that_matters_is_found() -> None:
    text = IN_A_TASK.format(error="DataLost: t-0: offsets were deleted")
    assert raised_in(text) == ("DataLost", "t-0: offsets were deleted")
    assert failure_of(PythonException(text)).message == "t-0: offsets were deleted"
    assert raised_in("no traceback: here") is None


def test_a_cluster_that_cannot_be_reached_is_known_as_such() -> None:
    assert failure_of(caused(ReadFailed("x"), ConnectionFailed("refused"))).unreachable
    assert not failure_of(PlanError("x")).unreachable


def test_javas_version_is_read_from_what_it_prints() -> None:
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
