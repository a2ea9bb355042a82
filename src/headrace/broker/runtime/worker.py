"""A helper beside the broker that answers lines with lines."""

from typing import Protocol


class WorkerEnded(Exception):
    """The worker has ended without being closed."""


class Worker(Protocol):
    """It ends when it is closed, and with the broker however that ends."""

    @property
    def pid(self) -> int: ...

    async def send(self, line: bytes) -> None:
        """Hands over one line; raises `WorkerEnded` if the worker has ended."""
        ...

    async def receive(self) -> bytes:
        """The next line; raises `WorkerEnded` if there will be none."""
        ...

    def close(self) -> None:
        """Ends it at once."""
        ...
