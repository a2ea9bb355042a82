"""An aborted transaction: read_committed readers skip its records."""

from typing import NamedTuple


class AbortedTxn(NamedTuple):
    """One aborted transaction, and the last stable offset when it ended."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int
