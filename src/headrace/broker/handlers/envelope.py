"""Envelope (key 58), version 0: a client's request that another broker forwards.

The sender authorized the request as the client, and this broker does it again: it has the newest
ACLs. Without an authorizer, envelopes are accepted on the listener between brokers only.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from headrace.broker.membership.envelopes import InvalidEnvelope, unwrap_request, wrap_response
from headrace.broker.network.dispatch import (
    Context,
    UnsupportedRequest,
    authorized_handler_of,
)
from headrace.controller.errors import NotController
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse

if TYPE_CHECKING:
    from headrace.broker.node import Broker

log = logging.getLogger(__package__)


async def handle(broker: Broker, context: Context, request: EnvelopeRequest) -> EnvelopeResponse:
    listener = context.session.listener
    between_brokers = broker.settings.inter_broker_listener.name
    if not broker.access.is_enforced and listener != between_brokers:
        msg = f"an envelope on listener {listener}; brokers use {between_brokers}"
        raise UnsupportedRequest(msg)
    assert broker.member is not None  # dispatch serves this API only then
    try:
        forwarded = unwrap_request(request)
        handle_here = authorized_handler_of(broker, forwarded.spec.key)
        answer = await broker.member.forwarding.answer_forwarded(
            forwarded.spec, handle_here, forwarded.context, forwarded.request
        )
    except NotController:
        return EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)
    except InvalidEnvelope as error:
        log.warning(
            "refused a forwarded request",
            extra={"peer": context.connection.peer, "error": str(error)},
        )
        return EnvelopeResponse(error_code=error.code)
    return wrap_response(forwarded, answer)
