"""A transaction whose records read_committed readers skip."""

from typing import NamedTuple


class AbortedTxn(NamedTuple):
    """One aborted transaction, and where the log was stable once it ended."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int
