"""Counts and times the requests of each API, as Kafka's RequestMetrics.

A broker without an HTTP port has no meters: it dispatches requests as if this module did not exist.
The meters' attributes are plain numbers and arrays, which dispatch changes in place.
"""

import asyncio
from array import array
from collections.abc import Callable, Iterator
from operator import add
from typing import Any, Final, TypeVar

from headrace.broker.network.error_counts import CountErrors, error_counter
from headrace.metrics.durations import Durations
from headrace.protocol.api import APIS, ApiKey, ApiSpec

T = TypeVar("T")

NO_ERROR: Final = 0
_FETCHES: Final = ("FetchConsumer", "FetchFollower")


class RequestMeter:
    """The requests of one API; a consumer's Fetch and a follower's have a meter each."""

    __slots__ = (
        "_at_once",
        "_count_errors",
        "encoded",
        "errors",
        "local",
        "name",
        "queue",
        "record_at_once",
        "remote",
        "requests",
        "total",
        "waiting",
        "work_s",
    )

    def __init__(self, spec: ApiSpec, name: str) -> None:
        self.name = name
        self.requests = [0] * (spec.max_version + 1)
        """By version."""
        self.errors: dict[int, int] = {}
        """By error code, apart from those of `encoded`."""
        self.encoded = 0
        """Responses that the handler had encoded, which it does for successes only."""
        self._at_once: array[float] = array("d")
        self.record_at_once = self._at_once.append
        """Records a request that is answered at once, by two calls: the time until it started, and
        the time of the event loop for it. `fold` must be called now and then."""
        self.queue = Durations()
        """From the arrival of the request's last bytes to its start."""
        self.local = Durations()
        """Until the handler has returned: the event loop works on the request."""
        self.remote = Durations()
        """The wait of requests that are not answered at once."""
        self.total = Durations()
        self.work_s = 0.0
        """Time of the event loop for these requests after `local`."""
        self.waiting = 0
        """Requests in the delayed-operation purgatory, as Kafka calls it."""
        self._count_errors: CountErrors | None = error_counter(spec.response)

    def count_answer(self, answer: object) -> None:
        """Counts the error codes of a response."""
        if answer is None:
            return
        if isinstance(answer, bytes):
            self.encoded += 1
        elif self._count_errors is not None:
            self._count_errors(answer, self.errors)

    def starts_waiting(self, future: "asyncio.Future[object]") -> None:
        """Counts a request as waiting until its answer is available or its client is gone."""
        self.waiting += 1
        future.add_done_callback(self._stopped_waiting)

    def _stopped_waiting(self, _: "asyncio.Future[object]") -> None:
        self.waiting -= 1

    def answered_later(self, queued_s: float, worked_s: float, total_s: float) -> None:
        self.queue.add(queued_s)
        self.local.add(worked_s)
        self.remote.add(max(0.0, total_s - queued_s - worked_s))
        self.total.add(total_s)

    def fast_path_served(self, version: int, count: int, worked_s: float, total_s: float) -> None:
        """Counts requests that one pass of a fast path has served."""
        self.requests[version] += count
        self.encoded += count
        self.queue.add_many(0.0, count)
        self.local.add_many(worked_s / count, count)
        if total_s > worked_s:
            self.remote.add_many(total_s - worked_s, count)
        self.total.add_many(total_s, count)

    @property
    def cpu_s(self) -> float:
        """Time of the event loop for all these requests."""
        self.fold()
        return self.local.sum + self.work_s

    def error_counts(self) -> dict[int, int]:
        """By error code, NONE included."""
        counts = dict(self.errors)
        if self.encoded:
            counts[NO_ERROR] = counts.get(NO_ERROR, 0) + self.encoded
        return counts

    def fold(self) -> None:
        """Counts the requests since the last call."""
        times = self._at_once
        if not times:
            return
        queued, worked = times[0::2], times[1::2]
        del times[:]
        self.queue.buffer.extend(queued)
        self.local.buffer.extend(worked)
        self.total.buffer.extend(map(add, queued, worked))
        for each in (self.queue, self.local, self.remote, self.total):
            each.fold()

    def rotate(self) -> None:
        self.fold()
        for each in (self.queue, self.local, self.remote, self.total):
            each.rotate()


class RequestMeters:
    """The meters of one broker."""

    __slots__ = ("_by_key", "_followers", "invalid", "monotonic")

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self.monotonic = monotonic
        self._by_key: dict[ApiKey, RequestMeter] = {}
        self._followers: RequestMeter | None = None
        self.invalid = 0
        """Requests that could not be answered; their connections were closed."""

    def of(self, key: ApiKey) -> RequestMeter:
        """The meter of an API; for Fetch, that of consumers."""
        found = self._by_key.get(key)
        if found is None:
            spec = APIS[key]
            name = _FETCHES[0] if key is ApiKey.FETCH else spec.name
            found = self._by_key[key] = RequestMeter(spec, name)
        return found

    @property
    def of_followers(self) -> RequestMeter:
        """The meter of Fetch requests that followers send."""
        if self._followers is None:
            self._followers = RequestMeter(APIS[ApiKey.FETCH], "FetchFollower")
        return self._followers

    def measured(self, key: ApiKey, answer: Callable[[], T]) -> Callable[[], T]:
        """The same function; its time counts as work for the API, after a wait."""
        meter, monotonic = self.of(key), self.monotonic

        def measured() -> T:
            began = monotonic()
            try:
                return answer()
            finally:
                meter.work_s += monotonic() - began

        return measured

    def __iter__(self) -> Iterator[RequestMeter]:
        yield from tuple(self._by_key.values())
        if self._followers is not None:
            yield self._followers

    def named(self) -> Iterator[tuple[str, tuple[RequestMeter, ...]]]:
        """The meters by the names of Kafka's metrics: `Fetch` has those of all readers."""
        for meter in self:
            yield meter.name, (meter,)
        fetches = tuple(meter for meter in self if meter.name in _FETCHES)
        if fetches:
            yield "Fetch", fetches

    def fold(self) -> None:
        for meter in self:
            meter.fold()

    def rotate(self) -> None:
        for meter in self:
            meter.rotate()


def is_from_follower(request: Any) -> bool:  # noqa: ANN401  # a FetchRequest, not imported here
    """Whether a broker sent this Fetch."""
    replica_id = request.replica_id
    if replica_id == -1:
        replica_id = request.replica_state.replica_id
    return bool(replica_id >= 0)
