"""A base class for objects with start and close: both `with` and `async with` work."""

import asyncio
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Lifetime(ABC):
    """`with` and `async with` call `start` and `close`; `async with` does so in a thread."""

    @abstractmethod
    def start(self) -> Self:
        """Returns when the object can be used."""

    @abstractmethod
    def close(self) -> None:
        """Releases everything, also after a `start` that failed."""

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await asyncio.to_thread(self.close)
