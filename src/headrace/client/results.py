"""The result for one item of a request about many: a value or a `Refusal`. Pure."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

from headrace.client.errors import code_of_number
from headrace.protocol.errors import ErrorCode

T = TypeVar("T")

# The broker no longer has the role; the same request may succeed at another broker.
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


def group_by_topic(
    partitions: Iterable[TopicPartition], item: Callable[[TopicPartition], T]
) -> dict[str, list[T]]:
    """The item of each partition, by topic, as requests list them."""
    topics: dict[str, list[T]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(item(TopicPartition(topic, index)))
    return topics


def indexes_by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """The partition indexes of each topic."""
    return group_by_topic(partitions, lambda each: each.partition)


@dataclass(frozen=True, slots=True)
class Refusal:
    """The broker's error for one item."""

    code: ErrorCode
    message: str

    def __str__(self) -> str:
        return f"{self.code.name}: {self.message}"


def refusal(number: int, message: str | None = None) -> Refusal | None:
    """The refusal for an item's error code; None means success."""
    if not number:
        return None
    code = code_of_number(number)
    return Refusal(code, message or code.message)


def refused(number: int, message: str | None = None) -> Refusal:
    """The refusal for an error code that the caller knows not to be 0."""
    return refusal(number, message) or Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, "no reason given")


def moved(codes: Iterable[int]) -> int:
    """The first code that requires sending the whole request to another broker; 0 if none does.

    Other retriable codes stay with their item: an unknown topic is a result, not a reason to wait.
    """
    return next((code for code in codes if code in MOVED), 0)
