"""`headrace cluster`: which brokers there are, and what they serve."""

import typer

from headrace.cli.commands import command
from headrace.cli.exits import refused
from headrace.cli.output import Fields, Table
from headrace.cli.session import Session
from headrace.client.client import ClusterClient
from headrace.client.errors import UnsupportedByBroker
from headrace.client.outcomes import refusal
from headrace.client.topics import list_topics
from headrace.protocol.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)

app = typer.Typer(help="The cluster and its brokers.", no_args_is_help=True)


@command(app, "info")
def info(session: Session) -> None:
    """Show the cluster's id, its brokers and how much it holds."""

    async def work(client: ClusterClient) -> dict[str, object]:
        topics = await list_topics(client, timeout_s=session.timeout_s)
        cache = client.metadata
        racks = await _racks(client, session.timeout_s)
        partitions = [each for topic in topics for each in topic.partitions.values()]
        return {
            "cluster_id": cache.cluster_id,
            "controller": cache.controller_id,
            "topics": sum(not topic.is_internal for topic in topics),
            "internal_topics": sum(topic.is_internal for topic in topics),
            "partitions": len(partitions),
            "under_replicated": sum(len(each.isr) < len(each.replicas) for each in partitions),
            "without_leader": sum(each.leader < 0 for each in partitions),
            "brokers": [
                {
                    "id": broker,
                    "host": address.host,
                    "port": address.port,
                    "rack": racks.get(broker),
                    "controller": broker == cache.controller_id,
                    "leads": sum(each.leader == broker for each in partitions),
                }
                for broker, address in sorted(cache.brokers.items())
            ],
        }

    facts = session.run(work)
    brokers = facts["brokers"]
    assert isinstance(brokers, list)
    labels = {
        "CLUSTER": "cluster_id",
        "CONTROLLER": "controller",
        "TOPICS": "topics",
        "INTERNAL TOPICS": "internal_topics",
        "PARTITIONS": "partitions",
        "UNDER-REPLICATED": "under_replicated",
        "WITHOUT LEADER": "without_leader",
    }
    session.output.show(
        facts,
        Fields([(label, facts[key]) for label, key in labels.items()]),
        Table(
            ("BROKER", "HOST", "PORT", "RACK", "CONTROLLER", "LEADS"),
            [tuple(each.values()) for each in brokers],
        ),
    )


async def _racks(client: ClusterClient, timeout_s: float) -> dict[int, str | None]:
    try:
        answer = await client.send(
            DescribeClusterRequest(), DescribeClusterResponse, timeout_s=timeout_s
        )
    except UnsupportedByBroker:  # before Kafka 2.8
        return {}
    why = refusal(answer.error_code, answer.error_message)
    if why is not None:
        raise refused("the cluster", why)
    return {broker.broker_id: broker.rack for broker in answer.brokers}
