"""Runs blocking calls in threads, outside the event loop.

All threads start here, so that a simulator can run the same work inline, in a known order.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

WORKER_THREADS = 4  # fsyncs of several logs overlap; more would only queue in the kernel


class Offload(Protocol):
    """Runs a blocking call elsewhere and returns its result to the loop."""

    def __call__(
        self, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> "asyncio.Future[T]": ...

    def close(self) -> None: ...


class ThreadOffload:
    """Worker threads, started when first needed."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._pool: ThreadPoolExecutor | None = None

    def __call__(
        self, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> "asyncio.Future[T]":
        if self._pool is None:
            self._pool = ThreadPoolExecutor(WORKER_THREADS, thread_name_prefix="headrace")
        return self._loop.run_in_executor(self._pool, lambda: call(*args, **kwargs))

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True)
