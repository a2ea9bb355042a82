"""Which replica a consumer should read from (KIP-392). Pure.

The setting `replica.selector.class` names Kafka's selectors; other names are refused, and no code
is loaded by name.
"""

from typing import Final

from headrace.cluster.image import MetadataImage
from headrace.replication.leader import Leader

RACK_AWARE: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
THE_LEADER: Final = -1


def nearest_replica(
    leader: Leader, image: MetadataImage, leader_id: int, rack: str, offset: int
) -> int:
    """A follower in the consumer's rack, or the leader.

    Only followers that are in sync and have the offset are returned: from a follower without it, a
    consumer would get OFFSET_NOT_AVAILABLE or OFFSET_OUT_OF_RANGE.
    """
    if _rack_of(image, leader_id) == rack:
        return THE_LEADER
    near = [
        (progress.log_end, -broker_id)
        for broker_id, progress in leader.progress.items()
        if broker_id in leader.partition.isr
        and 0 <= progress.log_start <= offset <= progress.log_end
        and _rack_of(image, broker_id) == rack
    ]
    return -max(near)[1] if near else THE_LEADER


def _rack_of(image: MetadataImage, broker_id: int) -> str | None:
    """The broker's rack; None for a broker that is unknown or fenced."""
    broker = image.brokers.get(broker_id)
    return None if broker is None or broker.fenced else broker.rack
