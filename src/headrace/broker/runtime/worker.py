"""A process or task beside the broker that answers each line with a line."""

from typing import Protocol


class WorkerEnded(Exception):
    """The worker has ended without being closed."""


class Worker(Protocol):
    """A worker ends when it is closed, or when the broker ends in any way."""

    @property
    def pid(self) -> int: ...

    async def send(self, line: bytes) -> None:
        """Sends one line; raises `WorkerEnded` if the worker has ended."""
        ...

    async def receive(self) -> bytes:
        """The next line; raises `WorkerEnded` if the worker has ended."""
        ...

    def close(self) -> None:
        """Ends it at once."""
        ...
