"""Power loss at every file operation of a compaction: no key loses its last value, ever.

A log with tombstones, transactions and several groups of segments is compacted on a file system in
memory that remembers, after each operation, what a loss of power would leave: nothing unsynced,
everything, or something in between, drawn at random. Each of these opens as a log that holds what
was written, of each key the last; and compacting it again works.
"""

from random import Random

import pytest

from headrace.records.codec import Codec
from headrace.storage.cleaning.cleaner_messages import CleanedGroup
from headrace.storage.cleaning.cleaning_pass import clean
from headrace.storage.cleaning.swap import Swap
from headrace.storage.directories.log_manager import LogManager
from headrace.storage.log.log import Log
from headrace.storage.log.log_compaction import begin_swap
from headrace.testing.memory_files import MemoryFileSystem
from support.storage.cleaning import LogCleaner
from support.storage.compacted_model import (
    NOW_MS,
    History,
    last_sequences,
    open_manager,
    read_committed,
)

SEEDS = range(2)
ROUNDS = 2
BATCHES = 9
# Compacting again is slow, so only some crashes do it.
AGAIN_EVERY = 30


class Everything(Random):
    """A killed process on a running machine: every write survives."""

    def random(self) -> float:
        return 0.0

    def randint(self, a: int, b: int) -> int:
        return b


class CrashingFiles(MemoryFileSystem):
    """Notes after each change what a crash would leave, once `crashes` is a list."""

    def __init__(self, seed: int, draws: int = 1) -> None:
        super().__init__()
        self._draws = draws
        self.crashes: list[MemoryFileSystem] | None = None
        self._rng = Random(seed)

    def _end_change(self) -> None:
        super()._end_change()
        if self.crashes is not None:
            for luck in (None, Everything(), *[self._rng] * self._draws):
                self.crashes.append(self.after_power_loss(luck))


def write(log: Log, rng: Random) -> History:
    """Everything in it is flushed, and has been compacted in part."""
    history, cleaner = History(), LogCleaner(log)
    for round_number in range(ROUNDS):
        for n in range(BATCHES):
            key = b"k%d" % rng.randrange(5)
            value = None if rng.random() < 0.2 else b"%d-%d" % (round_number, n) + bytes(60)
            producer_id = rng.choice((-1, 5, 9, 9))
            once = [(b"once-%d-%d" % (round_number, n), b"x")] if n % 4 == 0 else []
            history.put(
                log,
                [(key, value), *once],
                codec=Codec(rng.randrange(5)),
                producer_id=producer_id,
                transactional=producer_id == 9,
            )
            if rng.random() < 0.4:
                history.end(log, 9, commit=rng.random() < 0.5)
        history.end(log, 9, commit=rng.random() < 0.5)
        log.roll()
        if round_number < ROUNDS - 1:
            cleaner.run(NOW_MS)
    log.flush()
    return history


def compact(manager: LogManager, log: Log) -> None:
    """Two passes: in the second, tombstones and markers go too."""
    cleaner = LogCleaner(log)
    for now_ms in (NOW_MS + 2000, NOW_MS + 4000):
        cleaner.cleaned_to = None
        done = cleaner.run(now_ms)
        manager.save_cleaner_offset(log, done.next_dirty)
        manager.sweep()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_crash_anywhere_in_a_compaction_loses_nothing(seed: int) -> None:
    fs = CrashingFiles(seed)
    manager, log = open_manager(fs)
    history = write(log, Random(seed))
    end, producers = log.log_end_offset, last_sequences(log)
    segments = len(log.local.segments.items)
    fs.crashes = crashes = []
    compact(manager, log)
    assert len(log.local.segments.items) < segments  # some became one
    assert len(crashes) > 200
    history.check(log, compacted_below=end)
    for number, crashed in enumerate(crashes):
        manager, log = check_opened(crashed, history, end)
        assert last_sequences(log) == producers
        if number % AGAIN_EVERY == 0:
            check_again(crashed, manager, log, history)


def check_opened(fs: MemoryFileSystem, history: History, end: int) -> tuple[LogManager, Log]:
    """The log is whole, and nothing is left of the compaction."""
    check_names(fs)
    manager, log = open_manager(fs)
    assert log.failure is None
    log.load()
    assert (log.log_start_offset, log.log_end_offset) == (0, end)
    assert log.last_stable_offset == end
    history.check(log)
    names = {entry.name for entry in fs.list_dir("data/t-0")}
    assert not [name for name in names if name.endswith((".cleaned", ".swap", ".deleted"))]
    return manager, log


def check_names(fs: MemoryFileSystem) -> None:
    """A new segment whose log waits for its name has its indexes waiting, too, or a `.cleaned`
    file that says that it is a beginning: Kafka's recovery, too, tells the two apart so."""
    names = {entry.name for entry in fs.list_dir("data/t-0")}
    if any(name.endswith(".cleaned") for name in names):
        return
    for name in names:
        stem = name.removesuffix(".log.swap")
        if stem != name:
            assert {f"{stem}.index.swap", f"{stem}.timeindex.swap"} <= names


def check_again(fs: MemoryFileSystem, manager: LogManager, log: Log, history: History) -> None:
    """What a crash left can be compacted, and is the same when it is opened once more."""
    compact(manager, log)
    history.check(log, compacted_below=log.log_end_offset)
    seen = read_committed(log)
    manager.close()
    _, log = open_manager(fs)
    assert read_committed(log) == seen


def begun_swap(fs: MemoryFileSystem) -> tuple[Swap, History, int]:
    """A swap of several segments that is about to start, and the log's contents."""
    _, log = open_manager(fs)
    history = write(log, Random(7))
    end = log.log_end_offset
    cleaner = LogCleaner(log)
    cleaner.run(NOW_MS + 1000)
    cleaner.cleaned_to = None
    job = cleaner.job(NOW_MS + 2000)
    for group in clean(fs, job):
        assert isinstance(group, CleanedGroup)
        if len(group.sources) > 1:
            break
        cleaner.swap(group, job, NOW_MS)
    else:
        pytest.fail("no group of several segments")
    swap = begin_swap(log, group, job)
    assert swap is not None
    return swap, history, end


def check_crashes_while_opening(
    fs: MemoryFileSystem, seed: int, history: History, end: int, draws: int = 6
) -> None:
    """The log is opened, and again after every crash of that."""
    crashing = CrashingFiles(seed, draws=draws)
    crashing.root = fs.after_power_loss(Everything()).root
    crashing.crashes = crashes = []
    check_opened(crashing, history, end)
    for crashed in crashes:
        check_opened(crashed, history, end)


@pytest.mark.parametrize("steps", range(4))
def test_a_crash_while_a_swap_is_being_completed_loses_nothing(steps: int) -> None:
    """The broker dies in the middle of a swap, and again while it opens the log."""
    fs = MemoryFileSystem()
    swap, history, end = begun_swap(fs)
    swap.prepare()
    for _ in range(steps):
        swap.step()
    check_crashes_while_opening(fs, steps, history, end)


def test_a_crash_while_the_beginning_of_a_swap_is_dropped_loses_nothing() -> None:
    """The broker dies before all files are ready, and again while it drops those that are."""
    fs = CrashingFiles(3, draws=0)
    swap, history, end = begun_swap(fs)
    fs.crashes = crashes = []
    swap.prepare()
    assert len(crashes) > 4
    # Every other one is that of nothing synced, which is always the same.
    for seed, crashed in enumerate(crashes[1::2]):
        check_crashes_while_opening(crashed, seed, history, end, draws=1)
