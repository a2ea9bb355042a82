"""The states of one record in a share group, and the state after an acknowledgement.

A record that has used up its deliveries is not delivered again: it is archived, or first copied to
a dead-letter topic.
"""

from enum import IntEnum
from typing import Final, NamedTuple

from headrace.share.share_rules import ShareRules


class RecordState(IntEnum):
    """Kafka's delivery states; the numbers are stored in `__share_group_state`."""

    AVAILABLE = 0
    ACQUIRED = 1  # never stored: a lock does not outlive the leader
    ACKNOWLEDGED = 2
    ARCHIVING = 3  # not delivered again; waits for its copy in the dead-letter topic
    ARCHIVED = 4

    @property
    def is_final(self) -> bool:
        """Whether the record is finished: no further delivery, and no dead letter to write."""
        return self is RecordState.ACKNOWLEDGED or self is RecordState.ARCHIVED


class AcknowledgeType(IntEnum):
    """The ways in which a consumer acknowledges a record. A gap is an offset without a record."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


_AFTER: Final = {
    AcknowledgeType.GAP: RecordState.ARCHIVED,
    AcknowledgeType.ACCEPT: RecordState.ACKNOWLEDGED,
    AcknowledgeType.RELEASE: RecordState.AVAILABLE,
    AcknowledgeType.REJECT: RecordState.ARCHIVED,
}


def next_state(deliveries: int, kind: AcknowledgeType, rules: ShareRules) -> RecordState:
    """The state of a record that was acquired, after this acknowledgement."""
    state = _AFTER[kind]
    if state is RecordState.AVAILABLE and deliveries >= rules.max_deliveries:
        state = RecordState.ARCHIVED
    if state is RecordState.ARCHIVED and kind is not AcknowledgeType.GAP and rules.dead_letters:
        return RecordState.ARCHIVING
    return state


class Acknowledgement(NamedTuple):
    """One type for all offsets from `first` to `last`."""

    first: int
    last: int
    kind: AcknowledgeType


class Acquired(NamedTuple):
    """Records that a member acquired; `deliveries` counts this delivery."""

    first: int
    last: int
    deliveries: int


class StateBatch(NamedTuple):
    """Offsets that share a state, as they are stored."""

    first: int
    last: int
    state: RecordState
    deliveries: int


class RejectedRecord(NamedTuple):
    """Records that are not delivered again and must be copied before they are archived."""

    first: int
    last: int
    deliveries: int
    rejected: bool
