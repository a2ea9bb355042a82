"""Charges one request to the quotas of its client, and throttles the client if it is over one.

* `request_percentage`: the time in which the event loop decodes the request, runs its handler and
  encodes its response. 100 percent is the whole time of the loop, which serves all clients. The
  time that a request waits, for a disk or for other brokers, does not count. Kafka counts the time
  of its network and handler threads, where 100 percent is one thread of many.
* `producer_byte_rate`: the size of a Produce request.
* `consumer_byte_rate`: the records of a ShareFetch. Its client has acquired them, so they are sent
  even over the quota. (A Fetch is charged by its handler, which leaves the records out.)

The response carries the longest throttle time of these quotas and of the one that its handler, or
the controller, has set. It is sent at once, and then the connection is muted (KIP-219). Unlike in
Kafka, Produce with acks=0, which has no response, is throttled for its handler time, too.
"""

from __future__ import annotations

from collections.abc import Coroutine
from copy import copy
from typing import TYPE_CHECKING, Any, Final, TypeVar

from headrace.broker.runtime.measured_coroutine import MeasuredCoroutine
from headrace.protocol.api import ApiKey
from headrace.protocol.struct import Struct

if TYPE_CHECKING:
    from headrace.broker.quotas.client_quotas import ChargedRequest
    from headrace.broker.quotas.quota_managers import QuotaManagers
    from headrace.protocol.api import ApiSpec
    from headrace.security.quotas.quota_manager import Monotonic

T = TypeVar("T")
Answer = Struct | bytes | None

PERCENT_PER_SECOND: Final = 100.0
"""A second of handler time in each second is the whole time of the event loop."""

SHORTEST_ENCODING_S: Final = 0.000_05
"""Recording a shorter time would take about as long as the encoding."""


class RequestCharge:
    """The cost of one request: it is measured while the event loop works on the request."""

    __slots__ = (
        "_api_key",
        "_began_s",
        "_client_id",
        "_managers",
        "_monotonic",
        "_request",
        "_response",
        "_size",
        "_spent_s",
        "_user",
    )

    def __init__(
        self,
        managers: QuotaManagers,
        monotonic: Monotonic,
        request: ChargedRequest,
        client_id: str,
        spec: ApiSpec,
    ) -> None:
        self._managers = managers
        self._monotonic = monotonic
        self._request = request
        self._api_key = spec.key
        self._response = spec.response
        self._user = request.session.principal.name
        self._client_id = client_id
        self._size = len(request.frame)
        self._spent_s = 0.0
        self._began_s = monotonic()

    def resume(self) -> None:
        """The event loop continues with the request."""
        self._began_s = self._monotonic()

    def pause(self) -> None:
        """The request waits, or is done."""
        self._spent_s += self._monotonic() - self._began_s

    def measured(self, coroutine: Coroutine[object, object, T]) -> Coroutine[object, object, T]:
        """The handler's coroutine, whose steps are measured."""
        return MeasuredCoroutine(coroutine, self)

    def settle(self, answer: Answer) -> Answer:
        """Charges a paused request. Returns its answer, with the throttle time if there is one."""
        handler_ms = self._record_time()
        throttle_ms = max(handler_ms, self._record_size(answer), throttle_time_of(answer))
        if throttle_ms <= 0:
            return answer
        self._managers.throttled_requests += 1
        self._managers.throttled_ms += throttle_ms
        self._request.connection.mute(throttle_ms / 1000)
        return self._with_throttle_time(answer, throttle_ms)

    def add_encoding(self) -> None:
        """Charges the time since `resume`: it counts for the throttle time of later requests."""
        self.pause()
        if self._spent_s > SHORTEST_ENCODING_S:
            self._record_time()

    def _record_time(self) -> int:
        percent = self._spent_s * PERCENT_PER_SECOND
        self._spent_s = 0.0
        return self._managers.request.record(self._user, self._client_id, percent)

    def _record_size(self, answer: Answer) -> int:
        if self._api_key is ApiKey.PRODUCE:
            return self._managers.produce.record(self._user, self._client_id, self._size)
        if self._api_key is ApiKey.SHARE_FETCH and isinstance(answer, Struct):
            size = _shared_bytes(answer)
            return self._managers.fetch.record(self._user, self._client_id, size) if size else 0
        return 0

    def _with_throttle_time(self, answer: Answer, throttle_ms: int) -> Answer:
        if isinstance(answer, bytes):  # encoded by the handler
            read = self._response.reader(self._request.version)
            answer, _ = read(answer, 0, len(answer))
        if not hasattr(answer, "throttle_time_ms"):
            return answer
        answer = copy(answer)  # the handler may keep it for other clients
        answer.throttle_time_ms = throttle_ms  # type: ignore[union-attr]
        return answer


def throttle_time_of(answer: Answer) -> int:
    """The throttle time that a handler has set."""
    return getattr(answer, "throttle_time_ms", 0)


def _shared_bytes(answer: Any) -> int:  # noqa: ANN401  # a ShareFetch response, not imported here
    return sum(
        len(partition.records or b"")
        for topic in answer.responses
        for partition in topic.partitions
    )
