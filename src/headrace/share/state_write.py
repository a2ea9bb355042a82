"""A change that a share partition asks to store."""

from dataclasses import dataclass

from headrace.share.record_state import StateBatch


@dataclass(frozen=True, slots=True, eq=False)
class StateWrite:
    """A change for `__share_group_state`; compared by identity."""

    start_offset: int
    complete_count: int
    """Offsets from the start on whose delivery is complete; the lag does not count them
    (KIP-1226)."""
    batches: tuple[StateBatch, ...]
