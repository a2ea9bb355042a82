"""The next record of a consumer, compared with a search through all records of the log.

Logs are random: transactions that end either way or stay open, compressed batches, segments, both
kinds of timestamps, deleted records, and gaps as compaction leaves them.
"""

import asyncio
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.broker.lag.next_records import NextRecords, NextRecordsHost
from headrace.broker.lag.positions import Position
from headrace.broker.lag.time_slices import TimeSlices
from headrace.clock import SystemClock
from headrace.records.codec import Codec
from headrace.records.record import Record, build_batch
from headrace.replication.sole_leader import SoleLeader
from headrace.storage.log.log import Log
from headrace.storage.log.next_record import NextRecord
from headrace.storage.state.log_config import LOG_APPEND_TIME, LogConfig
from headrace.storage.state.producers import BatchOrigin
from support.storage.memory_log import NOW_MS, TOPIC_ID, append, marker, open_log

NO_PRODUCER = -1

Write = tuple[str, int, int]
"""What to append: plain, begin, commit or abort; its producer; its number of records."""

WRITES = st.lists(
    st.tuples(
        st.sampled_from(("plain", "begin", "begin", "commit", "abort")),
        st.integers(1, 3),
        st.integers(1, 4),
    ),
    min_size=1,
    max_size=25,
)


class Written(NamedTuple):
    """A data record of the model."""

    offset: int
    timestamp: int
    aborted: bool


class Model:
    """A log and all its data records."""

    def __init__(self, log: Log, *, append_time: bool) -> None:
        self.leader = SoleLeader("t", TOPIC_ID, 0, 0, lambda _: log)
        self.log = log
        self._append_time = append_time
        self._records: list[tuple[int, int, int, int]] = []  # offset, timestamp, producer, txn
        self._open: dict[int, int] = {}
        self._sequences: dict[int, int] = {}
        self._outcomes: dict[int, bool] = {}
        self._transactions = 0

    def write(self, write: Write, step: int, codec: Codec, gap: bool) -> None:
        kind, producer, count = write
        if kind in ("commit", "abort"):
            if producer in self._open:
                self._outcomes[self._open.pop(producer)] = kind == "abort"
                data = marker(producer, commit=kind == "commit")
                append(self.log, data, origin=BatchOrigin.COORDINATOR)
            return
        transaction = -1
        if kind == "begin":
            self._transactions += producer not in self._open
            transaction = self._open.setdefault(producer, self._transactions)
        self._append(producer, transaction, count, step, codec, gap)

    def _append(
        self, producer: int, transaction: int, count: int, step: int, codec: Codec, gap: bool
    ) -> None:
        now_ms = NOW_MS + 1000 * step
        base = self.log.log_end_offset
        # Timestamps need not ascend. With a gap, the second of three offsets has no record.
        offsets = [n for n in range(count) if not (gap and count > 1 and n == 1)]
        stamps = {n: NOW_MS + 1000 * step - 300 * n for n in offsets}
        records = [Record(n, stamps[n], b"k", b"v" * 40) for n in offsets]
        is_transactional = transaction >= 0
        sequence = self._sequences.get(producer, 0)
        data = build_batch(
            records,
            codec=codec,
            producer_id=producer if is_transactional else NO_PRODUCER,
            producer_epoch=0 if is_transactional else -1,
            base_sequence=sequence if is_transactional else -1,
            is_transactional=is_transactional,
        )
        # Replicas accept batches with gaps; producers do not write them.
        origin = BatchOrigin.REPLICATION if gap else BatchOrigin.CLIENT
        if gap:
            data = build_batch(
                [record._replace(offset=base + record.offset) for record in records],
                codec=codec,
                leader_epoch=0,
                producer_id=producer if is_transactional else NO_PRODUCER,
                producer_epoch=0 if is_transactional else -1,
                base_sequence=sequence if is_transactional else -1,
                is_transactional=is_transactional,
            )
        append(self.log, bytearray(data), now_ms=now_ms, origin=origin)
        appended = self._append_time and not gap
        if is_transactional:
            self._sequences[producer] = sequence + offsets[-1] + 1
        for n in offsets:
            timestamp = now_ms if appended else stamps[n]
            self._records.append((base + n, timestamp, producer, transaction))

    def expected(self, position: Position) -> NextRecord | None:
        """The answer of a search through all records."""
        start = max(position.offset, self.log.log_start_offset)
        for offset, timestamp, _, transaction in self._records:
            aborted = position.skip_aborted and self._outcomes.get(transaction, False)
            if start <= offset < self.leader.high_watermark and not aborted:
                return NextRecord(offset, timestamp)
        return None


class Inline:
    """Runs decoding at once, in place of a thread."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, call: Any, *arguments: Any) -> Any:
        self.calls += 1
        future = asyncio.get_running_loop().create_future()
        future.set_result(call(*arguments))
        return future


def finder() -> NextRecords:
    host = SimpleNamespace(clock=SystemClock(), offload=Inline())
    return NextRecords(cast("NextRecordsHost", host))


def find(finder: NextRecords, model: Model, position: Position) -> NextRecord | None:
    async def run() -> NextRecord | None:
        return await finder.find(model.leader, position, TimeSlices(SystemClock()))

    return asyncio.run(run())


def positions(log: Log) -> Iterator[Position]:
    for offset in range(log.log_end_offset + 1):
        yield Position(offset, skip_aborted=True)
        yield Position(offset, skip_aborted=False)


@settings(max_examples=60, deadline=None)
@given(
    writes=WRITES,
    append_time=st.booleans(),
    codec=st.sampled_from((Codec.NONE, Codec.ZSTD)),
    gaps=st.booleans(),
    segment_bytes=st.sampled_from((300, 1 << 20)),
    deleted=st.floats(0, 1),
)
def test_the_next_record_is_the_one_that_a_search_of_all_records_finds(
    writes: list[Write],
    append_time: bool,
    codec: Codec,
    gaps: bool,
    segment_bytes: int,
    deleted: float,
) -> None:
    config = LogConfig(segment_bytes=segment_bytes)
    if append_time:
        config = LogConfig(segment_bytes=segment_bytes, message_timestamp_type=LOG_APPEND_TIME)
    _, log = open_log(config=config)
    model, search = Model(log, append_time=append_time), finder()
    for step, write in enumerate(writes):
        model.write(write, step, codec, gap=gaps and step % 2 == 1)
        model.leader.log  # noqa: B018  # opens it
        model.leader.high_watermark = log.log_end_offset
        for position in positions(log):  # what a search remembers must hold later, too
            assert find(search, model, position) == model.expected(position), position
    log.delete_before(int(log.log_end_offset * deleted))
    for position in positions(log):
        assert find(search, model, position) == model.expected(position), position
