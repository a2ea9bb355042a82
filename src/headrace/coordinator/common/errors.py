"""The error of every coordinator: what a shard raises in place of a turn."""

from headrace.protocol.errors import ErrorCode


class CoordinatorError(Exception):
    """A request that is refused; nothing was written and no state has changed."""

    def __init__(self, code: ErrorCode, message: str = "") -> None:
        super().__init__(message or code.name)
        self.code = code
        self.message = message
