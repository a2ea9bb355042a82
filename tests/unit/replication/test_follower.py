"""A follower's writes: in one piece if a commit waits for them, else in small pieces."""

import pytest

from headrace.records.record import Record, build_batch
from headrace.replication.follower import Follower
from headrace.storage.files.filesystem import PIECE_BYTES, Buffer
from headrace.testing.memory_files import MemoryFileSystem
from support.storage.memory_log import NOW_MS, open_log

LARGE = bytes(3 * PIECE_BYTES)


class Noting(MemoryFileSystem):
    def __init__(self) -> None:
        super().__init__()
        self.written: list[int] = []

    def pwrite(self, fd: int, data: Buffer, offset: int, /) -> int:
        self.written.append(len(data))
        return super().pwrite(fd, data, offset)


@pytest.mark.parametrize(("leader_watermark", "is_behind"), [(0, False), (7, True)])
def test_only_a_lagging_follower_writes_gently(leader_watermark: int, is_behind: bool) -> None:
    files = Noting()
    _, log = open_log(files)
    follower = Follower("t", b"t" * 16, 0, 0, lambda _replica: log, leader_id=1, high_watermark=0)
    records = bytes(build_batch([Record(0, NOW_MS, None, LARGE, ())]))
    follower.append_fetched(bytearray(records), leader_watermark, 0, NOW_MS)
    assert log.log_end_offset == 1
    assert (max(files.written) <= PIECE_BYTES) == is_behind
    assert (len(records) in files.written) != is_behind
