"""A coroutine whose steps are measured, but not its waits."""

from collections.abc import Coroutine, Generator
from types import TracebackType
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Stopwatch(Protocol):
    """Measures the time in which the event loop works on a request."""

    def resume(self) -> None:
        """The event loop continues with the request."""
        ...

    def pause(self) -> None:
        """The request waits, or is done."""
        ...


class MeasuredCoroutine(Coroutine[object, object, T]):
    """Starts and stops a stopwatch around each step of another coroutine."""

    __slots__ = ("_inner", "_stopwatch")

    def __init__(self, inner: Coroutine[object, object, T], stopwatch: Stopwatch) -> None:
        self._inner = inner
        self._stopwatch = stopwatch

    def send(self, value: object) -> object:
        self._stopwatch.resume()
        try:
            return self._inner.send(value)
        finally:
            self._stopwatch.pause()

    def throw(
        self,
        typ: Any,  # noqa: ANN401  # as Coroutine declares it
        val: Any = None,  # noqa: ANN401
        tb: TracebackType | None = None,
    ) -> object:
        self._stopwatch.resume()
        try:
            return self._inner.throw(typ if val is None else val)
        finally:
            self._stopwatch.pause()

    def close(self) -> None:
        self._inner.close()

    def __await__(self) -> Generator[Any, Any, T]:
        return self._inner.__await__()
