"""Maps domain errors to Kafka error codes and messages, in this one place."""

import logging

from headrace.protocol.errors import ErrorCode
from headrace.storage.errors import StorageError

log = logging.getLogger(__package__)


def failure(error: BaseException) -> tuple[ErrorCode, str]:
    """The code and the message that a client gets for this error."""
    if isinstance(error, StorageError):
        return error.code, str(error)
    log.error("unexpected error in a request; the client gets UNKNOWN_SERVER_ERROR", exc_info=error)
    return ErrorCode.UNKNOWN_SERVER_ERROR, "unexpected error in the broker; see its log"
