"""The response of a standalone node that cannot store its metadata, for example on a full disk.

The change is not made, and a retry may succeed. The client gets an error with the reason and keeps
its connection.
"""

import logging
from collections.abc import Coroutine

from headrace.broker.network.dispatch import Answer, Context, Handle, Reply
from headrace.cluster.metadata_store import StoreError
from headrace.protocol.api import ApiSpec
from headrace.protocol.error_responses import error_response
from headrace.protocol.errors import ErrorCode
from headrace.protocol.struct import Struct

log = logging.getLogger(__package__)


def wrap(spec: ApiSpec, handle: Handle) -> Handle:
    """Wraps the handler of an API that changes metadata."""

    def either(context: Context, request: Struct) -> Reply:
        reply = handle(context, request)
        if isinstance(reply, Coroutine):
            return _await_reply(spec, context.version, request, reply)
        return reply

    return either


async def _await_reply(
    spec: ApiSpec, version: int, request: Struct, reply: Coroutine[object, object, Answer]
) -> Answer:
    try:
        return await reply
    except StoreError as error:
        log.warning(
            "cannot store metadata; the request is refused",
            extra={"api": spec.name, "error": str(error)},
        )
        code = ErrorCode.KAFKA_STORAGE_ERROR
        return error_response(spec, request, version, code, str(error)) or spec.response()
