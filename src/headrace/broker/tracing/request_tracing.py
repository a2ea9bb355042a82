"""Traces Produce and Fetch requests whose records carry a `traceparent` header.

Off by default. Without `headrace.tracing.endpoint`, dispatch calls the handlers themselves. With
it, at most `headrace.tracing.max.batches.per.second` requests are looked at, and each time only the
first batch of the first partition: it is copied if it is small, and a thread decompresses it and
looks for the headers. So tracing costs the event loop a copy of at most 64 KiB per sampled request.

A record's trace gets a span of the request, whose parent is the span that wrote the record. The
span of a Produce has two children: the append, and the wait for the replicas.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator
from functools import partial
from random import SystemRandom
from typing import Final, NamedTuple, Protocol, cast

from headrace.broker.network.dispatch import Answer, Context, Handle, Reply
from headrace.broker.runtime.errors import StartupError
from headrace.clock import Clock
from headrace.cluster.image import MetadataImage
from headrace.cluster.settings import BrokerSettings
from headrace.protocol.api import ApiKey
from headrace.protocol.messages.fetch import FetchRequest, FetchResponse
from headrace.protocol.messages.produce import ProduceRequest
from headrace.protocol.struct import Struct
from headrace.tracing.batch_traces import copy_first_batch, traces_in
from headrace.tracing.span import Span, SpanKind
from headrace.tracing.span_exporter import InvalidEndpoint, SpanExporter, is_exporter_installed
from headrace.tracing.trace_context import TraceContext

TRACED: Final = frozenset({ApiKey.PRODUCE, ApiKey.FETCH})
FLUSH_TIMEOUT_S: Final = 2.0
ACKS_ALL: Final = -1


class MetadataHolder(Protocol):
    """Has the current metadata."""

    @property
    def image(self) -> MetadataImage: ...


class TracingHost(Protocol):
    """What tracing needs of the broker."""

    clock: Clock
    settings: BrokerSettings

    @property
    def node_id(self) -> int: ...

    @property
    def metadata(self) -> MetadataHolder: ...


class SampledBatch(NamedTuple):
    """A batch that may carry traces, and where it belongs."""

    data: bytes
    topic: str
    partition: int
    client_id: str


class RateLimit:
    """At most a number of requests in each second."""

    def __init__(self, per_second: int) -> None:
        self._per_second = per_second
        self._second = -1
        self._taken = 0

    def has_room(self, now_s: float) -> bool:
        second = int(now_s)
        if second != self._second:
            self._second, self._taken = second, 0
        return self._taken < self._per_second

    def take(self) -> None:
        self._taken += 1


class RequestTracing:
    """The tracing of one broker."""

    def __init__(self, host: TracingHost, endpoint: str) -> None:
        settings = host.settings
        self._host = host
        self._ratio = settings.number("headrace.tracing.sampling.ratio")
        self._limit = RateLimit(settings.integer("headrace.tracing.max.batches.per.second"))
        self._random = SystemRandom()
        self.exporter = SpanExporter(
            endpoint, {"service.name": "headrace", "service.instance.id": str(host.node_id)}
        )

    def wrap(self, key: ApiKey, handle: Handle) -> Handle:
        """The handler of an API with tracing, if it is traced."""
        if key not in TRACED:
            return handle
        if key is ApiKey.PRODUCE:
            return partial(self._produce, handle)
        return partial(self._fetch, handle)

    def close(self) -> None:
        """Sends the last spans; takes at most `FLUSH_TIMEOUT_S`."""
        self.exporter.close(FLUSH_TIMEOUT_S)

    # --- Produce --------------------------------------------------------------------------------

    def _produce(self, handle: Handle, context: Context, request: Struct) -> Reply:
        clock = self._host.clock
        started_s = clock.monotonic()
        if not self._limit.has_room(started_s):
            return handle(context, request)
        batch = self._produced_batch(context, cast("ProduceRequest", request))
        if batch is None:
            return handle(context, request)
        self._limit.take()
        began_ns = clock.wall_ms() * 1_000_000
        reply = handle(context, request)
        appended_s = clock.monotonic()
        acks = cast("ProduceRequest", request).acks

        def finish(_: object = None) -> None:
            ended_s = clock.monotonic()
            times = (started_s, appended_s, ended_s)
            ns = tuple(began_ns + int((each - started_s) * 1e9) for each in times)
            self.exporter.submit(partial(self._produce_spans, batch, ns, acks))

        if isinstance(reply, Coroutine):
            return _then(reply, finish)
        if isinstance(reply, asyncio.Future):
            reply.add_done_callback(finish)
        else:
            finish()
        return reply

    def _produced_batch(self, context: Context, request: ProduceRequest) -> SampledBatch | None:
        if not request.topic_data or not request.topic_data[0].partition_data:
            return None
        topic = request.topic_data[0]
        partition = topic.partition_data[0]
        data = copy_first_batch(partition.records)
        if data is None:
            return None
        name = topic.name or self._topic_name(topic.topic_id)
        return SampledBatch(data, name, partition.index, context.client_id)

    def _produce_spans(
        self, batch: SampledBatch, times_ns: tuple[int, ...], acks: int
    ) -> Iterator[Span]:
        started_ns, appended_ns, ended_ns = times_ns
        attributes = {**self._attributes(batch), "messaging.operation.name": "produce"}
        attributes["headrace.acks"] = acks
        for parent in traces_in(batch.data, self._ratio):
            request = self._new_span(parent)
            name = f"{batch.topic} produce"
            yield Span(
                name, SpanKind.SERVER, request, parent.span_id, started_ns, ended_ns, attributes
            )
            yield self._child("append", request, started_ns, appended_ns, attributes)
            if acks == ACKS_ALL:
                yield self._child("replication wait", request, appended_ns, ended_ns, attributes)

    # --- Fetch ----------------------------------------------------------------------------------

    def _fetch(self, handle: Handle, context: Context, request: Struct) -> Reply:
        clock = self._host.clock
        started_s = clock.monotonic()
        if not self._limit.has_room(started_s) or is_from_follower(cast("FetchRequest", request)):
            return handle(context, request)
        began_ns = clock.wall_ms() * 1_000_000
        reply = handle(context, request)

        def finish(answer: object) -> None:
            ended_s = clock.monotonic()
            if not isinstance(answer, FetchResponse) or not self._limit.has_room(ended_s):
                return
            batch = self._fetched_batch(context, answer)
            if batch is not None:
                self._limit.take()
                ended_ns = began_ns + int((ended_s - started_s) * 1e9)
                self.exporter.submit(partial(self._fetch_spans, batch, began_ns, ended_ns))

        def finish_later(done: "asyncio.Future[Answer]") -> None:
            if not done.cancelled() and done.exception() is None:
                finish(done.result())

        if isinstance(reply, asyncio.Future):
            reply.add_done_callback(finish_later)
        else:
            finish(reply)
        return reply

    def _fetched_batch(self, context: Context, response: FetchResponse) -> SampledBatch | None:
        for topic in response.responses:
            for partition in topic.partitions:
                if partition.records:
                    data = copy_first_batch(partition.records)
                    if data is None:
                        return None
                    name = topic.topic or self._topic_name(topic.topic_id)
                    return SampledBatch(data, name, partition.partition_index, context.client_id)
        return None

    def _fetch_spans(self, batch: SampledBatch, started_ns: int, ended_ns: int) -> Iterable[Span]:
        attributes = {**self._attributes(batch), "messaging.operation.name": "fetch"}
        for parent in traces_in(batch.data, self._ratio):
            yield Span(
                f"{batch.topic} fetch",
                SpanKind.SERVER,
                self._new_span(parent),
                parent.span_id,
                started_ns,
                ended_ns,
                attributes,
            )

    # --- spans ----------------------------------------------------------------------------------

    def _child(
        self,
        name: str,
        parent: TraceContext,
        started_ns: int,
        ended_ns: int,
        attributes: dict[str, str | int | float | bool],
    ) -> Span:
        context = self._new_span(parent)
        kind = SpanKind.INTERNAL
        return Span(name, kind, context, parent.span_id, started_ns, ended_ns, attributes)

    def _new_span(self, parent: TraceContext) -> TraceContext:
        return TraceContext(parent.trace_id, self._random.randrange(1, 1 << 64))

    def _attributes(self, batch: SampledBatch) -> dict[str, str | int | float | bool]:
        """As OpenTelemetry's conventions for messaging name them."""
        return {
            "messaging.system": "kafka",
            "messaging.destination.name": batch.topic,
            "messaging.destination.partition.id": str(batch.partition),
            "messaging.client.id": batch.client_id,
            "headrace.broker.id": self._host.node_id,
        }

    def _topic_name(self, topic_id: bytes) -> str:
        topic = self._host.metadata.image.topics_by_id.get(topic_id)
        return "" if topic is None else topic.name


def open_tracing(host: TracingHost, endpoint: str) -> RequestTracing:
    """Raises `StartupError` if the broker could export nothing."""
    if not is_exporter_installed():
        msg = (
            "headrace.tracing.endpoint is set, and OpenTelemetry is not installed: run "
            "pip install 'headrace[telemetry]', or remove the setting"
        )
        raise StartupError(msg)
    try:
        return RequestTracing(host, endpoint)
    except InvalidEndpoint as error:
        raise StartupError(f"headrace.tracing.endpoint: {error}") from error


async def _then(reply: Coroutine[object, object, Answer], finish: Callable[[], None]) -> Answer:
    """A coroutine stays one: its connection starts no other request meanwhile."""
    try:
        return await reply
    finally:
        finish()


def is_from_follower(request: FetchRequest) -> bool:
    return request.replica_id >= 0 or request.replica_state.replica_id >= 0
