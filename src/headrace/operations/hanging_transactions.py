"""Hanging transactions: open in a partition, but unknown to the coordinators.

Such a transaction holds back the last stable offset for good, so consumers that read committed
records stop in front of it. Only an abort marker of the partition's leader ends it.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from headrace.client.admin.transactions import (
    NO_TRANSACTION,
    ActiveProducer,
    describe_producers,
    describe_transaction,
    list_transactions,
)
from headrace.client.client import ClusterClient
from headrace.client.results import Refusal, TopicPartition

MAX_TIMEOUT_MS: Final = 900_000
"""Kafka's default of transaction.max.timeout.ms: coordinators abort transactions at this age."""


class OpenTransaction(NamedTuple):
    """A transaction that is open in a partition, as its leader reports it."""

    partition: TopicPartition
    producer: ActiveProducer


def suspects_of(
    producers: Mapping[TopicPartition, Sequence[ActiveProducer] | Refusal], before_ms: int
) -> list[OpenTransaction]:
    """The open transactions without a write since `before_ms`, sorted."""
    return [
        OpenTransaction(each, producer)
        for each, known in sorted(producers.items(), key=lambda item: item[0])
        if not isinstance(known, Refusal)
        for producer in known
        if producer.transaction_start != NO_TRANSACTION and producer.last_timestamp < before_ms
    ]


async def find_hanging(
    client: ClusterClient,
    partitions: Sequence[TopicPartition],
    before_ms: int,
    *,
    timeout_s: float,
) -> list[OpenTransaction]:
    """The transactions in these partitions that are open, idle and unknown to the coordinators."""
    producers = await describe_producers(client, partitions, timeout_s=timeout_s)
    suspects = suspects_of(producers, before_ms)
    known = await _partitions_known_to_coordinators(
        client, {each.producer.producer_id for each in suspects}, timeout_s
    )
    return [each for each in suspects if (each.producer.producer_id, each.partition) not in known]


async def _partitions_known_to_coordinators(
    client: ClusterClient, producer_ids: Iterable[int], timeout_s: float
) -> set[tuple[int, TopicPartition]]:
    """The partitions of these producers' transactions, as the coordinators know them."""
    wanted = sorted(set(producer_ids))
    if not wanted:
        return set()
    found_ids = await list_transactions(client, timeout_s=timeout_s, producer_ids=wanted)
    known: set[tuple[int, TopicPartition]] = set()
    # A transaction whose coordinator does not answer is not known to hang.
    for each in found_ids.complete():
        found = await describe_transaction(client, each.transactional_id, timeout_s=timeout_s)
        if not isinstance(found, Refusal):
            known |= {(found.producer_id, partition) for partition in found.partitions}
    return known
