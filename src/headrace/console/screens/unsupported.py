"""What a cluster does not offer, as a part of a page instead of an error page.

A cluster without an authorizer refuses to list ACLs, and an old broker does not know a request.
Both are facts about the cluster that its page shows.
"""

from typing import NamedTuple

from headrace.client.errors import DeadlineExceeded, RequestRefused, UnsupportedByBroker
from headrace.protocol.errors import ErrorCode


class Unavailable(NamedTuple):
    """Why a screen has nothing to show; `symbol` is an icon."""

    title: str
    reason: str
    symbol: str


def unavailable_reason(error: Exception, what: str) -> Unavailable:
    """The state for this error; raises any other error again."""
    if isinstance(error, DeadlineExceeded) and isinstance(error.last, RequestRefused):
        error = error.last
    match error:
        case UnsupportedByBroker():
            return Unavailable(f"The cluster does not support {what}", str(error), "info")
        case RequestRefused() if error.code is ErrorCode.SECURITY_DISABLED:
            return Unavailable(
                "The cluster has no authorizer",
                "Every client may do everything. Set authorizer.class.name on the brokers to use "
                "ACLs.",
                "info",
            )
        case RequestRefused() if error.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            return Unavailable(
                "Not permitted", f"You may not see {what} of this cluster: {error}", "lock"
            )
    raise error
