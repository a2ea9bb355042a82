"""What went wrong with a batch: worth another try, or a person's turn. Pure.

Errors of Spark's tasks arrive as text, often hundreds of lines of it; the one line that matters is
found here.
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

# What Spark says when a process or a machine has gone, not when the work is wrong.
_PASSING: Final = (
    "Python worker exited unexpectedly",
    "failed to connect back",
    "ExecutorLostFailure",
    "Connection refused",
    "Connection reset",
    "Connection aborted",
    "StatusCode.UNAVAILABLE",
    "Lost task",
    "executor lost",
    "Executor heartbeat timed out",
    "INVALID_HANDLE.SESSION_CHANGED",
)
_GONE: Final = ("SparkContext was shut down", "Answer from Java side is empty", "Py4JNetworkError")
_PRODUCING: Final = {
    # What tasks that write to a topic raise, and whether it passes.
    NotAcknowledged.__name__: True,
    TriedAgain.__name__: True,
    ProducerFenced.__name__: False,
    ProducerFailed.__name__: False,
}
_RAISED: Final = re.compile(r"^\s*((?:[A-Za-z_]\w*\.)*[A-Z]\w*): (.*)$", re.MULTILINE)
_NOISE: Final = ("org.apache.spark", "java.", "py4j", "pyspark", "scala.", "Caused by")
MAX_MESSAGE: Final = 2000


class Failure(NamedTuple):
    """What to tell, and whether to try again."""

    message: str
    passing: bool = False
    unreachable: bool = False


def failure_of(error: BaseException) -> Failure:
    """How an error of a batch is to be taken."""
    match error:
        case RegistryUnreachable():
            return Failure(str(error), passing=True, unreachable=True)
        case DataLost() | FormatError():
            return Failure(str(error))
        case ReadFailed():
            return _reading(error)
        case ProducerFailed():
            return _producing(error)
        case ClientError():
            return Failure(str(error), passing=_is_passing(error), unreachable=True)
    if _is_sparks(error):
        return _sparks(error)
    return Failure(str(error) or type(error).__name__)


def _reading(error: ReadFailed) -> Failure:
    cause = error.__cause__
    if isinstance(cause, ClientError):
        return Failure(str(error), passing=_is_passing(cause), unreachable=True)
    return Failure(str(error), passing="is damaged" not in str(error))


def _producing(error: ProducerFailed) -> Failure:
    """A broker that does not answer may come back; what it has refused stays refused."""
    cause = error.__cause__
    if isinstance(error, CommitUncertain | TriedAgain):
        return Failure(str(error), passing=True, unreachable=True)
    if isinstance(cause, ClientError):
        return Failure(str(error), passing=_is_passing(cause), unreachable=True)
    return Failure(str(error))


def _is_passing(error: ClientError) -> bool:
    return error.retriable or isinstance(error, DeadlineExceeded)


def _is_sparks(error: BaseException) -> bool:
    return type(error).__module__.split(".")[0] in ("pyspark", "py4j", "grpc")


def _sparks(error: BaseException) -> Failure:
    text = str(error)
    if any(sign in text or sign in type(error).__name__ for sign in _GONE):
        return Failure("Spark's own process has gone; its log says why")
    raised = raised_in(text)
    if raised is not None:
        name, message = raised
        if name == "DataLost":
            return Failure(message)
        if name == "ReadFailed":
            return Failure(message, passing="is damaged" not in message)
        if name in _PRODUCING:
            return Failure(message, passing=_PRODUCING[name], unreachable=_PRODUCING[name])
        shown = message if name in ("SinkError", "FormatError") else f"{name}: {message}"
        return Failure(shown[:MAX_MESSAGE], passing=_passes(text, name))
    return Failure(text.strip()[:MAX_MESSAGE], passing=_passes(text, ""))


def _passes(text: str, name: str) -> bool:
    if name in ("SinkError", "FormatError", "OSError"):
        return False
    return any(sign in text for sign in _PASSING)


def raised_in(text: str) -> tuple[str, str] | None:
    """The Python exception at the end of the traceback in Spark's text: its name and message."""
    _, traceback, rest = text.rpartition("Traceback (most recent call last)")
    if not traceback:
        return None
    for name, message in _RAISED.findall(rest):
        if not name.startswith(_NOISE):
            return name.rpartition(".")[2], message.strip()
    return None
