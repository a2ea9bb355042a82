"""The error of a share partition."""

from headrace.protocol.errors import ErrorCode


class AcknowledgeError(Exception):
    """An acknowledgement that does not fit what the partition knows; nothing has changed."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
