"""Dispatch that counts and times requests: used if the broker has an HTTP port."""

from collections.abc import Callable
from functools import partial
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

    def dispatch(
        self, connection: Connection, frame: memoryview
    ) -> Parts | Pipelined | Serial | None:
        monotonic = self._monotonic
        started = monotonic()
        try:
            reply = super().dispatch(connection, frame)
        except Exception:
            self._meter = None
            self._meters.invalid += 1
            raise
        meter, self._meter = self._meter, None
        if meter is None:  # answered without a handler
            return reply
        worked_s = monotonic() - started
        queued_s = max(0.0, started - connection.last_active)
        if reply.__class__ is list or reply is None:
            meter.answered_at_once(queued_s, worked_s)
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
        metered = self._metered_fetch if route.spec.key is ApiKey.FETCH else self._metered
        route.handle = partial(metered, meter, route.handle)
        return route

    def _metered(
        self, meter: RequestMeter, handle: Handle, context: Context, request: Struct
    ) -> Reply:
        self._meter = meter
        meter.requests[context.version] += 1
        reply = handle(context, request)
        if isinstance(reply, (bytes, Struct)):
            meter.count_answer(reply)
        return reply

    def _metered_fetch(
        self, meter: RequestMeter, handle: Handle, context: Context, request: Struct
    ) -> Reply:
        if is_from_follower(request):
            meter = self._meters.of_followers
        return self._metered(meter, handle, context, request)


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
