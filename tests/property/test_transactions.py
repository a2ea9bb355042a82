"""Random producers, lost responses, failed writes and restarts against the transaction coordinator.

Invariants: a written record is never lost; the identity of an id (producer id and epoch) never
goes back; a transaction has one decision, and every decided transaction ends; no accepted request
comes from a producer that was fenced.
"""

from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.common.result import ProducerIdentity
from headrace.coordinator.transaction.marker_request import WriteMarkers
from headrace.coordinator.transaction.transaction import NO_EPOCH, V1, V2, TransactionState
from headrace.protocol.errors import ErrorCode
from support.groups.transactions import END_V1, END_V2, TransactionDriver

IDS = ("a", "b")
ids = st.sampled_from(IDS)
indexes = st.integers(0, 2)
ages = st.integers(0, 3)


class Transactions(RuleBasedStateMachine):
    """Each id has a list of identities that producers were given; old ones are used on purpose."""

    def __init__(self) -> None:
        super().__init__()
        self.driver = TransactionDriver()
        self.given: dict[str, list[ProducerIdentity]] = {one: [] for one in IDS}
        self.newest: dict[str, ProducerIdentity] = {}
        self.decisions: dict[tuple[int, int], bool] = {}
        self.unwritten: list[WriteMarkers] = []

    def producer(self, transactional_id: str, age: int) -> ProducerIdentity:
        given = self.given[transactional_id] or [ProducerIdentity(1, 0)]
        return given[-1 - min(age, len(given) - 1)]

    def attempt(self, action: object, *args: object, **options: object) -> ProducerIdentity | None:
        try:
            return action(*args, **options)  # type: ignore[operator,no-any-return]
        except CoordinatorError as error:
            assert error.code is not ErrorCode.UNKNOWN_SERVER_ERROR
            return None
        finally:
            self.unwritten += self.driver.take_markers()

    @rule(one=ids, goes_on=st.booleans(), age=ages, lost=st.booleans())
    def init(self, one: str, goes_on: bool, age: int, lost: bool) -> None:
        before = self.producer(one, age) if goes_on else None
        answer = self.attempt(self.driver.try_init, one, goes_on_from=before)
        if answer is not None and answer[0] is ErrorCode.NONE and not lost:
            self.given[one].append(answer[1])  # type: ignore[arg-type]

    @rule(one=ids, age=ages, index=indexes, version=st.sampled_from((V1, V2)))
    def add(self, one: str, age: int, index: int, version: int) -> None:
        producer = self.producer(one, age)
        before = self.driver.shard.transactions.get(one)
        size = len(self.driver.log)
        self.attempt(
            self.driver.add,
            producer,
            [("t", index)],
            transactional_id=one,
            client_version=version,
        )
        if len(self.driver.log) > size:
            assert before is not None
            assert (before.producer_id, before.epoch) == producer, "a fenced producer wrote"

    @rule(
        one=ids,
        age=ages,
        commit=st.booleans(),
        version=st.sampled_from((END_V1, END_V2)),
        lost=st.booleans(),
    )
    def end(self, one: str, age: int, commit: bool, version: int, lost: bool) -> None:
        producer = self.producer(one, age)
        answer = self.attempt(
            self.driver.end, producer, commit=commit, version=version, transactional_id=one
        )
        if answer is not None and answer.producer_id >= 0 and not lost:
            self.given[one].append(answer)

    @precondition(lambda self: self.unwritten)
    @rule(data=st.data(), keep=st.booleans())
    def markers_are_written(self, data: st.DataObject, keep: bool) -> None:
        at = data.draw(st.integers(0, len(self.unwritten) - 1))
        self.driver.complete(self.unwritten[at] if keep else self.unwritten.pop(at))

    @rule()
    def append_fails(self) -> None:
        self.driver.fail_next_append = CoordinatorError(ErrorCode.NOT_COORDINATOR)

    @rule()
    def restart(self) -> None:
        before = {
            one: replace(state, last_epoch=NO_EPOCH)
            for one, state in self.driver.shard.transactions.items()
        }
        self.driver.restart()
        assert self.driver.shard.transactions == before
        self.unwritten = self.driver.take_markers()

    @rule(ms=st.sampled_from((1_000, 30_000, 90_000)))
    def time_passes(self, ms: int) -> None:
        self.driver.advance(ms)
        self.unwritten += self.driver.take_markers()

    @invariant()
    def identities_never_go_back(self) -> None:
        for one, state in self.driver.shard.transactions.items():
            now = ProducerIdentity(state.producer_id, state.epoch)
            assert self.newest.get(one, now) <= now
            self.newest[one] = now

    @invariant()
    def a_transaction_has_one_decision(self) -> None:
        for markers in self.unwritten:
            which = (markers.producer_id, markers.epoch)
            if markers.version >= V2:  # version 1 keeps its epoch for the next transaction
                assert self.decisions.setdefault(which, markers.commit) is markers.commit

    @invariant()
    def open_transactions_have_partitions_and_a_start(self) -> None:
        for state in self.driver.shard.transactions.values():
            if state.state is TransactionState.ONGOING:
                assert state.partitions
                assert state.started_ms >= 0
            elif not state.state.is_prepared:
                assert not state.partitions

    def teardown(self) -> None:
        self.driver.fail_next_append = None
        self.driver.restart()
        self.driver.write_markers()
        assert not any(s.state.is_prepared for s in self.driver.shard.transactions.values())


Transactions.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
TestTransactions = Transactions.TestCase
