"""The reasons why a transaction failed, and what to do about them."""

from collections.abc import Mapping
from typing import Final

from headrace.protocol.errors import ErrorCode

_FENCED: Final = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.TRANSACTION_COORDINATOR_FENCED,
    }
)
_ADVICE: Final[Mapping[ErrorCode, str]] = {
    ErrorCode.MESSAGE_TOO_LARGE: "raise max.message.bytes of the topic",
    ErrorCode.RECORD_LIST_TOO_LARGE: "raise segment.bytes of the topic",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "allow this user to write to the topic",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "allow this user to read as the group",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: (
        "allow this user to write with the transactional id"
    ),
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: (
        "lower transaction.timeout.ms, or raise the broker's transaction.max.timeout.ms"
    ),
    ErrorCode.INVALID_TXN_STATE: "the broker ended the transaction, perhaps because it took "
    "longer than transaction.timeout.ms: make batches smaller, or raise it",
    ErrorCode.TRANSACTION_ABORTABLE: "run the batch again",
    ErrorCode.OFFSET_METADATA_TOO_LARGE: "raise the broker's offset.metadata.max.bytes",
    ErrorCode.INVALID_TIMESTAMP: (
        "set message.timestamp.before.max.ms of the topic high enough for old records"
    ),
    ErrorCode.INVALID_RECORD: "a compacted topic takes records with keys only",
}


class ProducerFailed(Exception):
    """The transaction cannot be completed; readers will not see any part of it."""


class ProducerFenced(ProducerFailed):
    """Another producer has taken over the transactional id, or the broker fenced this one."""


class CommitUncertain(ProducerFailed):
    """The commit got no answer: only the marker in the log shows how the transaction ended."""


class NotAcknowledged(ProducerFailed):
    """The brokers did not answer, or did not accept records, before the timeout."""


class TriedAgain(ProducerFailed):
    """A task ran again after it had written in the transaction: the whole batch must be redone."""


_NAMED: Final[Mapping[str, type[ProducerFailed]]] = {
    each.__name__: each for each in (ProducerFailed, ProducerFenced, NotAcknowledged, TriedAgain)
}


def failure_named(name: str, message: str) -> ProducerFailed:
    """Rebuilds an error from the text that another process sent."""
    return _NAMED.get(name, ProducerFailed)(message)


def failure(code: ErrorCode, what: str) -> ProducerFailed:
    """The exception for a broker error code."""
    if code in _FENCED:
        return ProducerFenced(
            f"{what}: {code.name}. Another run writes with the same transactional id, or this one "
            "took longer than transaction.timeout.ms. Make sure that it runs once only; then "
            "start it again: it resumes where the last commit ends"
        )
    advice = _ADVICE.get(code)
    return ProducerFailed(
        f"{what}: {code.name} ({code.message})" + (f" To do: {advice}" if advice else "")
    )
