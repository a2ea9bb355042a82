"""The `headrace` command with one addition: a pipeline kills itself at an exact point of a batch.

Usage: `dying_driver.py POINT FLOWS ARGUMENT...`. The process ends by SIGKILL as soon as FLOWS flows
have reached the point; each flow waits there for the others. POINT is `before-table` (the dead
letters are committed, the table is not) or `after-table` (the table is committed, the group's
offsets are not).
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any


class _Gathering:
    """Flows wait here for each other. When the last one arrives, the process is killed."""

    def __init__(self, flows: int) -> None:
        self._flows = flows
        self._here: set[str] = set()
        self._lock = threading.Lock()

    def come(self, flow: str) -> None:
        with self._lock:
            self._here.add(flow)
            if len(self._here) == self._flows:
                os.kill(os.getpid(), signal.SIGKILL)
        while True:
            time.sleep(1)


def _dying(commit: Callable[..., object], point: str, gathering: _Gathering) -> Any:
    def killed(sink: object, batch: Any, written: object) -> object:
        if point == "after-table":
            commit(sink, batch, written)
        gathering.come(batch.pipeline)
        raise AssertionError("unreachable")

    return killed


def main(point: str, flows: int, arguments: list[str]) -> int:
    from headrace.cli import main as headrace
    from headrace.pipeline.sinks.delta_sink import DeltaSink
    from headrace.pipeline.sinks.iceberg_sink import IcebergSink
    from headrace.pipeline.sinks.parquet_sink import ParquetSink
    from headrace.pipeline.sinks.topic_sink import TopicSink

    gathering = _Gathering(flows)
    for sink in (DeltaSink, IcebergSink, ParquetSink, TopicSink):
        setattr(sink, "commit", _dying(sink.commit, point, gathering))  # noqa: B010
    sys.argv = ["headrace", *arguments]
    return headrace()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), sys.argv[3:]))
