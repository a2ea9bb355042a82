"""The error messages that commands share. Each is one sentence and comes with its exit code.

invalid command line      `usage`
unknown name              `not_found` and `missing`, with "Did you mean ...?"
unknown partition         `no_partition`
refused by the broker     `refused` and `sentence`
raised by a lower layer   `explain`
silent broker             `unlisted`
"""

from collections.abc import Iterable

from headrace.cli.exit_codes import NOT_FOUND_CODES, CommandFailed, ExitCode
from headrace.client.errors import (
    AuthenticationFailed,
    BadResponse,
    ClientError,
    ConnectionFailed,
    ConnectionLost,
    DeadlineExceeded,
    RequestRefused,
    RequestTimedOut,
    TlsFailed,
)
from headrace.client.login.security import InvalidSecurity
from headrace.client.results import Refusal
from headrace.name_suggestion import nearest_name

_TRY_SERVERS = "is it running, and is -b/--bootstrap-server (or the profile) correct?"
_TRY_SECURITY = (
    "does this listener require TLS or SASL? Set security.protocol in a profile or with -X"
)
# In the errors of a listener that expects TLS or SASL and gets plain text.
_SIGNS_OF_SECURITY = ("closed the connection", "without TLS")
_TRY_CREDENTIALS = (
    "set it in a profile, with -X, or in HEADRACE_SASL_USERNAME and HEADRACE_SASL_PASSWORD"
)


def usage(message: str) -> CommandFailed:
    """An error in the command line."""
    return CommandFailed(message, ExitCode.USAGE)


def not_found(kind: str, name: str, known: Iterable[str] = ()) -> CommandFailed:
    """A name that does not exist; suggests the most similar one."""
    return CommandFailed(missing(kind, name, known), ExitCode.NOT_FOUND)


def no_partition(topic: str, index: int, last: int) -> CommandFailed:
    """The topic does not have this partition; names its last one."""
    return CommandFailed(
        f"no partition {f'{topic}-{index}'!r}; the last one is {last}", ExitCode.NOT_FOUND
    )


def missing(kind: str, name: str, known: Iterable[str] = ()) -> str:
    """The message of `not_found`."""
    near = nearest_name(name, known)
    hint = "" if near is None else f". Did you mean {near!r}?"
    return f"no {kind} {name!r}{hint}"


def refused(what: str, refusal: Refusal) -> CommandFailed:
    """The broker refused the request."""
    code = ExitCode.NOT_FOUND if refusal.code in NOT_FOUND_CODES else ExitCode.ERROR
    return CommandFailed(f"{what}: {sentence(refusal)}", code)


def sentence(refusal: Refusal) -> str:
    """The broker's reason, with its error code."""
    return f"{refusal.message.rstrip('.')} ({refusal.code.name})"


def unlisted(broker: int, kind: str, error: ClientError) -> str:
    """A broker did not list what it coordinates; the others did."""
    last = error.last if isinstance(error, DeadlineExceeded) else None
    return f"the {kind} that broker {broker} coordinates are missing: {last or error}"


def explain(error: Exception) -> CommandFailed:
    """The message and the exit code for an error of the layers below."""
    if isinstance(error, DeadlineExceeded) and isinstance(error.last, ClientError):
        error = error.last
    match error:
        case CommandFailed():
            return error
        case ConnectionLost():
            return CommandFailed(f"{error}; {_TRY_SECURITY}", ExitCode.UNREACHABLE)
        case ConnectionFailed():
            closed = any(sign in str(error) for sign in _SIGNS_OF_SECURITY)
            hint = _TRY_SECURITY if closed else _TRY_SERVERS
            return CommandFailed(f"{error}; {hint}", ExitCode.UNREACHABLE)
        case RequestTimedOut():
            return CommandFailed(f"{error}; raise --timeout to wait longer", ExitCode.UNREACHABLE)
        case TlsFailed():
            trust = "; set ssl.ca.location" if "trusted" in str(error) else ""
            return CommandFailed(f"{error}{trust}", ExitCode.UNREACHABLE)
        case BadResponse():
            return CommandFailed(f"{error}; {_TRY_SECURITY}")
        case AuthenticationFailed():
            return CommandFailed(f"{error}; check the user name and the password")
        case InvalidSecurity():
            lacks_credentials = "username" in str(error) or "password" in str(error)
            hint = f"; {_TRY_CREDENTIALS}" if lacks_credentials else ""
            return CommandFailed(f"{error}{hint}", ExitCode.USAGE)
        case RequestRefused():
            missing = error.code in NOT_FOUND_CODES
            return CommandFailed(str(error), ExitCode.NOT_FOUND if missing else ExitCode.ERROR)
        case OSError():
            name = f"cannot access {error.filename}: " if error.filename else ""
            return CommandFailed(f"{name}{error.strerror or error}")
        case ClientError():
            return CommandFailed(str(error))
    return CommandFailed(
        f"unexpected error: {type(error).__name__}: {error}; HEADRACE_DEBUG=1 shows the traceback"
    )
