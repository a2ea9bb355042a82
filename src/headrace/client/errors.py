"""What can go wrong between this client and a cluster: one family.

`retriable` says whether the same request may succeed later, perhaps at another broker; the retry
loop asks nothing else.
"""

from headrace.protocol.errors import ErrorCode

_CODES = {int(code): code for code in ErrorCode}


def code_of_number(number: int) -> ErrorCode:
    """The code with this number; brokers newer than this client have some that it cannot know."""
    return _CODES.get(number, ErrorCode.UNKNOWN_SERVER_ERROR)


class ClientError(Exception):
    """Base of every error that the client raises."""

    retriable = False


class ConnectionFailed(ClientError):
    """A broker's address could not be connected to."""

    retriable = True


class ConnectionLost(ClientError):
    """The connection ended before the answer came; the request may have been carried out."""

    retriable = True


class RequestTimedOut(ClientError):
    """A broker did not answer in time; the request may still be carried out."""

    retriable = True


class BadResponse(ClientError):
    """The peer's bytes are no answer to what was asked: not a Kafka broker, or a broken one."""


class UnsupportedByBroker(ClientError):
    """The broker serves no version of an API that this client can speak."""


class AuthenticationFailed(ClientError):
    """The broker did not accept the credentials, or could not prove that it knows them."""


class TlsFailed(ClientError):
    """The TLS handshake failed: an untrusted certificate, a wrong name, no TLS at all."""


class BadSecurityFiles(ClientError):
    """A certificate or key cannot be read or used."""


class UnknownBroker(ClientError):
    """The cluster's metadata lists no broker with this id (now)."""

    retriable = True


class LeaderUnknown(ClientError):
    """The partition has no leader, or does not exist, as far as the cluster says now."""

    retriable = True


class RequestRefused(ClientError):
    """A broker answered with an error code."""

    def __init__(self, code: ErrorCode, context: str) -> None:
        super().__init__(f"{context}: {code.name} ({code.message})")
        self.code = code
        self.retriable = code.retriable


class DeadlineExceeded(ClientError):
    """No attempt succeeded within the time allowed; `last` is how the latest one failed."""

    def __init__(self, what: str, timeout_s: float, attempts: int, last: Exception | None) -> None:
        reason = f": {last}" if last is not None else ""
        super().__init__(f"{what} failed after {attempts} attempts in {timeout_s:g} s{reason}")
        self.attempts = attempts
        self.last = last


class ClientClosed(ClientError):
    """The client or its connection was closed by its owner."""
