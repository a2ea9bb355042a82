"""Dispatch that counts and times requests: used if the broker has an HTTP port."""

from collections.abc import Callable
from typing import cast

from headrace.broker.network.connection import Connection, Encode, Parts, Pipelined, Serial
from headrace.broker.network.dispatch import (
    Context,
    Dispatcher,
    Handle,
    Reply,
    RequestHost,
    Route,
)
from headrace.broker.network.request_meter import RequestMeter, RequestMeters, is_from_follower
from headrace.broker.runtime.measured_coroutine import MeasuredCoroutine
from headrace.protocol.api import ApiKey
from headrace.protocol.struct import Struct

Monotonic = Callable[[], float]


class MeteredDispatcher(Dispatcher):
    """The handler's wrapper finds the meter of a request; dispatch itself records the time, which
    includes decoding and encoding."""

    def __init__(self, broker: RequestHost, meters: RequestMeters, monotonic: Monotonic) -> None:
        super().__init__(broker)
        self._meters = meters
        self._monotonic = monotonic
        self._meter: RequestMeter | None = None  # of the request that was just started
        self._start_request = super().dispatch

    def dispatch(
        self, connection: Connection, frame: memoryview
    ) -> Parts | Pipelined | Serial | None:
        monotonic = self._monotonic
        started = monotonic()
        try:
            reply = self._start_request(connection, frame)
        except Exception:
            self._meter = None
            self._meters.invalid += 1
            raise
        meter, self._meter = self._meter, None
        if meter is None:  # answered without a handler
            return reply
        worked_s = monotonic() - started
        queued_s = started - connection.last_active
        if reply.__class__ is list or reply is None:
            record = meter.record_at_once
            record(queued_s)
            record(worked_s)
            return reply
        waiting = cast("Pipelined | Serial", reply)
        waiting.encode = _Timed(
            meter, monotonic, waiting.encode, started, queued_s, worked_s
        ).encode
        if isinstance(waiting, Serial):
            stopwatch = _Stopwatch(meter, monotonic)
            waiting.coroutine = MeasuredCoroutine(waiting.coroutine, stopwatch)
        else:
            meter.starts_waiting(waiting.future)
        return reply

    def _route(self, key: int) -> Route:
        route = super()._route(key)
        meter = self._meters.of(route.spec.key)
        metered = self._metered(meter, route.handle)
        if route.spec.key is ApiKey.FETCH:
            followers = self._metered(self._meters.of_followers, route.handle)
            route.handle = _by_reader(metered, followers)
        else:
            route.handle = metered
        return route

    def _metered(self, meter: RequestMeter, handle: Handle) -> Handle:
        requests = meter.requests

        def metered(context: Context, request: Struct) -> Reply:
            self._meter = meter
            requests[context.version] += 1
            reply = handle(context, request)
            if reply.__class__ is bytes:
                meter.encoded += 1
            elif isinstance(reply, Struct):
                meter.count_answer(reply)
            return reply

        return metered


def _by_reader(consumers: Handle, followers: Handle) -> Handle:
    def metered(context: Context, request: Struct) -> Reply:
        return (followers if is_from_follower(request) else consumers)(context, request)

    return metered


class _Timed:
    """Records a request when its answer is available, and encodes the answer."""

    __slots__ = ("_encode", "_meter", "_monotonic", "_queued_s", "_started", "_worked_s")

    def __init__(
        self,
        meter: RequestMeter,
        monotonic: Monotonic,
        encode: Encode,
        started: float,
        queued_s: float,
        worked_s: float,
    ) -> None:
        self._meter = meter
        self._monotonic = monotonic
        self._encode = encode
        self._started = started
        self._queued_s = queued_s
        self._worked_s = worked_s

    def encode(self, answer: object) -> Parts | None:
        meter = self._meter
        resumed = self._monotonic()
        meter.count_answer(answer)
        parts = self._encode(answer)
        now = self._monotonic()
        meter.work_s += now - resumed
        total_s = now - self._started + self._queued_s
        meter.answered_later(self._queued_s, self._worked_s, total_s)
        return parts


class _Stopwatch:
    """Adds the steps of a handler's coroutine to the work of its API."""

    __slots__ = ("_began", "_meter", "_monotonic")

    def __init__(self, meter: RequestMeter, monotonic: Monotonic) -> None:
        self._meter = meter
        self._monotonic = monotonic
        self._began = 0.0

    def resume(self) -> None:
        self._began = self._monotonic()

    def pause(self) -> None:
        self._meter.work_s += self._monotonic() - self._began
