"""A share partition against a model that knows one offset at a time."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from headrace.share.batch_size import BatchLimit
from headrace.share.record_state import (
    Acknowledgement,
    AcknowledgeType,
    RecordState,
    StateBatch,
)
from headrace.share.share_partition import SharePartition
from headrace.share.share_rules import ShareRules
from headrace.share.state_write import StateWrite

MEMBERS = ("ann", "bob", "cat")
LOCK_MS = 1_000
LARGEST_BATCH = 6
MAX_LOCKS = 20


class ShareModel(RuleBasedStateMachine):
    """Every record is delivered until it is finished, to one member at a time, and counted."""

    @initialize(max_deliveries=st.integers(2, 5), dead_letters=st.booleans())
    def begin(self, max_deliveries: int, dead_letters: bool) -> None:
        self.rules = ShareRules(
            lock_ms=LOCK_MS,
            max_deliveries=max_deliveries,
            max_locks=MAX_LOCKS,
            dead_letters=dead_letters,
        )
        self.log: list[tuple[int, int]] = []
        self.log_end = 0
        self.log_start = 0
        self.now = 0
        self.stored: dict[int, tuple[RecordState, int]] = {}
        self.stored_start = 0
        self.partition = SharePartition(lambda: self.rules, 0)
        self.writes: list[StateWrite] = []
        self.held: dict[int, tuple[str, int]] = {}  # offset -> member, deadline
        self.count: dict[int, int] = {}
        self.copied: set[int] = set()
        self.gaps: set[int] = set()
        self.given_up: set[int] = set()  # out of deliveries, which stands before it is stored

    # --- changes of the log ----------------------------------------------------------------------

    @rule(sizes=st.lists(st.integers(1, LARGEST_BATCH), min_size=1, max_size=5))
    def produce(self, sizes: list[int]) -> None:
        for size in sizes:
            self.log.append((self.log_end, self.log_end + size - 1))
            self.log_end += size

    @precondition(lambda self: len(self.log) > 2)
    @rule(index=st.integers(0, 30))
    def compact_away_a_batch(self, index: int) -> None:
        del self.log[index % (len(self.log) - 1)]

    @precondition(lambda self: self.log)
    @rule()
    def delete_the_oldest_batch(self) -> None:
        self.log_start = self.log.pop(0)[1] + 1
        self.partition.move_start(self.log_start)
        self.held = {o: h for o, h in self.held.items() if o >= self.log_start}

    # --- member actions -------------------------------------------------------------------------

    @rule(
        member=st.sampled_from(MEMBERS),
        max_records=st.integers(1, 12),
        batch_size=st.integers(1, 8),
        strict=st.booleans(),
        batches=st.integers(1, 6),
    )
    def fetch(
        self, member: str, max_records: int, batch_size: int, strict: bool, batches: int
    ) -> None:
        if not self.partition.can_acquire():
            return
        offset = self.partition.next_fetch_offset()
        read = [batch for batch in self.log if batch[1] >= offset][:batches]
        take = BatchLimit(max_records, batch_size, strict)
        acquired = self.partition.acquire(member, offset, read, take, self.now)
        total = 0
        for first, last, deliveries in acquired:
            total += last - first + 1
            for taken in range(first, last + 1):
                assert taken not in self.held, "held by two"
                assert not self._finished(taken), "delivered after its end"
                self.count[taken] = self.count.get(taken, 0) + 1
                assert deliveries == self.count[taken]
                assert deliveries <= self.rules.max_deliveries
                self.held[taken] = (member, self.now + LOCK_MS)
        if strict:
            assert total <= max_records
        if read and self._has_free(offset, read):
            assert acquired, "a free record was not delivered"

    def _finished(self, offset: int) -> bool:
        state = self.stored.get(offset, (RecordState.AVAILABLE, 0))[0]
        return state in (RecordState.ACKNOWLEDGED, RecordState.ARCHIVED)

    def _has_free(self, offset: int, read: list[tuple[int, int]]) -> bool:
        return any(
            b.state is RecordState.AVAILABLE and first <= b.last and b.first <= last
            for b in self.partition.states()
            for first, last in read
            if self.partition.next_fetch_offset() == b.first
        )

    @rule(
        member=st.sampled_from(MEMBERS),
        kinds=st.lists(st.sampled_from(list(AcknowledgeType)), min_size=1, max_size=8),
        skip=st.integers(0, 10),
    )
    def acknowledge(self, member: str, kinds: list[AcknowledgeType], skip: int) -> None:
        mine = sorted(o for o, (holder, _) in self.held.items() if holder == member)[skip:]
        pairs = list(zip(mine, kinds, strict=False))
        if not pairs:
            return
        write = self.partition.acknowledge(
            member, [Acknowledgement(o, o, kind) for o, kind in pairs], self.now
        )
        for offset, kind in pairs:
            if kind is AcknowledgeType.GAP:
                self.gaps.add(offset)
            if kind is AcknowledgeType.RENEW:
                self.held[offset] = (member, self.now + LOCK_MS)
        self._sent(write)

    @rule(member=st.sampled_from(MEMBERS))
    def leave(self, member: str) -> None:
        self._sent(self.partition.release(member))
        assert not any(holder == member for holder, _ in self.held.values())

    @rule(ms=st.integers(1, 2 * LOCK_MS))
    def wait(self, ms: int) -> None:
        self.now += ms
        expired = {o for o, (_, deadline) in self.held.items() if deadline <= self.now}
        write = self.partition.expire(self.now)
        assert {o for o in _offsets(write) if o in self.held} == expired
        for batch in write.batches if write is not None else ():
            if batch.state is RecordState.ARCHIVED:
                self.given_up.update(range(batch.first, batch.last + 1))
        self._sent(write)
        deadline = self.partition.next_deadline_ms()
        assert deadline == min((d for _, d in self.held.values()), default=None)

    def _sent(self, write: StateWrite | None) -> None:
        if write is not None:
            self.writes.append(write)
            for offset in _offsets(write):
                self.held.pop(offset, None)

    # --- results of writes ----------------------------------------------------------------------

    @precondition(lambda self: self.writes)
    @rule()
    def store(self) -> None:
        write = self.writes.pop(0)
        self.stored_start = max(self.stored_start, write.start_offset)
        for first, last, state, deliveries in write.batches:
            for offset in range(first, last + 1):
                self.stored[offset] = (state, deliveries)
        self.partition.committed(write)
        for letter in self.partition.take_dead_letters():
            for offset in range(letter.first, letter.last + 1):
                self.copied.add(offset)
            archived = self.partition.copied(letter.first, letter.last)
            assert archived is not None
            self.writes.append(archived)

    @precondition(lambda self: self.writes)
    @rule()
    def lose(self) -> None:
        write = self.writes.pop()
        self.partition.failed(write)
        for batch in self.partition.states():
            for offset in range(batch.first, batch.last + 1):
                if batch.state is RecordState.ACQUIRED and offset not in self.held:
                    holder = self.partition.holder(offset)
                    if offset in set(_offsets(write)):
                        self.held[offset] = (holder, self._deadline(offset))
        # A failed copy is sent again.
        for batch in write.batches:
            if batch.state is RecordState.ARCHIVED:
                archived = self.partition.copied(batch.first, batch.last)
                if archived is not None:
                    self.writes.append(archived)

    def _deadline(self, offset: int) -> int:
        return next(s.deadline_ms for s in self.partition._spans.overlapping(offset, offset))

    @rule()
    def restart(self) -> None:
        """Stored state is kept; everything else is delivered again."""
        batches = [StateBatch(o, o, *state) for o, state in self.stored.items()]
        batches = [batch for batch in batches if batch.first >= self.stored_start]
        self.partition = SharePartition(lambda: self.rules, self.stored_start, batches)
        self.partition.move_start(self.log_start)
        self.writes.clear()
        self.held.clear()
        self.given_up.clear()
        self.count = {offset: deliveries for offset, (_, deliveries) in self.stored.items()}
        for letter in self.partition.take_dead_letters():
            for offset in range(letter.first, letter.last + 1):
                self.copied.add(offset)
            archived = self.partition.copied(letter.first, letter.last)
            assert archived is not None
            self.writes.append(archived)

    # --- invariants ------------------------------------------------------------------------------

    @invariant()
    def the_window_is_bounded(self) -> None:
        gaps = self.log_end - sum(last - first + 1 for first, last in self.log)
        assert self.partition.in_flight < MAX_LOCKS + LARGEST_BATCH + gaps

    @invariant()
    def runs_touch_and_hold_what_members_hold(self) -> None:
        at = self.partition.start_offset
        for batch in self.partition.states():
            assert batch.first == at
            assert batch.last >= batch.first
            at = batch.last + 1
        assert at == self.partition.end_offset
        for offset, (member, _) in self.held.items():
            assert self.partition.holder(offset) == member

    @invariant()
    def nothing_unfinished_is_left_behind(self) -> None:
        for offset in (o for first, last in self.log for o in range(first, last + 1)):
            if self.log_start <= offset < self.partition.start_offset:
                assert self._finished(offset) or offset in self.given_up
                if self.rules.dead_letters and self.stored[offset][0] is RecordState.ARCHIVED:
                    assert offset in self.copied or offset in self.gaps


def _offsets(write: StateWrite | None) -> list[int]:
    if write is None:
        return []
    return [o for batch in write.batches for o in range(batch.first, batch.last + 1)]


ShareModel.TestCase.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
test_share_partition = ShareModel.TestCase
