"""The worker process that compacts logs: one job per input line, one answer per output line.

It runs with the lowest priority. It exits when its standard input ends: when the broker closes the
pipe or dies. It writes only `.cleaned` files, so it may be killed at any time.
"""

import contextlib
import errno
import gc
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Final

from headrace.storage.cleaning.cleaner_messages import (
    CleanerReport,
    CleaningFailed,
    CleaningJob,
    encode_report,
)
from headrace.storage.cleaning.cleaning_pass import clean
from headrace.storage.cleaning.segment_reader import DamagedSource, Uncleanable
from headrace.storage.files.filesystem import FileSystem, RealFileSystem

LOWEST_PRIORITY: Final = 19
# The error is not in the log: a later attempt may succeed.
_TRANSIENT: Final = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOENT}
)


class IoThrottle:
    """Limits the bytes read and written per second, by sleeping."""

    def __init__(self, max_bytes_per_second: float) -> None:
        self._rate = max_bytes_per_second
        self._began = time.monotonic()
        self._bytes = 0

    def __call__(self, size: int) -> None:
        self._bytes += size
        ahead_s = self._bytes / self._rate - (time.monotonic() - self._began)
        if ahead_s > 0:
            time.sleep(ahead_s)


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the broker handles Ctrl-C
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, LOWEST_PRIORITY)
    gc.disable()  # millions of keys, no cycles
    jobs: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_read_jobs, args=(jobs,), daemon=True).start()
    files = RealFileSystem()
    while True:
        for answer in answers_of(jobs.get(), files):
            _write_answer(answer)


def _read_jobs(jobs: "queue.SimpleQueue[bytes]") -> None:
    """Runs in its own thread, so that the process exits in the middle of a job if the broker
    dies."""
    for line in sys.stdin.buffer:
        jobs.put(line)
    os._exit(0)


def answers_of(
    line: bytes, files: FileSystem, throttle: Callable[[float], Callable[[int], None]] = IoThrottle
) -> Iterator[CleanerReport]:
    """Yields the answers to one job; `throttle` makes an I/O throttle from a rate."""
    try:
        job = CleaningJob.decode(line)
        yield from clean(files, job, throttle(job.max_bytes_per_second))
    except DamagedSource as error:
        yield CleaningFailed(str(error), is_transient=False, damaged_at=error.first_offset)
    except Uncleanable as error:
        yield CleaningFailed(str(error), is_transient=False)
    except OSError as error:
        yield CleaningFailed(str(error), is_transient=error.errno in _TRANSIENT)
    except MemoryError:
        yield CleaningFailed("out of memory", is_transient=True)
    except Exception as error:
        yield CleaningFailed(f"{type(error).__name__}: {error}", is_transient=False)


def _write_answer(answer: CleanerReport) -> None:
    sys.stdout.buffer.write(encode_report(answer))
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
