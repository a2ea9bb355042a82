"""SIGTERM stops a long command as Ctrl-C does: cleanly, with its own exit code."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Terminated(KeyboardInterrupt):
    """The process received SIGTERM."""


@contextmanager
def stoppable() -> Iterator[None]:
    """Within the block, SIGTERM raises `Terminated`, so that `finally` blocks clean up."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: object) -> None:
        raise Terminated

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
