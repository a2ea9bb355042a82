"""The sender of a request, as a shard sees it."""

from typing import NamedTuple

from headrace.security.session import UNKNOWN_CLIENT, Session


class RequestContext(NamedTuple):
    """The client. Its id and host are shown in the descriptions of members and in log lines, and
    never trusted."""

    version: int
    client_id: str = ""
    client_host: str = ""
    session: Session = UNKNOWN_CLIENT
    """Whom the request acts for: it may only subscribe to topics that it may describe."""
