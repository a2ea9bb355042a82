"""Requests by API: Kafka's RequestMetrics, its purgatories and its fetch session cache."""

from collections.abc import Callable, Iterator
from typing import Final, Protocol

from headrace.broker.fetch.delayed_fetch import DelayedFetch
from headrace.broker.fetch.fetch_session import FetchSessions
from headrace.broker.metrics.samples import counter, counters_by, gauge, gauges_by
from headrace.broker.network.request_meter import RequestMeter, RequestMeters
from headrace.metrics.durations import Durations, summary_samples
from headrace.metrics.family import MetricFamily, Sample
from headrace.protocol.api import ApiKey
from headrace.protocol.errors import ErrorCode

PREFIX: Final = "kafka_network_requestmetrics_"
MS: Final = 1000.0
UNKNOWN_CODE: Final = "UNKNOWN"
_CODES: Final = {int(code): code for code in ErrorCode}

_TIMES: Final[tuple[tuple[str, str, Callable[[RequestMeter], Durations]], ...]] = (
    (
        "totaltimems",
        "Milliseconds from the arrival of a request until its response is ready",
        lambda meter: meter.total,
    ),
    (
        "requestqueuetimems",
        "Milliseconds from the arrival of a request until its handler starts",
        lambda meter: meter.queue,
    ),
    (
        "localtimems",
        "Milliseconds of the event loop until a request is answered or waits",
        lambda meter: meter.local,
    ),
    (
        "remotetimems",
        "Milliseconds that a request waits for replicas, for the disk or for records",
        lambda meter: meter.remote,
    ),
)


class RequestCollectorHost(Protocol):
    """What the collector needs of the broker."""

    fetch_sessions: FetchSessions
    delayed_fetches: dict[DelayedFetch, None]


class RequestCollector:
    """Reads the meters of all APIs that were used."""

    def __init__(self, host: RequestCollectorHost, meters: RequestMeters) -> None:
        self._host = host
        self._meters = meters

    def collect(self) -> Iterator[MetricFamily | None]:
        self._meters.fold()
        named = tuple(self._meters.named())
        yield MetricFamily(
            f"{PREFIX}requests_total",
            "counter",
            "Requests, by API and version.",
            ("request", "version"),
            _requests(named),
        )
        yield MetricFamily(
            f"{PREFIX}errors_total",
            "counter",
            "Error codes in responses, NONE included: one for each part of a response that has a "
            "code, such as a partition.",
            ("request", "error"),
            _errors(named),
        )
        for name, help_, part in _TIMES:
            yield MetricFamily(
                f"{PREFIX}{name}",
                "summary",
                f"{help_}; quantiles are those of the last one to two minutes.",
                ("request",),
                _times(named, part),
            )
        yield counters_by(
            "headrace_api_cpu_seconds_total",
            "Seconds in which the event loop worked on the requests of an API.",
            "request",
            {name: sum(meter.cpu_s for meter in meters) for name, meters in named},
        )
        yield gauges_by(
            "headrace_api_waiting_requests",
            "Requests that wait for replicas, for the disk or for records.",
            "request",
            {name: sum(meter.waiting for meter in meters) for name, meters in named},
        )
        yield counter(
            "headrace_invalid_requests_total",
            "Requests that could not be read or served; their connections were closed.",
            self._meters.invalid,
        )
        yield from self._purgatory()

    def _purgatory(self) -> Iterator[MetricFamily]:
        waiting = {meter.name: meter.waiting for meter in self._meters}
        # Fetches of either kind wait in one purgatory, as in Kafka.
        fetches = waiting.get("FetchConsumer", 0) + waiting.get("FetchFollower", 0)
        yield gauges_by(
            "kafka_server_delayedoperationpurgatory_purgatorysize",
            "Requests that wait, by the kind of request.",
            "delayedOperation",
            {
                "Fetch": fetches,
                "Produce": waiting.get(ApiKey.PRODUCE.name.title(), 0),
                "ShareFetch": waiting.get("ShareFetch", 0),
            },
        )
        sessions = self._host.fetch_sessions
        prefix = "kafka_server_fetchsessioncache_"
        yield gauge(
            f"{prefix}numincrementalfetchsessions",
            "Fetch sessions of consumers.",
            len(sessions),
        )
        yield gauge(
            f"{prefix}numincrementalfetchpartitionscached",
            "Partitions of the fetch sessions of consumers.",
            sessions.cached_partitions,
        )
        yield counter(
            f"{prefix}incrementalfetchsessionevictions_total",
            "Fetch sessions that were replaced because the cache was full.",
            sessions.evictions,
        )


_Named = tuple[tuple[str, tuple[RequestMeter, ...]], ...]


def _requests(named: _Named) -> Iterator[Sample]:
    for name, meters in named:
        for version in range(len(meters[0].requests)):
            count = sum(meter.requests[version] for meter in meters)
            if count:
                yield (name, str(version)), count


def _errors(named: _Named) -> Iterator[Sample]:
    for name, meters in named:
        counts: dict[str, int] = {}
        for meter in meters:
            for code, count in meter.error_counts().items():
                title = _code_name(code)
                counts[title] = counts.get(title, 0) + count
        for title, count in counts.items():
            yield (name, title), count


def _code_name(code: int) -> str:
    found = _CODES.get(code)
    return UNKNOWN_CODE if found is None else found.name


def _times(named: _Named, part: Callable[[RequestMeter], Durations]) -> Iterator[Sample]:
    for name, meters in named:
        yield from summary_samples(
            map(part, meters),
            (name,),
            scale=MS,
            # A request that is answered at once has no remote time.
            among=(meter.total for meter in meters),
        )
