"""Broker administration: describe the cluster, unregister a broker."""

from dataclasses import dataclass
from typing import Final

from headrace.client.client import ANY, ClusterClient, Target, ToBroker, ToController
from headrace.client.errors import (
    UnsupportedByBroker,
    check_error_code,
)
from headrace.client.metadata import metadata_request
from headrace.client.results import Refusal, refusal
from headrace.protocol.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from headrace.protocol.messages.metadata import MetadataResponse
from headrace.protocol.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)

_WITH_FENCED: Final = 2  # the first version of DescribeCluster that can list fenced brokers


@dataclass(frozen=True, slots=True)
class BrokerInfo:
    """One broker. A fenced broker is registered but not active."""

    id: int
    host: str
    port: int
    rack: str | None = None
    fenced: bool = False


@dataclass(frozen=True, slots=True)
class StoreConnection:
    """A broker's connection to the metadata store, as the broker sees it."""

    kind: str
    """`zookeeper`, or `file` for a standalone node."""
    lost_s: float | None
    """How long there has been no connection; None while there is one."""


@dataclass(frozen=True, slots=True)
class ClusterInfo:
    """The cluster; the controller id is -1 while there is none."""

    cluster_id: str | None
    controller_id: int
    brokers: tuple[BrokerInfo, ...]

    @property
    def live(self) -> tuple[BrokerInfo, ...]:
        return tuple(broker for broker in self.brokers if not broker.fenced)


async def describe_cluster(
    client: ClusterClient, *, timeout_s: float, to: Target = ANY, retry: bool = True
) -> ClusterInfo:
    """The cluster with its brokers by id, as the broker `to` sees it.

    Brokers before Kafka 4.0 do not list fenced brokers, and before 2.8 no racks.
    """
    for fenced in (True, False):
        try:
            answer = await client.send(
                DescribeClusterRequest(include_fenced_brokers=fenced),
                DescribeClusterResponse,
                to=to,
                timeout_s=timeout_s,
                retry=retry,
                at_least=_WITH_FENCED if fenced else 0,
            )
        except UnsupportedByBroker:
            continue
        check_error_code(answer.error_code, "cannot describe the cluster")
        brokers = [
            BrokerInfo(each.broker_id, each.host, each.port, each.rack, each.is_fenced)
            for each in answer.brokers
        ]
        brokers.sort(key=lambda broker: broker.id)
        return ClusterInfo(answer.cluster_id, answer.controller_id, tuple(brokers))
    known = await client.send(
        metadata_request([]), MetadataResponse, to=to, timeout_s=timeout_s, retry=retry
    )
    named = [BrokerInfo(each.node_id, each.host, each.port) for each in known.brokers]
    named.sort(key=lambda broker: broker.id)
    return ClusterInfo(known.cluster_id, known.controller_id, tuple(named))


async def store_connection(
    client: ClusterClient, broker: int, *, timeout_s: float
) -> StoreConnection | None:
    """One broker's connection to the metadata store; None if the broker is not Headrace.

    The request is not retried: it also shows whether the broker answers.
    """
    answer = await client.send(
        DescribeClusterRequest(include_metadata_store=True),
        DescribeClusterResponse,
        to=ToBroker(broker),
        timeout_s=timeout_s,
        retry=False,
    )
    check_error_code(answer.error_code, f"cannot describe the cluster at broker {broker}")
    if not answer.metadata_store:
        return None
    lost_ms = answer.metadata_store_lost_ms
    return StoreConnection(answer.metadata_store, None if lost_ms < 0 else lost_ms / 1000)


async def unregister_broker(
    client: ClusterClient, broker_id: int, *, timeout_s: float
) -> Refusal | None:
    """Unregisters a broker that will not return."""
    answer = await client.send(
        UnregisterBrokerRequest(broker_id=broker_id),
        UnregisterBrokerResponse,
        to=ToController(),
        timeout_s=timeout_s,
    )
    return refusal(answer.error_code, answer.error_message)
