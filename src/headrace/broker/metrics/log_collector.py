"""Logs and log directories: Kafka's Log, LogManager and LogCleanerManager.

A log that was not used since the start is not open. Its offsets are known; its size and its
segments are not, so that its series begin with its first use: a scrape opens no log.
"""

import shutil
from collections.abc import Callable, Iterator
from typing import Final, Protocol

from headrace.broker.maintenance.log_cleaner import LogCleaner
from headrace.broker.metrics.samples import counter, gauge, gauges_by
from headrace.broker.metrics.series_limits import SelectedTopics, SeriesHost
from headrace.clock import Clock
from headrace.metrics.family import MetricFamily, Sample
from headrace.storage.directories.log_manager import LogManager
from headrace.storage.log.log import Log

LABELS: Final = ("topic", "partition")


class LogCollectorHost(SeriesHost, Protocol):
    """What the collector needs of the broker."""

    clock: Clock
    cleaner: LogCleaner

    @property
    def logs(self) -> LogManager: ...


class LogCollector:
    """Reads the logs of the topics within the limits."""

    def __init__(self, host: LogCollectorHost) -> None:
        self._host = host
        self._selected = SelectedTopics(host)

    def collect(self) -> Iterator[MetricFamily | None]:
        logs: list[tuple[tuple[str, str], Log]] = []
        for topic in self._selected.topics():
            for replica in topic.replicas:
                found = self._host.logs.get(topic.name, replica.index)
                if found is not None and found.failure is None:
                    logs.append(((topic.name, str(replica.index)), found))
            yield None
        yield _log_family("size", "Bytes of a log's segments.", _loaded(logs, _size))
        yield _log_family(
            "logstartoffset",
            "First offset of a log.",
            ((labels, each.log_start_offset) for labels, each in logs),
        )
        yield _log_family(
            "logendoffset",
            "Offset of the next record of a log.",
            ((labels, each.log_end_offset) for labels, each in logs),
        )
        yield _log_family("numlogsegments", "Segments of a log.", _loaded(logs, _segments))
        yield from self._directories()
        yield from self._cleaner()

    def _directories(self) -> Iterator[MetricFamily]:
        directories = self._host.logs.directories
        offline = sum(1 for each in directories if not each.is_online)
        yield gauge(
            "kafka_log_logmanager_offlinelogdirectorycount",
            "Log directories that have failed.",
            offline,
        )
        yield gauges_by(
            "headrace_log_directory_online",
            "1 if the log directory works, 0 if it has failed.",
            "path",
            {each.path: int(each.is_online) for each in directories},
        )
        yield gauges_by(
            "headrace_log_directory_full_logs",
            "Logs whose last append a full disk has refused.",
            "path",
            {each.path: len(each.state.full) for each in directories},
        )
        free, total = {}, {}
        for each in directories:
            if each.is_online:
                try:
                    disk = shutil.disk_usage(each.path)
                except OSError:
                    continue
                free[each.path], total[each.path] = disk.free, disk.total
        yield gauges_by(
            "headrace_log_directory_free_bytes",
            "Free bytes of the disk of a log directory.",
            "path",
            free,
        )
        yield gauges_by(
            "headrace_log_directory_capacity_bytes",
            "Size of the disk of a log directory.",
            "path",
            total,
        )

    def _cleaner(self) -> Iterator[MetricFamily]:
        status = self._host.cleaner.status
        uncleanable = dict.fromkeys((each.path for each in self._host.logs.directories), 0)
        for each in status.uncleanable:
            found = self._host.logs.get(each.topic, each.partition)
            if found is not None and found.directory.path in uncleanable:
                uncleanable[found.directory.path] += 1
        yield gauges_by(
            "kafka_log_logcleanermanager_uncleanable_partitions_count",
            "Logs that the cleaner skips because it has failed on them.",
            "logDirectory",
            uncleanable,
        )
        since_ms = self._host.clock.wall_ms() - status.last_pass_ms
        yield MetricFamily(
            "kafka_log_logcleanermanager_time_since_last_run_ms",
            "gauge",
            "Time since the cleaner began its last pass.",
            (),
            (((), max(0, since_ms)),) if status.last_pass_ms >= 0 else (),
        )
        for name, help_, value in (
            ("logs", "Logs that were compacted.", status.logs_cleaned),
            ("bytes_read", "Bytes that the cleaner has read.", status.bytes_read),
            ("bytes_written", "Bytes that the cleaner has written.", status.bytes_written),
        ):
            yield counter(f"headrace_log_cleaner_{name}_total", help_, value)


def _log_family(name: str, help_: str, samples: Iterator[Sample]) -> MetricFamily:
    return MetricFamily(f"kafka_log_log_{name}", "gauge", help_, LABELS, samples)


def _loaded(
    logs: list[tuple[tuple[str, str], Log]], read: Callable[[Log], int]
) -> Iterator[Sample]:
    for labels, each in logs:
        if each.is_loaded and each.failure is None:
            yield labels, read(each)


def _size(of: Log) -> int:
    return of.local.segments.size_bytes


def _segments(of: Log) -> int:
    return len(of.local.segments.items)
