"""A broker's disk fails to flush, once or permanently: its flushes acknowledge nothing.

After a failed fsync the kernel may have dropped the bytes and forgotten about it, so that the next
one succeeds. One failure is as good as many: the directory is not used again.
"""

import errno
from pathlib import Path

import pytest

from headrace.protocol.errors import ErrorCode
from headrace.storage.files.filesystem import RealFileSystem
from support.brokers.members import Members, run, until
from support.brokers.orders_topic import create, produce, values

FAILING = 3
FOR_EVER = 1 << 30
PATIENT = {"replica.lag.time.max.ms": "600000"}


FLUSHED = {"flush.messages": "1", "min.insync.replicas": "2"}


class FailingFiles(RealFileSystem):
    """Flushes fail a given number of times once a test enables it."""

    def __init__(self) -> None:
        self.failures_left = 0
        self.failed = 0

    def fsync(self, fd: int) -> None:
        if self.failures_left:
            self.failures_left -= 1
            self.failed += 1
            raise OSError(errno.EIO, "Input/output error")
        super().fsync(fd)


@pytest.mark.parametrize("failures", [1, FOR_EVER], ids=["once", "for ever"])
def test_a_leader_with_a_failed_flush_stops_acknowledging_and_is_replaced(
    tmp_path: Path, failures: int
) -> None:
    files = FailingFiles()

    async def test() -> None:
        async with Members(tmp_path, count=2) as members:
            await members.start(FAILING, {"log.dirs": f"{tmp_path}/a,{tmp_path}/b"}, files)
            await create(members, [FAILING, 1, 2], FLUSHED)
            assert (await produce(members, FAILING, b"before")).error_code == ErrorCode.NONE
            files.failures_left = failures
            assert (await produce(members, FAILING, b"failed")).error_code != ErrorCode.NONE
            assert (await produce(members, FAILING, b"again")).error_code != ErrorCode.NONE
            assert files.failed
            await until(lambda: members.partition(1).leader != FAILING, "another leads")
            await until(members.agree, "everybody knows")
            leader = members.partition(1).leader
            assert (await produce(members, leader, b"after")).error_code == ErrorCode.NONE
            held = values(members, leader)
            assert [each for each in held if each != b"failed"] == [b"before", b"after"]
            assert FAILING not in members.partition(leader).isr

    run(test())


@pytest.mark.parametrize("failures", [1, FOR_EVER], ids=["once", "for ever"])
def test_a_follower_with_a_failed_flush_leaves_the_isr_and_does_not_block_commits(
    tmp_path: Path, failures: int
) -> None:
    """This holds although the lag limit is long here."""
    files = FailingFiles()

    async def test() -> None:
        async with Members(tmp_path, count=2, settings=PATIENT) as members:
            dirs = {"log.dirs": f"{tmp_path}/a,{tmp_path}/b"}
            await members.start(FAILING, dirs, files)
            await create(members, [1, 2, FAILING], FLUSHED)
            assert (await produce(members, 1, b"before")).error_code == ErrorCode.NONE
            files.failures_left = failures
            assert (await produce(members, 1, b"meanwhile")).error_code == ErrorCode.NONE
            assert FAILING not in members.partition(1).isr
            assert (await produce(members, 1, b"after")).error_code == ErrorCode.NONE
            for id_ in (1, 2):
                assert values(members, id_) == [b"before", b"meanwhile", b"after"]

    run(test())
