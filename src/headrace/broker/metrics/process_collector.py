"""The broker's process, its event loop, its state, and the scrapes themselves."""

import os
import platform
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Protocol

from headrace import __version__
from headrace.broker.metrics.loop_monitor import LoopMonitor
from headrace.broker.metrics.samples import counter, gauge
from headrace.clock import Clock
from headrace.metrics.durations import summary_samples
from headrace.metrics.family import MetricFamily

RUNNING: Final = 3
SHUTTING_DOWN: Final = 7
_STATM: Final = Path("/proc/self/statm")
_FDS: Final = Path("/proc/self/fd")
_STAT: Final = Path("/proc/self/stat")
_FIELDS_BEFORE_START: Final = 19  # of /proc/self/stat, after the name of the program


class ProcessCollectorHost(Protocol):
    """What the collector needs of the broker."""

    node_id: int
    clock: Clock
    stopping: bool

    @property
    def cluster_id(self) -> str: ...


class ScrapeStatus(Protocol):
    """What is known of earlier scrapes."""

    scrapes: int
    errors: int
    last_duration_s: float
    longest_slice_s: float


class ProcessCollector:
    """Reads the operating system's figures; on systems without /proc some are missing."""

    def __init__(
        self, host: ProcessCollectorHost, monitor: LoopMonitor, status: ScrapeStatus
    ) -> None:
        self._host = host
        self._monitor = monitor
        self._status = status
        self._started_at = host.clock.wall_ms() / 1000 - _age_s()

    def collect(self) -> Iterator[MetricFamily | None]:
        host = self._host
        yield MetricFamily(
            "headrace_build_info",
            "info",
            "Version of Headrace and of Python; the value is 1.",
            ("version", "python", "implementation"),
            (
                (
                    (
                        __version__,
                        platform.python_version(),
                        platform.python_implementation(),
                    ),
                    1,
                ),
            ),
        )
        yield MetricFamily(
            "headrace_broker_info",
            "info",
            "Id of the broker and of its cluster; the value is 1.",
            ("broker", "cluster"),
            (((str(host.node_id), host.cluster_id), 1),),
        )
        yield gauge(
            "kafka_server_kafkaserver_brokerstate",
            "State of the broker: 3 runs, 7 stops.",
            SHUTTING_DOWN if host.stopping else RUNNING,
        )
        yield MetricFamily(
            "headrace_loop_lag_seconds",
            "summary",
            "Delay of the event loop's timers; quantiles are those of the last one to two minutes.",
            (),
            summary_samples((self._monitor.lag,), ()),
        )
        for name, of in (
            ("kafkarequesthandlerpool_requesthandleravgidle_percent", "handlers"),
            ("socketserver_networkprocessoravgidle_percent", "the network"),
        ):
            part = "server" if of == "handlers" else "network"
            yield gauge(
                f"kafka_{part}_{name}",
                f"Share of time, from 0 to 1, in which the event loop is idle: it runs {of}.",
                self._monitor.idle_share,
            )
        yield from self._process()
        yield from self._scrapes()

    def _process(self) -> Iterator[MetricFamily]:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        yield counter(
            "process_cpu_seconds_total",
            "User and system CPU seconds of the process.",
            usage.ru_utime + usage.ru_stime,
        )
        resident = _resident_bytes()
        if resident is not None:
            yield gauge("process_resident_memory_bytes", "Resident memory.", resident)
        descriptors = _open_descriptors()
        if descriptors is not None:
            yield gauge("process_open_fds", "Open file descriptors.", descriptors)
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        yield gauge("process_max_fds", "Limit of open file descriptors.", limit)
        yield gauge(
            "process_start_time_seconds",
            "Start of the process, in seconds since 1970.",
            self._started_at,
        )

    def _scrapes(self) -> Iterator[MetricFamily]:
        status = self._status
        yield counter("headrace_scrapes_total", "Scrapes before this one.", status.scrapes)
        yield counter(
            "headrace_scrape_errors_total",
            "Failures of collectors: some metrics are missing, and the log has the reason.",
            status.errors,
        )
        yield gauge(
            "headrace_scrape_duration_seconds",
            "Duration of the scrape before this one.",
            status.last_duration_s,
        )
        yield gauge(
            "headrace_scrape_longest_slice_seconds",
            "Longest time for which the scrape before this one kept the event loop.",
            status.longest_slice_s,
        )


def _resident_bytes() -> int | None:
    try:
        pages = int(_STATM.read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")


def _open_descriptors() -> int | None:
    try:
        return len(os.listdir(_FDS))  # noqa: PTH208  # without an object for each of thousands
    except OSError:
        return None


def _age_s() -> float:
    """Time since the process started: the kernel counts in ticks since the boot."""
    try:
        fields = _STAT.read_text().rpartition(")")[2].split()
        ticks = int(fields[_FIELDS_BEFORE_START])
        uptime_s = float(Path("/proc/uptime").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return 0.0
    return uptime_s - ticks / os.sysconf("SC_CLK_TCK")
