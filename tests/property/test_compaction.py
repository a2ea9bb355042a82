"""A compacted log keeps the last value of each key, for any records and transactions."""

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.records.codec import Codec
from headrace.testing.memory_files import MemoryFileSystem
from support.storage.cleaning import LogCleaner, records_of
from support.storage.compacted_model import (
    NOW_MS,
    History,
    last_sequences,
    open_manager,
    read_committed,
)

# Four of the largest records must fit one segment, with what a codec adds to them.
KEYS = [b"", b"a", b"b", b"c" * 20, b"d" * 50]
PLAIN, IDEMPOTENT, TRANSACTIONAL = -1, 5, 9

pairs = st.lists(
    st.tuples(st.sampled_from(KEYS), st.none() | st.binary(max_size=45)), min_size=1, max_size=4
)
put = st.tuples(
    st.just("put"),
    pairs,
    st.sampled_from(Codec),
    st.sampled_from([PLAIN, IDEMPOTENT, TRANSACTIONAL, TRANSACTIONAL + 1]),
)
end = st.tuples(st.just("end"), st.sampled_from([TRANSACTIONAL, TRANSACTIONAL + 1]), st.booleans())
clean = st.tuples(st.just("clean"), st.sampled_from([0, 400, 1000]), st.sampled_from([1, 3, 1000]))
steps = st.lists(
    st.one_of(
        put,
        put,
        put,
        end,
        st.just(("roll",)),
        clean,
        st.tuples(st.just("restart"), st.booleans()),
    ),
    max_size=40,
)


@settings(max_examples=80, deadline=None)
@given(steps)
def test_a_compacted_log_equals_the_model(steps: list[tuple[object, ...]]) -> None:
    fs = MemoryFileSystem()
    manager, log = open_manager(fs)
    history, cleaner, now_ms = History(), LogCleaner(log), NOW_MS
    for step in steps:
        match step:
            case ("put", list() as written, Codec() as codec, int() as producer_id):
                history.put(
                    log,
                    written,
                    codec=codec,
                    producer_id=producer_id,
                    transactional=producer_id >= TRANSACTIONAL,
                )
            case ("end", int() as producer_id, bool() as commit):
                history.end(log, producer_id, commit=commit)
            case ("roll",):
                log.roll()
            case ("clean", int() as waited_ms, int() as max_keys):
                now_ms += waited_ms
                cleaner.max_keys = max_keys
                end_offset, producers = log.log_end_offset, last_sequences(log)
                done = cleaner.run(now_ms)
                history.check(log, compacted_below=done.next_dirty)
                assert (log.log_start_offset, log.log_end_offset) == (0, end_offset)
                assert last_sequences(log) == producers
            case ("restart", bool() as clean_stop):
                before = last_sequences(log)
                if clean_stop:
                    manager.close()
                else:
                    log.flush()
                    fs = fs.after_kill()
                manager, log = open_manager(fs)
                cleaner.log = log
                assert last_sequences(log) == before
        history.check(log)
    # A second compaction at the same time changes nothing.
    cleaner.max_keys = 1000
    cleaner.run(now_ms)
    first, view = records_of(log), read_committed(log)
    cleaner.cleaned_to = None
    cleaner.run(now_ms)
    assert records_of(log) == first
    assert read_committed(log) == view
