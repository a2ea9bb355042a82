"""The errors of this client, with one base class.

`retriable` says whether the same request may succeed later, perhaps at another broker. The retry
loop uses only this attribute.
"""

from headrace.protocol.errors import ErrorCode

_CODES = {int(code): code for code in ErrorCode}


def code_of_number(number: int) -> ErrorCode:
    """The code with this number; UNKNOWN_SERVER_ERROR for a code that only newer brokers have."""
    return _CODES.get(number, ErrorCode.UNKNOWN_SERVER_ERROR)


class ClientError(Exception):
    """The base class of every error that the client raises."""

    retriable = False


class ConnectionFailed(ClientError):
    """The client could not connect to a broker's address."""

    retriable = True


class ConnectionLost(ClientError):
    """The connection ended before the response arrived; the request may have been executed."""

    retriable = True


class RequestTimedOut(ClientError):
    """A broker did not respond in time; the request may still be executed."""

    retriable = True


class BadResponse(ClientError):
    """The received bytes are not a valid response: the peer may not be a Kafka broker."""


class UnsupportedByBroker(ClientError):
    """The broker supports no version of the API that this client supports."""


class AuthenticationFailed(ClientError):
    """The broker rejected the credentials, or could not prove that it knows them."""


class TlsFailed(ClientError):
    """The TLS handshake failed: untrusted certificate, wrong host name, or not a TLS listener."""


class BadSecurityFiles(ClientError):
    """A certificate or key cannot be read or used."""


class UnknownBroker(ClientError):
    """The cluster's current metadata lists no broker with this id."""

    retriable = True


class LeaderUnknown(ClientError):
    """According to the cluster's metadata the partition has no leader or does not exist."""

    retriable = True


class RequestRefused(ClientError):
    """A broker answered with an error code."""

    def __init__(self, code: ErrorCode, context: str) -> None:
        super().__init__(f"{context}: {code.name} ({code.message})")
        self.code = code
        self.retriable = code.retriable


def check_error_code(number: int, what: str) -> None:
    """Raises `RequestRefused` if the response has an error code; `what` has failed."""
    if number:
        raise RequestRefused(code_of_number(number), what)


class DeadlineExceeded(ClientError):
    """No attempt succeeded before the deadline; `last` is the latest failure."""

    def __init__(self, what: str, timeout_s: float, attempts: int, last: Exception | None) -> None:
        reason = f": {last}" if last is not None else ""
        super().__init__(f"{what} failed after {attempts} attempts in {timeout_s:g} s{reason}")
        self.attempts = attempts
        self.last = last


class ClientClosed(ClientError):
    """The client or its connection was closed by its owner."""
