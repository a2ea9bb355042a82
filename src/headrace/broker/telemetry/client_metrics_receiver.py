"""Receives the metrics that clients push (KIP-714), and keeps their last values for `/metrics`.

Apache Kafka needs a plugin for this, and offers the requests only with one. This receiver is built
in: the broker offers them if `headrace.client.metrics.enable` is true and the extra `telemetry` is
installed. Clients ask for a subscription by themselves, and push nothing while no `client-metrics`
resource matches them.

A payload is decoded in a thread, one at a time and with pauses: decoding may take memory many times
the size of the payload. The series change on the event loop only.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping
from random import Random
from typing import Final, NamedTuple, Protocol

from headrace.broker.runtime.offload import Offload
from headrace.clock import Clock
from headrace.cluster.client_match import MATCHABLE, ClientAttributes
from headrace.cluster.image import MetadataImage
from headrace.cluster.settings import BrokerSettings
from headrace.limited_log import LimitedLog
from headrace.protocol.errors import ErrorCode
from headrace.protocol.types import ZERO_UUID, encode_uuid
from headrace.telemetry.client_instance import ClientInstance, Push
from headrace.telemetry.client_instances import ClientInstances
from headrace.telemetry.client_series import LAST_VALUES_MS, ClientSeries, PushingClient
from headrace.telemetry.push_decoder import DecodedPush, InvalidPush, decode_push
from headrace.telemetry.series_names import label_value
from headrace.telemetry.subscription import stored_subscriptions

log = logging.getLogger(__package__)

ONE_UUID: Final = bytes(15) + b"\x01"
RESERVED_IDS: Final = (ZERO_UUID, ONE_UUID)
MAX_WAITING_PUSHES: Final = 64
"""Payloads that wait to be decoded, of `telemetry.max.bytes` each; more are refused until later."""
PAUSE_PER_DECODING: Final = 2
"""After a payload, none is decoded for this many times as long: a Python thread that decodes also
slows down the event loop, and clients must not be able to do that all the time."""
MAX_ATTRIBUTE_CHARS: Final = 1_024
"""Of an attribute that is kept for matching: a client id may have 32,767."""


class MetadataHolder(Protocol):
    """Has the current metadata."""

    @property
    def image(self) -> MetadataImage: ...


class ClientMetricsHost(Protocol):
    """What the receiver needs of the broker."""

    clock: Clock
    random: Random
    settings: BrokerSettings
    offload: Offload

    @property
    def metadata(self) -> MetadataHolder: ...


class ClientConnection(Protocol):
    """The connection of a client."""

    peer: str
    client_software: tuple[str, str]

    def on_close(self, key: object, lost: "_Forget") -> None: ...


class Requester(NamedTuple):
    """The client of one request."""

    connection: ClientConnection
    client_id: str
    host: str


class ReceiverCounts(NamedTuple):
    """Totals since the start of the broker."""

    unknown_subscriptions: int
    throttled: int
    accepted: int
    failed: int


class ClientMetricsReceiver:
    """The client instances and the series of one broker."""

    def __init__(self, host: ClientMetricsHost) -> None:
        settings = host.settings
        self._host = host
        self.max_bytes = settings.integer("telemetry.max.bytes")
        self.instances = ClientInstances()
        self.series = ClientSeries(
            max_series=settings.integer("headrace.client.metrics.max.series"),
            max_series_per_client=settings.integer("headrace.client.metrics.max.series.per.client"),
        )
        self._image: MetadataImage | None = None
        self._decoding = asyncio.Lock()
        self._next_decoding_s = 0.0
        self._waiting = 0
        self._receiving: set[asyncio.Future[ErrorCode]] = set()
        self._answers: Counter[ErrorCode] = Counter()
        self._limited_log = LimitedLog(log, host.clock.monotonic)

    @property
    def counts(self) -> ReceiverCounts:
        answers = self._answers
        return ReceiverCounts(
            unknown_subscriptions=answers[ErrorCode.UNKNOWN_SUBSCRIPTION_ID],
            throttled=answers[ErrorCode.THROTTLING_QUOTA_EXCEEDED],
            accepted=answers[ErrorCode.NONE],
            failed=answers[ErrorCode.INVALID_RECORD] + answers[ErrorCode.TELEMETRY_TOO_LARGE],
        )

    def subscribe(
        self, requester: Requester, instance_id: bytes
    ) -> tuple[ErrorCode, ClientInstance]:
        """GetTelemetrySubscriptions: the instance, which is new if the id is zero."""
        now_ms = self._now_ms()
        if instance_id == ZERO_UUID:
            instance_id = self._new_id()
        instance = self._instance(requester, instance_id, now_ms)
        code = instance.check_get(now_ms)
        if code:
            self._answers[code] += 1
        return code, instance

    def push(
        self, requester: Requester, instance_id: bytes, push: Push, data: bytes
    ) -> "ErrorCode | asyncio.Future[ErrorCode]":
        """PushTelemetry: a future if the payload has to be decoded."""
        if instance_id in RESERVED_IDS:
            return ErrorCode.INVALID_REQUEST
        now_ms = self._now_ms()
        instance = self._instance(requester, instance_id, now_ms)
        code = instance.check_push(push, now_ms, self.max_bytes)
        if not code and data and instance.wanted.metrics:
            if self._waiting < MAX_WAITING_PUSHES:
                self._waiting += 1
                receiving = asyncio.ensure_future(self._receive(instance, requester, push, data))
                self._receiving.add(receiving)
                receiving.add_done_callback(self._receiving.discard)
                # A client that closes after its terminating push does not wait for the response.
                return asyncio.shield(receiving)
            code = ErrorCode.THROTTLING_QUOTA_EXCEEDED
        self._answers[code] += 1
        return code

    def stop(self) -> None:
        """Drops the payloads that wait to be decoded."""
        for receiving in tuple(self._receiving):
            receiving.cancel()

    def expire(self) -> None:
        """Forgets clients that have stopped."""
        now_ms = self._now_ms()
        self.instances.expire(now_ms)
        self.series.expire(now_ms)

    async def _receive(
        self, instance: ClientInstance, requester: Requester, push: Push, data: bytes
    ) -> ErrorCode:
        code = ErrorCode.NONE
        try:
            decoded = await self._decode(instance, push, data)
        except InvalidPush as error:
            code = instance.last_error = error.code
            self._limited_log.warning(
                "refused the metrics that a client pushed",
                about=requester.host,
                client_id=label_value(requester.client_id),
                client_instance_id=encode_uuid(instance.id),
                peer=requester.connection.peer,
                reason=str(error),
            )
        except Exception as error:  # as in Kafka, where it is the error of a plugin
            code = instance.last_error = ErrorCode.INVALID_RECORD
            self._limited_log.error(
                "the metrics that a client pushed could not be decoded",
                about=requester.host,
                peer=requester.connection.peer,
                reason=repr(error),
            )
        else:
            now_ms = self._now_ms()
            self.series.expire(now_ms)
            self.series.add(
                instance.id,
                _pushing_client(instance, decoded.resource),
                decoded,
                expires_at_ms=now_ms + (LAST_VALUES_MS if push.terminating else instance.expiry_ms),
            )
        finally:
            self._waiting -= 1
        self._answers[code] += 1
        return code

    async def _decode(self, instance: ClientInstance, push: Push, data: bytes) -> DecodedPush:
        loop = asyncio.get_running_loop()
        async with self._decoding:
            await asyncio.sleep(max(0.0, self._next_decoding_s - loop.time()))
            started_s = loop.time()
            try:
                return await self._host.offload(
                    decode_push,
                    push.compression_type,
                    data,
                    instance.wanted,
                    max_bytes=self.max_bytes,
                )
            finally:
                ended_s = loop.time()
                self._next_decoding_s = ended_s + (ended_s - started_s) * PAUSE_PER_DECODING

    def _instance(self, requester: Requester, instance_id: bytes, now_ms: int) -> ClientInstance:
        image = self._host.metadata.image
        if image is not self._image:
            self._image = image
            refused = self.instances.set_subscriptions(stored_subscriptions(image.configs))
            for name, reason in refused.items():
                log.warning(
                    "a client metrics subscription is not used; alter its setting 'match'",
                    extra={"subscription": name, "reason": reason},
                )
        if instance_id not in self.instances:
            requester.connection.on_close(self, _Forget(self.instances, instance_id))
        attributes = _attributes(requester, instance_id)
        return self.instances.find(instance_id, attributes, now_ms)

    def _new_id(self) -> bytes:
        while True:
            found = self._host.random.randbytes(16)
            # As in Kafka, an id does not look like an option of a command.
            if found not in self.instances and not encode_uuid(found).startswith("-"):
                return found

    def _now_ms(self) -> int:
        return int(self._host.clock.monotonic() * 1000)


class _Forget:
    """Forgets an instance when the connection that created it ends; its series stay for a while."""

    __slots__ = ("_instance_id", "_instances")

    def __init__(self, instances: ClientInstances, instance_id: bytes) -> None:
        self._instances = instances
        self._instance_id = instance_id

    def __call__(self) -> None:
        self._instances.remove(self._instance_id)


def _attributes(requester: Requester, instance_id: bytes) -> ClientAttributes:
    software_name, software_version = requester.connection.client_software
    values = (
        encode_uuid(instance_id),
        requester.client_id[:MAX_ATTRIBUTE_CHARS],
        software_name[:MAX_ATTRIBUTE_CHARS],
        software_version[:MAX_ATTRIBUTE_CHARS],
        requester.host,
        requester.connection.peer.rpartition(":")[2],
    )
    return dict(zip(MATCHABLE, values, strict=True))


def _pushing_client(instance: ClientInstance, resource: Mapping[str, str]) -> PushingClient:
    known = instance.attributes
    labels = (
        label_value(known["client_id"]),
        known["client_instance_id"],
        label_value(known["client_software_name"]),
        label_value(known["client_software_version"]),
    )
    return PushingClient(labels, known["client_source_address"], resource)
