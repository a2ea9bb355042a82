"""What a share partition asks to have stored."""

from dataclasses import dataclass

from headrace.share.record_state import StateBatch


@dataclass(frozen=True, slots=True, eq=False)
class StateWrite:
    """A change on its way to `__share_group_state`; each one is itself, whatever it holds."""

    start_offset: int
    complete_count: int
    """Offsets from the start on whose delivery is over; the lag leaves them out (KIP-1226)."""
    batches: tuple[StateBatch, ...]
