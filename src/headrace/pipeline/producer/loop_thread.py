"""A thread with an event loop, so that blocking code can use the client."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import TypeVar

from headrace.process_tuning import loop_factory

T = TypeVar("T")


class LoopThread:
    """Runs coroutines for callers that wait; `close` cancels those that are still running."""

    def __init__(self, name: str) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._main, name=name, daemon=True)
        self._thread.start()
        self._ready.wait()

    def run(self, work: Coroutine[object, object, T]) -> T:
        """The result of `work`, which must have its own timeout."""
        if self._loop is None:
            work.close()
            raise RuntimeError("the producer is closed")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def close(self) -> None:
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.call_soon_threadsafe(loop.stop)
            self._thread.join()

    def _main(self) -> None:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            loop = self._loop = runner.get_loop()
            self._ready.set()
            loop.run_forever()
