"""Forwards requests that only the controller can decide to the controller.

The request of an authenticated client travels in an envelope, with the client's identity. So does
every request if there is an authorizer. A cluster without both forwards requests as they are, as
0.1.0 did: its brokers know no envelopes.

A forwarded request is never forwarded again: the receiving broker answers it or refuses it with
NOT_CONTROLLER. The broker with the client's connection then looks for the controller again until
the request's time limit.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from headrace.broker.access.access_control import AccessControl
from headrace.broker.access.request_origin import origin_of
from headrace.broker.membership.envelopes import unwrap_response, wrap_request
from headrace.broker.membership.peers import CLIENT_ID_PREFIX
from headrace.broker.network.dispatch import Answer, Context, Handle, Reply, resolve_reply
from headrace.broker.quotas.client_quotas import ClientQuotas
from headrace.client.errors import ClientError, code_of_number
from headrace.client.network.connection import spec_of
from headrace.cluster.metadata_store import TooLarge
from headrace.controller.errors import NotController, require_active
from headrace.controller.producer_id_blocks import ProducerIdBlock
from headrace.controller.result import ApiError
from headrace.controller.topic_changes import CreatedTopic, NewTopic
from headrace.protocol.api import ApiKey, ApiSpec
from headrace.protocol.error_responses import error_response
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from headrace.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from headrace.protocol.messages.envelope import EnvelopeResponse
from headrace.protocol.struct import Struct
from headrace.security.authorization.acl import AclOperation
from headrace.security.principal import ANONYMOUS

if TYPE_CHECKING:
    from headrace.broker.membership.broker_lifecycle import BrokerLifecycle

log = logging.getLogger(__package__)

R = TypeVar("R", bound=Struct)

RETRY_S: Final = 0.05
DEFAULT_TIMEOUT_S: Final = 30.0  # Kafka's request.timeout.ms
ONE_TRY_S: Final = 10.0

_PARTS: Final = (
    "topics", "responses", "results", "replica_election_results", "partition_result",
    "entries",
    "filter_results",
)  # fmt: skip
"""The fields that contain the error codes of a response, if not at the top level."""

_DEPENDING_ON_CLIENT: Final = frozenset(
    {
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
    }
)
"""APIs that answer by the client's identity, also without an authorizer. Without an envelope an
anonymous client would get tokens of the broker that forwards its request."""

_NO_CONTROLLER: Final = "no controller has answered in time"
_TOO_LARGE: Final = "this does not fit into the cluster's metadata store"


class Forwarding:
    """Finds the controller and returns its response."""

    def __init__(
        self,
        node_id: int,
        membership: "Callable[[], BrokerLifecycle]",
        handler_of: Callable[[ApiKey], Handle],
        access: AccessControl,
        quotas: ClientQuotas,
    ) -> None:
        """`handler_of` returns this broker's own handler of an API."""
        self._access = access
        self._quotas = quotas
        self._node_id = node_id
        self._membership = membership
        self._handler_of = handler_of

    def wrap(self, spec: ApiSpec, handle: Handle) -> Handle:
        """The handler of an API that the controller decides, for any broker."""

        def either(context: Context, request: Struct) -> Reply:
            return self._answer(spec, handle, context, request)

        return either

    async def _answer(
        self, spec: ApiSpec, handle: Handle, context: Context, request: Struct
    ) -> Answer:
        if self._is_from_broker(context):
            try:
                return await self.answer_forwarded(spec, handle, context, request)
            except NotController:
                return _refusal(spec, request, context.version, ErrorCode.NOT_CONTROLLER, None)
        return await self._forward(spec, handle, context, request)

    def _is_from_broker(self, context: Context) -> bool:
        """Whether a broker has sent the request. Its client id alone proves nothing."""
        return context.client_id.startswith(CLIENT_ID_PREFIX) and self._access.shows_cluster(
            context.session, AclOperation.CLUSTER_ACTION
        )

    async def _forward(
        self, spec: ApiSpec, handle: Handle, context: Context, request: Struct
    ) -> Answer:
        """The controller's response, within the client's time limit."""
        timeout_ms = getattr(request, "timeout_ms", None) or 0
        timeout_s = timeout_ms / 1000 if timeout_ms > 0 else DEFAULT_TIMEOUT_S
        membership = self._membership()
        try:
            async with asyncio.timeout(min(timeout_s, DEFAULT_TIMEOUT_S)):
                while True:
                    try:
                        if membership.active_controller is not None:
                            return await resolve_reply(handle(context, request))
                        answer = await self._ask(spec, context, request, timeout_s)
                        if not _is_refused(answer):
                            return answer
                    except (ClientError, NotController):
                        pass
                    await asyncio.sleep(RETRY_S)
        except TimeoutError:
            code = ErrorCode.REQUEST_TIMED_OUT
            return _refusal(spec, request, context.version, code, _NO_CONTROLLER)
        except TooLarge:
            code = ErrorCode.POLICY_VIOLATION
            return _refusal(spec, request, context.version, code, _TOO_LARGE)

    async def _ask(
        self, spec: ApiSpec, context: Context, request: Struct, timeout_s: float
    ) -> Struct:
        """The response of the active controller on another broker."""
        version, session = context.version, context.session
        ask = self._membership().ask
        is_anonymous = not self._access.is_enforced and session.principal == ANONYMOUS
        depends_on_client = self._quotas.is_active or spec.key in _DEPENDING_ON_CLIENT
        if is_anonymous and not depends_on_client:
            origin = origin_of(context.client_id, session.host)
            return await ask(
                request, spec.response, timeout_s=timeout_s, version=version, origin=origin
            )
        envelope = wrap_request(spec, request, version, context.client_id, session)
        answer = await ask(envelope, EnvelopeResponse, timeout_s=timeout_s)
        code = code_of_number(answer.error_code)
        if not code and answer.response_data is not None:
            return unwrap_response(spec, version, answer.response_data)
        if code != ErrorCode.NOT_CONTROLLER:
            # The client would not understand an error of the envelope itself.
            log.error(
                "the controller refused a forwarded request: does the principal of this broker "
                "have CLUSTER_ACTION?",
                extra={"api": spec.name, "error": code.name},
            )
            code = ErrorCode.UNKNOWN_SERVER_ERROR
        return _refusal(spec, request, version, code, None)

    async def answer_forwarded(
        self, spec: ApiSpec, handle: Handle, context: Context, request: Struct
    ) -> Struct:
        """This broker's response to a request that another broker has forwarded; raises
        `NotController`."""
        require_active(self._membership().active_controller)
        try:
            answer = await resolve_reply(handle(context, request))
        except TooLarge:
            code = ErrorCode.POLICY_VIOLATION
            return _refusal(spec, request, context.version, code, _TOO_LARGE)
        assert isinstance(answer, Struct)
        return answer

    # --- this broker's own requests -------------------------------------------------------------

    async def create_topics(self, topics: Sequence[NewTopic]) -> Sequence[CreatedTopic]:
        request = CreateTopicsRequest(topics=[_creatable(topic) for topic in topics])
        answer = await self.to_controller(request, CreateTopicsResponse)
        if answer is None:
            error = ApiError(ErrorCode.REQUEST_TIMED_OUT, _NO_CONTROLLER)
            return [CreatedTopic(topic.name, error) for topic in topics]
        return [
            CreatedTopic(
                result.name,
                ApiError(code_of_number(result.error_code), result.error_message),
                result.topic_id,
                result.num_partitions,
                result.replication_factor,
            )
            for result in answer.topics
        ]

    async def allocate_producer_ids(self) -> ProducerIdBlock:
        membership = self._membership()
        request = AllocateProducerIdsRequest(
            broker_id=self._node_id, broker_epoch=membership.broker_epoch
        )
        answer = await self.to_controller(request, AllocateProducerIdsResponse)
        if answer is None:
            error = ApiError(ErrorCode.REQUEST_TIMED_OUT, _NO_CONTROLLER)
            return ProducerIdBlock(error=error)
        error = ApiError(code_of_number(answer.error_code))
        return ProducerIdBlock(answer.producer_id_start, answer.producer_id_len, error)

    async def to_controller(
        self, request: Struct, answer: type[R], *, timeout_s: float = ONE_TRY_S
    ) -> R | None:
        """The controller's response; None if there is none in time."""
        membership = self._membership()
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    try:
                        found = await membership.ask_controller(
                            request, answer, timeout_s=timeout_s
                        )
                        if not _is_refused(found):
                            return found
                    except ClientError:
                        pass
                    await asyncio.sleep(RETRY_S)
        except TimeoutError:
            return None

    async def answer_here(self, request: Struct) -> Struct:
        """This broker's response to its own request, while it is the active controller."""
        spec = spec_of(request)
        context = Context(None, spec.max_version, b"")
        try:
            answer = await resolve_reply(self._handler_of(spec.key)(context, request))
        except NotController:
            return _refusal(spec, request, spec.max_version, ErrorCode.NOT_CONTROLLER, None)
        assert isinstance(answer, Struct)
        return answer


def _refusal(
    spec: ApiSpec, request: Struct, version: int, code: ErrorCode, message: str | None
) -> Struct:
    return error_response(spec, request, version, code, message) or spec.response()


def _is_refused(answer: Struct) -> bool:
    """Whether the broker refused because it is not the controller: nothing was decided."""
    if getattr(answer, "error_code", None) == ErrorCode.NOT_CONTROLLER:
        return True
    for name in _PARTS:
        parts: Sequence[Struct] | None = getattr(answer, name, None)
        if parts:
            return _is_refused(parts[0])  # all parts have this error, or none has
    return False


def _creatable(topic: NewTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=list(ids))
            for index, ids in topic.assignments
        ],
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in topic.configs],
    )
