"""The settings for reading from a cluster, and the errors of a read."""

from typing import Final, NamedTuple

from headrace.client.login.security import PLAINTEXT, Security

BEHIND_DAMAGE: Final = (
    "Restore the partition from a replica or a backup, or read on behind the damage: "
    "`headrace pipeline reset SPEC --to OFFSET`, or startingOffsets"
)


class ReadFailed(Exception):
    """Records cannot be read. The message says which, why, and what to do."""


class DataLost(ReadFailed):
    """The log does not contain the requested offsets."""


class ReadSettings(NamedTuple):
    """How to reach a cluster and how to read from it."""

    bootstrap_servers: str
    security: Security = PLAINTEXT
    client_id: str = "headrace-pipeline"
    fetch_bytes: int = 4 << 20
    """The size of one Fetch response. Chunks that fit into the CPU caches take a third less time
    than chunks of 16 MB. This saves more time than the additional round trips take."""
    max_wait_ms: int = 500
    request_timeout_s: float = 30.0
    """The timeout for one request. After it, the client tries another broker."""
    api_timeout_s: float = 60.0
    """The timeout for an answer, including all retries: the election of a new leader takes time."""
    read_committed: bool = True
    with_headers: bool = False
    with_damage: bool = False
    """Whether a damaged batch is returned as a row instead of raising an error."""
    rack: str = ""
