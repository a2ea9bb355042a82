"""Errors that become a page: what failed, why, and what to do next."""

from headrace.client.errors import (
    AuthenticationFailed,
    ClientError,
    RequestRefused,
    UnsupportedByBroker,
)
from headrace.protocol.errors import ErrorCode

_DENIED = frozenset(
    {
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    }
)


class PageError(Exception):
    """Shown as a page with this status; with `retry` the page offers to load it again."""

    def __init__(self, status: int, title: str, detail: str, *, retry: bool = False) -> None:
        super().__init__(detail)
        self.status = status
        self.title = title
        self.detail = detail
        self.retry = retry


class LoginRequired(Exception):
    """There is no session, or it has expired."""


def page_error_of(error: Exception) -> PageError:
    """The page for an error of the cluster, or for a defect of the console."""
    match error:
        case PageError():
            return error
        case RequestRefused() if error.code in _DENIED:
            return PageError(403, "Not permitted", str(error))
        case UnsupportedByBroker():
            return PageError(501, "The cluster does not support this", str(error))
        case AuthenticationFailed():
            return PageError(403, "The cluster refused the login", str(error))
        case RequestRefused():
            return PageError(502, "The cluster refused the request", str(error), retry=True)
        case ClientError():
            return PageError(504, "The cluster did not answer", str(error), retry=True)
        case _:
            return PageError(
                500,
                "The console failed",
                f"{type(error).__name__}. The console's log has the details.",
                retry=True,
            )
