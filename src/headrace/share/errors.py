"""The error of a share partition."""

from headrace.protocol.errors import ErrorCode


class AcknowledgeError(Exception):
    """An acknowledgement that contradicts the state of the partition; nothing has changed."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
