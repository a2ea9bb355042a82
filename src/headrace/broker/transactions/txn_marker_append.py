"""Appends the control batch that ends a transaction to one partition that this broker leads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from headrace.cluster.topology import GROUP_METADATA_TOPIC
from headrace.coordinator.common.result import ProducerIdentity
from headrace.coordinator.transaction.transaction import MAX_EPOCH, V2
from headrace.records.control import end_txn_marker
from headrace.replication.sole_leader import SoleLeader
from headrace.storage.errors import InvalidProducerEpoch
from headrace.storage.state.producers import NO_OFFSET, BatchOrigin

if TYPE_CHECKING:
    from headrace.clock import Clock


class GroupCoordinator(Protocol):
    """Keeps the offsets that transactions commit."""

    def end_transaction(
        self, index: int, producer: ProducerIdentity, *, committed: bool
    ) -> None: ...


class AppendMarkerHost(Protocol):
    """The part of the broker that the append of a marker uses."""

    clock: Clock

    @property
    def groups(self) -> GroupCoordinator: ...


def append_marker(
    host: AppendMarkerHost,
    leader: SoleLeader,
    producer: ProducerIdentity,
    *,
    commit: bool,
    coordinator_epoch: int,
    version: int,
) -> None:
    """Appends one marker to one partition; raises StorageError.

    With version 2 of the protocol, a new marker has a higher epoch than its transaction. A marker
    with the transaction's own epoch is a late message that ends an earlier transaction.
    """
    now_ms = host.clock.wall_ms()
    if version >= V2 and producer.epoch != MAX_EPOCH:
        known = leader.log.producers.get(producer.producer_id)
        if (
            known is not None
            and known.epoch == producer.epoch
            and known.txn_first_offset != NO_OFFSET
        ):
            raise InvalidProducerEpoch(
                f"the marker for producer {producer.producer_id} has epoch {producer.epoch}, the "
                "epoch of the open transaction; expected the next epoch"
            )
    marker = end_txn_marker(
        commit=commit,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        coordinator_epoch=coordinator_epoch,
        timestamp_ms=now_ms,
    )
    leader.append(memoryview(bytearray(marker)), now_ms, BatchOrigin.COORDINATOR)
    if leader.topic == GROUP_METADATA_TOPIC:
        host.groups.end_transaction(leader.index, producer, committed=commit)
