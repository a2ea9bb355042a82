"""Things with a beginning and an end, as context managers in both kinds of code."""

import asyncio
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Lifetime(ABC):
    """`with` starts it and closes it; so does `async with`, beside the loop."""

    @abstractmethod
    def start(self) -> Self:
        """Returns when it can be used."""

    @abstractmethod
    def close(self) -> None:
        """Ends it, also one that has only half begun."""

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
