"""Transactions whose coordinator and partitions are on different brokers, message by message."""

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from headrace.broker.node import Broker
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from headrace.protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from headrace.protocol.struct import Struct
from support.brokers.members import DEADLINE_S, Members, run, until
from support.brokers.orders_topic import ORDERS, create
from support.wire.connection import Wire
from support.wire.transactional_producer import GROUP_KEY, TransactionalProducer, find_coordinator

SETTINGS = {
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.num.partitions": "5",
    "add.partitions.to.txn.retry.backoff.max.ms": "30000",
}


async def aside(work: Callable[[], Any]) -> Any:
    return await asyncio.wait_for(asyncio.to_thread(work), DEADLINE_S * 2)


class LateMarkers:
    """The coordinator's markers reach `receiver` only after that has asked to add partitions to the
    next transaction: before its question arrives, or, if `answered`, after it has been answered."""

    def __init__(
        self, coordinator: Broker, receiver: Broker, transactional_id: str, *, answered: bool
    ) -> None:
        self._asked = asyncio.Event()
        self._transactional_id = transactional_id
        self._coordinator = coordinator
        assert coordinator.peers is not None and receiver.peers is not None
        send, ask = coordinator.peers.request, receiver.peers.request

        async def send_late(id_: int, request: Struct, *rest: Any, **options: Any) -> Any:
            if isinstance(request, WriteTxnMarkersRequest):
                await self._asked.wait()
            return await send(id_, request, *rest, **options)

        async def ask_slowly(id_: int, request: Struct, *rest: Any, **options: Any) -> Any:
            if not isinstance(request, AddPartitionsToTxnRequest):
                return await ask(id_, request, *rest, **options)
            if answered:
                answer = await ask(id_, request, *rest, **options)
                self._asked.set()
                return answer
            self._asked.set()
            await until(self._is_complete, "all markers")
            return await ask(id_, request, *rest, **options)

        coordinator.peers.request = send_late  # type: ignore[method-assign]
        receiver.peers.request = ask_slowly  # type: ignore[method-assign]

    def _is_complete(self) -> bool:
        return self._coordinator.transactions.read(
            self._transactional_id,
            lambda shard, _: not shard.transactions[self._transactional_id].state.is_prepared,
        )


@pytest.mark.parametrize("answered", [False, True])
def test_a_transaction_can_begin_before_the_previous_markers_arrive(
    tmp_path: Path, answered: bool
) -> None:
    """A producer continues when its transaction is decided. A marker that arrives between its
    next batch and the coordinator's verification ends the previous transaction, not this one."""

    async def test() -> None:
        async with Members(tmp_path, settings=SETTINGS) as members:
            producer, wires = await aside(lambda: begin(members, stack))
            host = members.brokers[1].transactions.leader_of(producer.transactional_id)
            leader = next(id_ for id_ in members.brokers if id_ != host)
            await create(members, [leader])

            def send(value: bytes) -> ErrorCode:
                producer.wire = wires[leader]
                return producer.send_only(ORDERS, value)

            assert await aside(lambda: send(b"one")) is ErrorCode.NONE
            LateMarkers(
                members.brokers[host],
                members.brokers[leader],
                producer.transactional_id,
                answered=answered,
            )
            await aside(lambda: decide(producer, wires[host]))
            assert await aside(lambda: send(b"two")) is ErrorCode.NONE

    with ExitStack() as stack:
        run(test())


@pytest.mark.parametrize("answered", [False, True])
def test_offsets_can_be_sent_before_the_previous_transactions_markers_arrive(
    tmp_path: Path, answered: bool
) -> None:
    async def test() -> None:
        async with Members(tmp_path, settings=SETTINGS) as members:
            producer, wires = await aside(lambda: begin(members, stack))
            host = members.brokers[1].transactions.leader_of(producer.transactional_id)
            await aside(lambda: find_coordinator(wires[1], "any", GROUP_KEY))
            groups = members.brokers[1].groups
            group = next(f"g{n}" for n in range(100) if groups.leader_of(f"g{n}") != host)
            leader = groups.leader_of(group)
            await create(members)

            def commit(offset: int) -> ErrorCode:
                producer.wire = wires[leader]
                return producer.commit_offset(group, ORDERS, offset)

            assert await aside(lambda: commit(1)) is ErrorCode.NONE
            LateMarkers(
                members.brokers[host],
                members.brokers[leader],
                producer.transactional_id,
                answered=answered,
            )
            await aside(lambda: decide(producer, wires[host]))
            assert await aside(lambda: commit(2)) is ErrorCode.NONE

    with ExitStack() as stack:
        run(test())


def begin(members: Members, stack: ExitStack) -> tuple[TransactionalProducer, dict[int, Wire]]:
    wires = {
        id_: stack.enter_context(Wire(broker.bootstrap_servers))
        for id_, broker in members.brokers.items()
    }
    producer = TransactionalProducer(wires[1])
    producer.wire = wires[members.brokers[1].transactions.leader_of(producer.transactional_id)]
    return producer.init(), wires


def decide(producer: TransactionalProducer, coordinator: Wire) -> None:
    """Commits without waiting for the markers."""
    producer.wire = coordinator
    code, after = producer.try_end(commit=True)
    assert code is ErrorCode.NONE
    producer.become(after)
