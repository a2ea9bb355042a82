"""Classifies the error of a batch: retry it, or stop and report it. Pure.

Errors of Spark's tasks arrive as text, often of hundreds of lines. This module finds the one line
that matters.
"""

import re
from typing import Final, NamedTuple

from headrace.client.errors import ClientError, DeadlineExceeded
from headrace.pipeline.formats.errors import FormatError, RegistryUnreachable
from headrace.pipeline.producer.errors import (
    CommitUncertain,
    NotAcknowledged,
    ProducerFailed,
    ProducerFenced,
    TriedAgain,
)
from headrace.pipeline.source.settings import DataLost, ReadFailed

# Spark's messages for a lost process or machine. The work itself may be correct.
_PASSING: Final = (
    "Python worker exited unexpectedly",
    "failed to connect back",
    "ExecutorLostFailure",
    "Connection refused",
    "Connection reset",
    "Connection aborted",
    "StatusCode.UNAVAILABLE",
    "executor lost",
    "Executor heartbeat timed out",
    "INVALID_HANDLE.SESSION_CHANGED",
)
_GONE: Final = ("SparkContext was shut down", "Answer from Java side is empty", "Py4JNetworkError")
_PRODUCING: Final = {
    # Errors of tasks that write to a topic, and whether a retry can succeed.
    NotAcknowledged.__name__: True,
    TriedAgain.__name__: True,
    ProducerFenced.__name__: False,
    ProducerFailed.__name__: False,
}
_RAISED: Final = re.compile(r"^\s*((?:[A-Za-z_]\w*\.)*[A-Z]\w*): (.*)$", re.MULTILINE)
_CONDITION: Final = re.compile(r"\[[A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*\] .*")
_OWN: Final = frozenset({"SinkError", "FormatError", "RegistryError", "RegistryUnreachable"})
"""Errors whose message needs no further explanation."""
_REACHING: Final = frozenset(
    {
        "RegistryUnreachable",
        "ConnectionError",
        "ConnectionRefusedError",
        "ConnectionResetError",
        "BrokenPipeError",
        "TimeoutError",
    }
)
"""Errors that a task raises when a service does not answer."""
_NOISE: Final = ("org.apache.spark", "java.", "py4j", "pyspark", "scala.", "Caused by")
_FULL: Final = ("no space left on device", "database or disk is full", "disk quota exceeded")
FREE_SPACE: Final = (
    "The disk is full: free some of it, or make it larger, and start again; the batch that could "
    "not be written is done anew, and no row is lost or doubled"
)
MAX_MESSAGE: Final = 2000


class BatchFailure(NamedTuple):
    """The message to report, and whether to retry."""

    message: str
    retriable: bool = False
    unreachable: bool = False


def failure_of(error: BaseException) -> BatchFailure:
    """Returns the classification of an error."""
    found = _classify(error)
    if any(sign in str(error).lower() for sign in _FULL):
        return BatchFailure(f"{found.message[:MAX_MESSAGE]}. {FREE_SPACE}")
    return found


def _classify(error: BaseException) -> BatchFailure:
    match error:
        case RegistryUnreachable():
            return BatchFailure(str(error), retriable=True, unreachable=True)
        case DataLost():
            return BatchFailure(str(error), retriable=True)  # the next plan resolves it
        case FormatError():
            return BatchFailure(str(error))
        case ReadFailed():
            return _read_failure(error)
        case ProducerFailed():
            return _producer_failure(error)
        case ClientError():
            return BatchFailure(str(error), retriable=_is_retriable(error), unreachable=True)
    if _is_spark_error(error):
        return _spark_failure(error)
    return BatchFailure(str(error) or type(error).__name__)


def _read_failure(error: ReadFailed) -> BatchFailure:
    cause = error.__cause__
    if isinstance(cause, ClientError):
        return BatchFailure(str(error), retriable=_is_retriable(cause), unreachable=True)
    return BatchFailure(str(error), retriable="is damaged" not in str(error))


def _producer_failure(error: ProducerFailed) -> BatchFailure:
    """An unreachable broker may come back, so a retry can succeed. A rejection is final."""
    cause = error.__cause__
    if isinstance(error, CommitUncertain | TriedAgain):
        return BatchFailure(str(error), retriable=True, unreachable=True)
    if isinstance(cause, ClientError):
        return BatchFailure(str(error), retriable=_is_retriable(cause), unreachable=True)
    return BatchFailure(str(error))


def _is_retriable(error: ClientError) -> bool:
    return error.retriable or isinstance(error, DeadlineExceeded)


def _is_spark_error(error: BaseException) -> bool:
    return type(error).__module__.split(".")[0] in ("pyspark", "py4j", "grpc")


def _spark_failure(error: BaseException) -> BatchFailure:
    text = str(error)
    if any(sign in text or sign in type(error).__name__ for sign in _GONE):
        return BatchFailure("Spark's own process has gone; its log says why")
    lacking = _missing_on_workers(text)
    if lacking is not None:
        return BatchFailure(lacking)
    raised = raised_exception(text)
    if raised is not None:
        name, message = raised
        if name in ("DataLost", "ReadFailed"):
            return BatchFailure(message, retriable="is damaged" not in message)
        if name in _PRODUCING:
            return BatchFailure(message, retriable=_PRODUCING[name], unreachable=_PRODUCING[name])
        reaching = name in _REACHING
        shown = message if name in _OWN else f"a task failed with {name}: {message}"
        return BatchFailure(shown[:MAX_MESSAGE], retriable=reaching, unreachable=reaching)
    condition = _CONDITION.search(text)
    shown = condition[0].partition(" SQLSTATE")[0] if condition else text.strip()
    return BatchFailure(shown[:MAX_MESSAGE], retriable=any(sign in text for sign in _PASSING))


def _missing_on_workers(text: str) -> str | None:
    """Returns the software that Spark's workers lack, and how to install it.

    Returns None if the error has another cause.
    """
    advice = (
        "the workers need the Python and the packages of this machine: install "
        "'headrace[pipeline]' there in the same version, and name their Python by "
        "spark.pyspark.python under spark: if its path differs"
    )
    module = re.search(r"ModuleNotFoundError: No module named '([\w.]+)'", text)
    if module is not None:
        return f"there is no module {module[1]} on Spark's workers: {advice}"
    if "DATA_SOURCE_NOT_FOUND" in text and "headrace" in text:
        return f"Spark does not find the data source headrace: {advice}"
    if "No FileSystem for scheme" in text or "S3AFileSystem not found" in text:
        return (
            "Spark itself reads the files of this source, and has no S3 client: read them from "
            "disk, or give it Hadoop's (spark.jars.packages under spark:)"
        )
    program = re.search(r'Cannot run program "([^"]+)"', text)
    if program is not None:
        return f"there is no {program[1]} on Spark's workers: {advice}"
    return None


def raised_exception(text: str) -> tuple[str, str] | None:
    """Returns the name and message of the Python exception at the end of Spark's traceback."""
    _, traceback, rest = text.rpartition("Traceback (most recent call last)")
    if not traceback:
        return None
    for name, message in _RAISED.findall(rest):
        if not name.startswith(_NOISE):
            return name.rpartition(".")[2], message.strip()
    return None
