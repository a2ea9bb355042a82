"""SIGTERM ends a long command as Ctrl-C does: in order, with its own exit code."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Terminated(KeyboardInterrupt):
    """Somebody asked the process to stop."""


@contextmanager
def stoppable() -> Iterator[None]:
    """Inside, SIGTERM raises `Terminated` where the program is; the blocks around it clean up."""
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
