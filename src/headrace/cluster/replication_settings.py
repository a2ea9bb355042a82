"""The replication settings of a cluster on one machine, for its number of brokers."""

from typing import Final

REPLICAS: Final = 3
MIN_IN_SYNC: Final = 2


def replication_settings(brokers: int) -> dict[str, str]:
    """Three replicas, two of them in sync, or as many as the cluster has brokers for.

    One broker may be down: then a smaller cluster still accepts writes with acks=all.
    """
    replicas = str(min(REPLICAS, brokers))
    in_sync = str(min(MIN_IN_SYNC, max(1, brokers - 1)))
    return {
        "default.replication.factor": replicas,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": in_sync,
    }
