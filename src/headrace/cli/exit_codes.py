"""How a command ends: its exit code and the exception that carries one.

0 success, 1 error, 2 invalid usage, 3 partial success, 4 not found, 5 no broker reachable,
6 and 7 the verdict of `cluster status`: degraded, unavailable.
"""

from enum import IntEnum

from headrace.protocol.errors import ErrorCode


class ExitCode(IntEnum):
    """The exit codes; scripts rely on them."""

    OK = 0
    ERROR = 1
    USAGE = 2
    PARTIAL = 3
    NOT_FOUND = 4
    UNREACHABLE = 5
    DEGRADED = 6
    UNAVAILABLE = 7
    INTERRUPTED = 130  # the shell's code for Ctrl-C
    BROKEN_PIPE = 141  # the shell's code for a closed pipe
    TERMINATED = 143  # the shell's code for SIGTERM


NOT_FOUND_CODES = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
        ErrorCode.RESOURCE_NOT_FOUND,
    }
)


class CommandFailed(Exception):
    """The command failed; the message goes to stderr."""

    def __init__(self, message: str, code: ExitCode = ExitCode.ERROR) -> None:
        super().__init__(message)
        self.code = code
