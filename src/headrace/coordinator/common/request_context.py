"""The sender of a request, as a shard sees it."""

from typing import NamedTuple


class RequestContext(NamedTuple):
    """The client: shown in the descriptions of members and in log lines, never trusted."""

    version: int
    client_id: str = ""
    client_host: str = ""
