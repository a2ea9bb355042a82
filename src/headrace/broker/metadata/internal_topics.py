"""The configuration of internal topics. It does not depend on the request that creates them."""

from headrace.cluster.settings import BrokerSettings
from headrace.cluster.topology import (
    GROUP_METADATA_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
)
from headrace.controller.topic_changes import NewTopic

_PREFIXES = {
    GROUP_METADATA_TOPIC: "offsets.topic",
    TRANSACTION_STATE_TOPIC: "transaction.state.log",
    SHARE_STATE_TOPIC: "share.coordinator.state.topic",
}


def new_topic(name: str, settings: BrokerSettings, live_brokers: int) -> NewTopic:
    """A topic that the broker creates; an internal topic gets the settings of its coordinator.

    The replication factor is that of the settings, limited by the number of live brokers: a single
    node must be able to store its groups.
    """
    prefix = _PREFIXES.get(name)
    if prefix is None:
        return NewTopic(name)
    return NewTopic(
        name,
        settings.integer(f"{prefix}.num.partitions"),
        min(settings.integer(f"{prefix}.replication.factor"), live_brokers),
        configs=[
            *_CONFIGS[name],
            ("segment.bytes", str(settings.integer(f"{prefix}.segment.bytes"))),
        ],
    )


_CONFIGS = {
    GROUP_METADATA_TOPIC: [("cleanup.policy", "compact"), ("compression.type", "producer")],
    TRANSACTION_STATE_TOPIC: [
        ("cleanup.policy", "compact"),
        ("compression.type", "uncompressed"),
        ("unclean.leader.election.enable", "false"),
    ],
    SHARE_STATE_TOPIC: [
        ("cleanup.policy", "delete"),
        ("compression.type", "producer"),
        ("retention.ms", "-1"),
    ],
}
