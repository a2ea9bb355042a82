"""The error of every coordinator: a shard raises it instead of returning a result."""

from headrace.protocol.errors import ErrorCode


class CoordinatorError(Exception):
    """A refused request; nothing was written and no state has changed."""

    def __init__(self, code: ErrorCode, message: str = "") -> None:
        super().__init__(message or code.name)
        self.code = code
        self.message = message
