"""What a shard may know about who sends a request."""

from typing import NamedTuple


class RequestContext(NamedTuple):
    """The caller: named in members' descriptions and in log lines, never trusted."""

    version: int
    client_id: str = ""
    client_host: str = ""
