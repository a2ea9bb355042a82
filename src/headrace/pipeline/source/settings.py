"""How to reach a cluster and read from it, and what can go wrong there."""

from typing import Final, NamedTuple

from headrace.client.security import PLAINTEXT, Security

BEHIND_DAMAGE: Final = (
    "Restore the partition from a replica or a backup, or read on behind the damage: "
    "`headrace pipeline reset SPEC --to OFFSET`, or startingOffsets"
)


class ReadFailed(Exception):
    """Records that were asked for cannot be had: which, why, and what to do."""


class DataLost(ReadFailed):
    """The offsets are no longer, or not yet, in the log."""


class ReadSettings(NamedTuple):
    """How to reach a cluster and how to read from it."""

    bootstrap_servers: str
    security: Security = PLAINTEXT
    client_id: str = "headrace-pipeline"
    fetch_bytes: int = 4 << 20
    """For one answer. Chunks that fit the processor's caches cost a third less than those of 16 MB,
    which wins more than the round trips cost that they spare."""
    max_wait_ms: int = 500
    request_timeout_s: float = 30.0
    """For one request; a broker that says nothing for so long is left for another."""
    api_timeout_s: float = 60.0
    """For an answer at all, with every attempt that it takes: a new leader has to be elected."""
    read_committed: bool = True
    with_headers: bool = False
    with_damage: bool = False
    """Whether a damaged batch is a row of its own, and not an error."""
    rack: str = ""
