"""The `headrace` command with one addition: a pipeline kills itself at exact points of its batches.

Usage: `killed_driver.py FLOW=POINT,FLOW=POINT... ARGUMENT...`. The process ends by SIGKILL as soon
as each flow has reached its point; each flow waits there for the others. POINT is `before-table`
(the dead letters are committed, the table is not) or `after-table` (the table is committed, the
group's offsets are not).
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any


class _KillPoints:
    """Each flow waits at its point for the others. When the last one arrives, the process dies."""

    def __init__(self, points: Mapping[str, str]) -> None:
        self._points = points
        self._arrived: set[str] = set()
        self._lock = threading.Lock()

    def is_after_table(self, flow: str) -> bool:
        return self._points[flow] == "after-table"

    def arrive(self, flow: str) -> None:
        with self._lock:
            self._arrived.add(flow)
            if self._arrived == self._points.keys():
                os.kill(os.getpid(), signal.SIGKILL)
        while True:
            time.sleep(1)


def _killed_commit(commit: Callable[..., object], points: _KillPoints) -> Any:
    def killed(sink: object, batch: Any, written: object) -> object:
        if points.is_after_table(batch.pipeline):
            commit(sink, batch, written)
        points.arrive(batch.pipeline)
        raise AssertionError("unreachable")

    return killed


def main(points: Mapping[str, str], arguments: list[str]) -> int:
    from headrace.cli import main as headrace
    from headrace.pipeline.sinks.delta_sink import DeltaSink
    from headrace.pipeline.sinks.iceberg_sink import IcebergSink
    from headrace.pipeline.sinks.parquet_sink import ParquetSink
    from headrace.pipeline.sinks.topic_sink import TopicSink

    kill_points = _KillPoints(points)
    for sink in (DeltaSink, IcebergSink, ParquetSink, TopicSink):
        setattr(sink, "commit", _killed_commit(sink.commit, kill_points))  # noqa: B010
    sys.argv = ["headrace", *arguments]
    return headrace()


if __name__ == "__main__":
    chosen = dict(each.split("=") for each in sys.argv[1].split(","))
    sys.exit(main(chosen, sys.argv[2:]))
