"""The memory disk: only synced data survives a crash, and faults can be injected."""

import errno
from random import Random

import pytest

from headrace.storage.files.filesystem import (
    RealFileSystem,
    make_directories,
    read_file,
    remove_tree,
    replace_file,
    write_file,
)
from headrace.testing.memory_files import MemoryFileSystem, PowerLoss


def test_unsynced_bytes_and_names_are_lost() -> None:
    fs = MemoryFileSystem()
    fs.mkdir("d")
    fs.fsync_dir("")
    kept = fs.open("d/kept", create=True)
    fs.pwrite(kept, b"synced", 0)
    fs.fsync(kept)
    fs.fsync_dir("d")
    fs.pwrite(kept, b" and not", 6)
    nameless = fs.open("d/nameless", create=True)
    fs.pwrite(nameless, b"synced too", 0)
    fs.fsync(nameless)
    after = fs.after_power_loss(None)
    assert [entry.name for entry in after.list_dir("d")] == ["kept"]
    assert read_file(after, "d/kept") == b"synced"
    assert read_file(fs.after_kill(), "d/kept") == b"synced and not"


def test_removals_and_renames_are_undone_unless_the_directory_is_synced() -> None:
    fs = MemoryFileSystem()
    for name in ("a", "b"):
        write_file(fs, name, name.encode(), sync=True)
    fs.fsync_dir("")
    fs.remove("a")
    fs.rename("b", "c")
    assert {e.name for e in fs.list_dir("")} == {"c"}
    assert {e.name for e in fs.after_power_loss(None).list_dir("")} == {"a", "b"}
    fs.fsync_dir("")
    assert {e.name for e in fs.after_power_loss(None).list_dir("")} == {"c"}


def test_a_torn_write_may_end_anywhere_but_synced_bytes_stay() -> None:
    fs = MemoryFileSystem()
    fd = fs.open("f", create=True)
    fs.pwrite(fd, b"A" * 10, 0)
    fs.fsync(fd)
    fs.fsync_dir("")
    fs.pwrite(fd, b"B" * 2000, 10)
    sizes = set()
    for seed in range(300):
        data = read_file(fs.after_power_loss(Random(seed)), "f")
        assert data[:10] == b"A" * 10
        sizes.add(len(data.rstrip(b"\0")))
    assert len(sizes) > 50
    assert {10, 2010} <= sizes


def test_replace_file_leaves_the_old_or_the_new_at_every_crash() -> None:
    point = 0
    outcomes = set()
    while True:
        point += 1
        fs = MemoryFileSystem()
        replace_file(fs, "c", b"old")
        fs.power_fails_at = fs.operations + point
        try:
            replace_file(fs, "c", b"new!")
        except PowerLoss:
            outcomes |= {read_file(fs.after_power_loss(Random(seed)), "c") for seed in range(20)}
        else:
            break
    assert outcomes == {b"old", b"new!"}


def test_every_operation_fails_after_power_loss() -> None:
    fs = MemoryFileSystem()
    fs.power_fails_at = 1
    with pytest.raises(PowerLoss):
        fs.mkdir("d")
    with pytest.raises(PowerLoss):
        fs.list_dir("")


def test_faults_happen_once_or_persist() -> None:
    fs = MemoryFileSystem()
    fd = fs.open("f", create=True)
    fs.fault_at, fs.fault_errno = fs.operations + 1, errno.EIO
    with pytest.raises(OSError) as caught:
        fs.fsync(fd)
    assert caught.value.errno == errno.EIO
    fs.fsync(fd)
    fs.fault_at, fs.fault_lasts = fs.operations + 1, True
    for _ in range(2):
        with pytest.raises(OSError):
            fs.pwrite(fd, b"x", 0)


def test_a_full_disk_writes_as_much_as_fits() -> None:
    fs = MemoryFileSystem(capacity_bytes=10)
    fd = fs.open("f", create=True)
    assert fs.pwrite(fd, b"x" * 8, 0) == 8
    assert fs.pwrite(fd, b"x" * 8, 8) == 2
    with pytest.raises(OSError) as caught:
        fs.pwrite(fd, b"x", 10)
    assert caught.value.errno == errno.ENOSPC


@pytest.mark.parametrize("real", [False, True])
def test_the_memory_disk_behaves_like_the_real_one(real: bool, tmp_path: object) -> None:
    fs = RealFileSystem() if real else MemoryFileSystem()
    root = str(tmp_path) if real else "root"
    make_directories(fs, f"{root}/a/b")
    with pytest.raises(FileExistsError):
        fs.mkdir(f"{root}/a")
    with pytest.raises(FileNotFoundError):
        fs.open(f"{root}/a/none")
    fd = fs.open(f"{root}/a/f", create=True)
    assert fs.pwrite(fd, b"hello", 3) == 5
    assert (fs.size(fd), fs.pread(fd, 99, 0)) == (8, b"\0\0\0hello")
    fs.truncate(fd, 4)
    fs.fsync(fd)
    assert fs.stat(f"{root}/a/f").size == 4
    fs.rename(f"{root}/a/f", f"{root}/a/g")
    assert sorted(fs.list_dir(f"{root}/a")) == [("b", True), ("g", False)]
    with pytest.raises(OSError):
        fs.rmdir(f"{root}/a")
    lock = fs.lock(f"{root}/.lock")
    with pytest.raises(BlockingIOError):
        fs.lock(f"{root}/.lock")
    fs.close(lock)
    fs.close(fs.lock(f"{root}/.lock"))
    fs.close(fd)
    fs.sync_all(root)
    remove_tree(fs, f"{root}/a")
    remove_tree(fs, f"{root}/a")
    assert [entry.name for entry in fs.list_dir(root)] == [".lock"]
