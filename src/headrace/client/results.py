"""What became of one item of a request that named many: its value, or why not. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from headrace.client.errors import code_of_number
from headrace.protocol.errors import ErrorCode

# The receiver has changed its role; the same request may succeed elsewhere.
MOVED: Final = frozenset(
    {
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    }
)


class TopicPartition(NamedTuple):
    """One partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why the broker did not do it."""

    code: ErrorCode
    message: str

    def __str__(self) -> str:
        return f"{self.code.name}: {self.message}"


def refusal(number: int, message: str | None = None) -> Refusal | None:
    """What the code of an item means; None is success."""
    if not number:
        return None
    code = code_of_number(number)
    return Refusal(code, message or code.message)


def refused(number: int, message: str | None = None) -> Refusal:
    """As `refusal`, where the caller knows that there is an error."""
    return refusal(number, message) or Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, "no reason given")


def moved(codes: Iterable[int]) -> int:
    """The first code that sends the whole request elsewhere; 0 if there is none.

    Other retriable codes stay with their item: an unknown topic is worth an answer, not a wait.
    """
    return next((code for code in codes if code in MOVED), 0)
