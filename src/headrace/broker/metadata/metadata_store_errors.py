"""What a node on its own answers when its metadata cannot be stored, e.g. on a full disk.

Nothing was changed, and it may go well another time: clients are told so, with the reason, instead
of losing their connection.
"""

import logging
from collections.abc import Coroutine

from headrace.broker.network.dispatch import Answer, Context, Handle, Reply
from headrace.cluster.store import StoreError
from headrace.protocol.api import ApiSpec
from headrace.protocol.error_answers import error_answer
from headrace.protocol.errors import ErrorCode
from headrace.protocol.struct import Struct

log = logging.getLogger(__name__)


def wrap(spec: ApiSpec, handle: Handle) -> Handle:
    """The handler of an API that changes metadata."""

    def either(context: Context, request: Struct) -> Reply:
        reply = handle(context, request)
        if isinstance(reply, Coroutine):
            return _settled(spec, context.version, request, reply)
        return reply

    return either


async def _settled(
    spec: ApiSpec, version: int, request: Struct, reply: Coroutine[object, object, Answer]
) -> Answer:
    try:
        return await reply
    except StoreError as error:
        log.warning("metadata was not stored", extra={"api": spec.name, "reason": str(error)})
        code = ErrorCode.KAFKA_STORAGE_ERROR
        return error_answer(spec, request, version, code, str(error)) or spec.response()
