"""Group commit: each append is acknowledged by an fsync that started after it."""

import asyncio
from collections.abc import Callable

import pytest

from headrace.broker.partitions.flusher import Flusher
from headrace.storage.errors import LogDirFailed


class FakeLog:
    """Records the end offset of each flush."""

    def __init__(self) -> None:
        self.log_end_offset = 0

    def flush(self) -> None:
        raise AssertionError("only the offload below runs it")


class FakeLeader:
    """The part of a leader that a flusher uses."""

    def __init__(self) -> None:
        self.log = FakeLog()
        self.flushed_to: list[int] = []

    def flushed(self, up_to: int) -> None:
        self.flushed_to.append(up_to)


class HeldOffload:
    """Runs nothing: the test decides when a flush is done."""

    def __init__(self) -> None:
        self.running: list[asyncio.Future[None]] = []

    def __call__(self, call: Callable[[], None]) -> "asyncio.Future[None]":
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.running.append(future)
        return future

    def close(self) -> None:
        """Nothing to close."""


def test_appends_during_a_flush_share_the_next_one() -> None:
    async def scenario() -> None:
        offload, leader = HeldOffload(), FakeLeader()
        flusher = Flusher(asyncio.get_running_loop(), offload)  # type: ignore[arg-type]
        leader.log.log_end_offset = 1
        first = flusher.flush(leader)  # type: ignore[arg-type]
        leader.log.log_end_offset = 3
        others = [flusher.flush(leader) for _ in range(2)]  # type: ignore[arg-type]
        assert len(offload.running) == 1
        offload.running[0].set_result(None)
        await first
        assert leader.flushed_to == [1]
        assert not any(future.done() for future in others)
        assert len(offload.running) == 2
        offload.running[1].set_result(None)
        await asyncio.gather(*others)
        assert leader.flushed_to == [1, 3]
        assert not flusher.busy

    asyncio.run(scenario())


def test_a_failed_flush_acknowledges_nothing() -> None:
    async def scenario() -> None:
        offload, leader = HeldOffload(), FakeLeader()
        flusher = Flusher(asyncio.get_running_loop(), offload)  # type: ignore[arg-type]
        waiting = flusher.flush(leader)  # type: ignore[arg-type]
        offload.running[0].set_exception(LogDirFailed("the disk is gone"))
        with pytest.raises(LogDirFailed):
            await waiting
        assert leader.flushed_to == []

    asyncio.run(scenario())
