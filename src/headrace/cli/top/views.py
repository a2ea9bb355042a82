"""The views of `headrace top`: rows from two samples. Pure.

Rates of topics and brokers come from the brokers' metrics if all leaders have a reachable HTTP
port, else from the growth of offsets and logs: deletions then hide a part of the bytes.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from headrace.cli.output import cell
from headrace.cli.top.sample import Sample, rate
from headrace.cli.top.scrape import REQUESTS, TOPICS, Scrape
from headrace.cli.units import byte_size, duration
from headrace.client.results import TopicPartition

NEEDS_METRICS: Final = (
    "the brokers' metrics are not reachable: set headrace.http.listener on the brokers"
)


class ViewName(StrEnum):
    """The views, in the order of their keys."""

    BROKERS = "brokers"
    TOPICS = "topics"
    GROUPS = "groups"
    REQUESTS = "requests"


Value = str | float | int | bool | None


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its header, its name in JSON, and how its values are shown."""

    header: str
    key: str
    show: Callable[[Value], str] = cell


@dataclass(frozen=True, slots=True)
class View:
    """A table; `sort` is the index of the column that sorts it at first, the largest first."""

    name: ViewName
    columns: tuple[Column, ...]
    rows: tuple[tuple[Value, ...], ...]
    sort: int
    note: str = ""

    def sorted_by(self, column: int) -> list[tuple[Value, ...]]:
        """The rows by a column: numbers from the largest, text from the first; unknown last."""

        def place(row: tuple[Value, ...]) -> tuple[int, float, str]:
            value = row[column]
            if value is None:
                return 2, 0.0, str(row[0])
            if isinstance(value, str):
                return 1, 0.0, value
            return 0, -float(value), str(row[0])

        return sorted(self.rows, key=place)

    def facts(self) -> list[dict[str, Value]]:
        keys = [column.key for column in self.columns]
        return [dict(zip(keys, row, strict=True)) for row in self.sorted_by(self.sort)]


def number(value: Value) -> str:
    """A count or a rate with at most three digits after the point."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return cell(value)
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"


def _bytes(value: Value) -> str:
    return byte_size(int(value)) if isinstance(value, int | float) else cell(value)


def _seconds(value: Value) -> str:
    return duration(value) if isinstance(value, int | float) else cell(value)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def view_of(name: ViewName, before: Sample, now: Sample) -> View:
    return _VIEWS[name](before, now)


# --- topics --------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Traffic:
    records: float | None = None
    bytes_in: float | None = None
    bytes_out: float | None = None


def _has_all_metrics(sample: Sample) -> bool:
    leaders = {info.leader for _, info in sample.overview.partitions() if info.leader >= 0}
    return bool(leaders) and leaders <= sample.scrapes.keys()


def _topic_counters(sample: Sample, name: str) -> dict[str, float]:
    totals: dict[str, float] = {}
    for scrape in sample.scrapes.values():
        for topic, value in scrape.by(f"{TOPICS}{name}_total", "topic").items():
            if topic:
                totals[topic] = totals.get(topic, 0.0) + value
    return totals


def _topic_traffic(before: Sample, now: Sample) -> dict[str, _Traffic]:
    seconds = now.at - before.at
    names = [topic.name for topic in now.overview.topics]
    if _has_all_metrics(before) and _has_all_metrics(now):
        found = {}
        counters = {
            name: (_topic_counters(before, name), _topic_counters(now, name))
            for name in ("messagesin", "bytesin", "bytesout")
        }
        for topic in names:
            rates = [
                rate(old.get(topic, 0.0), new.get(topic, 0.0), seconds)
                for old, new in counters.values()
            ]
            found[topic] = _Traffic(*rates)
        return found
    return {
        topic: _Traffic(
            _growth(before.ends, now.ends, topic, seconds),
            _growth(before.sizes, now.sizes, topic, seconds),
        )
        for topic in names
    }


def _growth(
    before: Mapping[TopicPartition, int],
    now: Mapping[TopicPartition, int],
    topic: str,
    seconds: float,
) -> float | None:
    """The growth of the topic's partitions that both samples know."""
    both = [each for each in now if each.topic == topic and each in before]
    if not both or seconds <= 0:
        return None
    return sum(max(0, now[each] - before[each]) for each in both) / seconds


def _topics(before: Sample, now: Sample) -> View:
    traffic = _topic_traffic(before, now)
    rows = []
    for topic in now.overview.topics:
        of = traffic[topic.name]
        lacking = sum(len(info.isr) < len(info.replicas) for info in topic.partitions.values())
        ends = [now.ends.get(TopicPartition(topic.name, index)) for index in topic.partitions]
        known = [end for end in ends if end is not None]
        rows.append(
            (
                topic.name,
                len(topic.partitions),
                _rounded(of.records),
                _rounded(of.bytes_in),
                _rounded(of.bytes_out),
                sum(known) if known else None,
                lacking,
            )
        )
    return View(
        ViewName.TOPICS,
        (
            Column("TOPIC", "topic"),
            Column("PARTS", "partitions", number),
            Column("RECORDS/S", "records_per_s", number),
            Column("IN/S", "bytes_in_per_s", _bytes),
            Column("OUT/S", "bytes_out_per_s", _bytes),
            Column("OFFSETS", "end_offsets", number),
            Column("UNDER-REPL", "under_replicated", number),
        ),
        tuple(rows),
        2,
    )


# --- brokers -------------------------------------------------------------------------------------


def _brokers(before: Sample, now: Sample) -> View:
    seconds = now.at - before.at
    led = _led_growth(before, now)
    rows = []
    live = {broker.id for broker in now.overview.cluster.live}
    for id_, load in now.overview.loads.items():
        old, new = before.scrapes.get(id_), now.scrapes.get(id_)
        requests = errors = bytes_in = bytes_out = None
        records = led.get(id_)
        if old is not None and new is not None:
            requests = _sum_rate(old, new, f"{REQUESTS}requests_total", seconds)
            errors = _error_rate(before, now, id_)
            records = _total_rate(old, new, "messagesin", seconds)
            bytes_in = _total_rate(old, new, "bytesin", seconds)
            bytes_out = _total_rate(old, new, "bytesout", seconds)
        rows.append(
            (
                id_,
                "up" if id_ in live else "down",
                id_ == now.overview.controller,
                load.leads,
                load.replicas,
                load.out_of_sync,
                _rounded(records),
                _rounded(bytes_in),
                _rounded(bytes_out),
                _rounded(requests),
                _rounded(errors),
            )
        )
    return View(
        ViewName.BROKERS,
        (
            Column("BROKER", "broker"),
            Column("STATE", "state"),
            Column("CONTROLLER", "controller"),
            Column("LEADS", "leads", number),
            Column("REPLICAS", "replicas", number),
            Column("OUT-OF-SYNC", "out_of_sync", number),
            Column("RECORDS/S", "records_per_s", number),
            Column("IN/S", "bytes_in_per_s", _bytes),
            Column("OUT/S", "bytes_out_per_s", _bytes),
            Column("REQUESTS/S", "requests_per_s", number),
            Column("ERRORS/S", "errors_per_s", number),
        ),
        tuple(rows),
        6,
    )


def _sum_rate(old: Scrape, new: Scrape, name: str, seconds: float) -> float | None:
    before, now = (sum(each.by(name, "request").values()) for each in (old, new))
    return rate(before, now, seconds)


def _total_rate(old: Scrape, new: Scrape, name: str, seconds: float) -> float | None:
    """The rate over all topics: the series with an empty topic."""
    before, now = (each.by(f"{TOPICS}{name}_total", "topic").get("", 0.0) for each in (old, new))
    return rate(before, now, seconds)


def _led_growth(before: Sample, now: Sample) -> dict[int, float]:
    """Records per second of the partitions that each broker leads."""
    seconds = now.at - before.at
    found: dict[int, float] = {}
    for each, info in now.overview.partitions():
        if each in before.ends and each in now.ends and seconds > 0:
            grown = max(0, now.ends[each] - before.ends[each]) / seconds
            found[info.leader] = found.get(info.leader, 0.0) + grown
    return found


def _error_rate(before: Sample, now: Sample, broker: int) -> float | None:
    def errors(sample: Sample) -> float:
        by_code = sample.scrapes[broker].by(f"{REQUESTS}errors_total", "error")
        return sum(value for code, value in by_code.items() if code != "NONE")

    return rate(errors(before), errors(now), now.at - before.at)


# --- groups --------------------------------------------------------------------------------------


def _groups(before: Sample, now: Sample) -> View:
    rows = []
    for name, group in now.groups.items():
        old = before.groups.get(name)
        read = None if old is None else rate(old.position, group.position, now.at - before.at)
        rows.append(
            (
                name,
                group.kind or None,
                group.state or None,
                group.members,
                group.lag,
                _rounded(group.lag_s),
                _rounded(read),
            )
        )
    return View(
        ViewName.GROUPS,
        (
            Column("GROUP", "group"),
            Column("TYPE", "type"),
            Column("STATE", "state"),
            Column("MEMBERS", "members", number),
            Column("LAG", "lag", number),
            Column("LAG-TIME", "lag_s", _seconds),
            Column("READ/S", "records_per_s", number),
        ),
        tuple(rows),
        4,
    )


# --- requests ------------------------------------------------------------------------------------


def _requests(before: Sample, now: Sample) -> View:
    rows = tuple(_request_rows(before, now))
    return View(
        ViewName.REQUESTS,
        (
            Column("REQUEST", "request"),
            Column("BROKER", "broker"),
            Column("REQUESTS/S", "requests_per_s", number),
            Column("P50-MS", "p50_ms", number),
            Column("P99-MS", "p99_ms", number),
            Column("P999-MS", "p999_ms", number),
            Column("ERRORS/S", "errors_per_s", number),
            Column("WAITING", "waiting", number),
        ),
        rows,
        4,
        "" if now.scrapes else NEEDS_METRICS,
    )


def _request_rows(before: Sample, now: Sample) -> Iterator[tuple[Value, ...]]:
    seconds = now.at - before.at
    for broker, scrape in now.scrapes.items():
        old = before.scrapes.get(broker)
        waiting = scrape.by("headrace_api_waiting_requests", "request")
        counts = scrape.by(f"{REQUESTS}requests_total", "request")
        counts_before = {} if old is None else old.by(f"{REQUESTS}requests_total", "request")
        times = {
            quantile: scrape.by(f"{REQUESTS}totaltimems", "request", quantile=quantile)
            for quantile in ("0.5", "0.99", "0.999")
        }
        for request, count in counts.items():
            yield (
                request,
                broker,
                _rounded(rate(counts_before.get(request), count, seconds)),
                *(_rounded(of.get(request)) for of in times.values()),
                _rounded(_request_errors(before, now, broker, request)),
                waiting.get(request),
            )


def _request_errors(before: Sample, now: Sample, broker: int, request: str) -> float | None:
    def errors(sample: Sample) -> float | None:
        scrape = sample.scrapes.get(broker)
        if scrape is None:
            return None
        by_code = scrape.by(f"{REQUESTS}errors_total", "error", request=request)
        return sum(value for code, value in by_code.items() if code != "NONE")

    return rate(errors(before), errors(now), now.at - before.at)


_VIEWS: Final[Mapping[ViewName, Callable[[Sample, Sample], View]]] = {
    ViewName.BROKERS: _brokers,
    ViewName.TOPICS: _topics,
    ViewName.GROUPS: _groups,
    ViewName.REQUESTS: _requests,
}
