"""Which copies are throttled now and at what rate, from the settings in the metadata image.

A replica that is in sync is never throttled: a commit waits for it.
"""

from __future__ import annotations

from typing import Final, Protocol

from headrace.broker.metadata.standalone_metadata import MetadataView
from headrace.clock import Clock
from headrace.cluster.effective_config import EffectiveConfig
from headrace.cluster.image import MetadataImage
from headrace.replication.follower import Follower
from headrace.replication.leader import Leader
from headrace.replication.throttled_replicas import ReplicationRate, ThrottledReplicas

LEADER: Final = "leader.replication.throttled"
FOLLOWER: Final = "follower.replication.throttled"


class ThrottleHost(Protocol):
    """The part of the broker that throttles use."""

    clock: Clock
    node_id: int

    @property
    def effective(self) -> EffectiveConfig: ...

    @property
    def metadata(self) -> MetadataView: ...


class Throttle:
    """One side of replication: sending or fetching."""

    def __init__(self, host: ThrottleHost, setting: str) -> None:
        self._host = host
        self._setting = setting
        self._rate = ReplicationRate()
        self._image: MetadataImage | None = None
        self._topics: dict[str, ThrottledReplicas] = {}

    def wait_s(self, topic: str, index: int, throttled_id: int, copy_id: int) -> float:
        """The time until `copy_id` may get records; 0 if it is not throttled. `throttled_id` is the
        replica on this broker's side."""
        self._refresh()
        if not self._rate.is_limited or not self._holds(topic, index, throttled_id, copy_id):
            return 0.0
        return self._rate.wait_s(self._host.clock.monotonic())

    def spend(
        self, topic: str, index: int, throttled_id: int, copy_id: int, size_bytes: int
    ) -> None:
        self._refresh()
        if self._rate.is_limited and self._holds(topic, index, throttled_id, copy_id):
            self._rate.spend(size_bytes, self._host.clock.monotonic())

    def _holds(self, topic: str, index: int, throttled_id: int, copy_id: int) -> bool:
        throttled = self._topics.get(topic)
        if throttled is None:
            values = self._host.effective.topic_values(topic)
            replicas = values[f"{self._setting}.replicas"]
            assert isinstance(replicas, tuple)
            throttled = self._topics[topic] = ThrottledReplicas(replicas)
        if not throttled or not throttled.holds(index, throttled_id):
            return False
        partition = self._host.metadata.image.partition(topic, index)
        return partition is not None and copy_id not in partition.isr

    def _refresh(self) -> None:
        image = self._host.metadata.image
        if image is not self._image:
            self._image = image
            self._topics = {}
            rate = self._host.effective.broker_value(f"{self._setting}.rate")
            assert isinstance(rate, int)
            self._rate.limit(rate)


class ReplicationThrottles:
    """The throttles of both sides."""

    def __init__(self, host: ThrottleHost) -> None:
        self._node_id = host.node_id
        self._sending = Throttle(host, LEADER)
        self._fetching = Throttle(host, FOLLOWER)

    def is_throttled(self, leader: Leader, replica_id: int) -> bool:
        """Whether the throttle currently blocks a follower of this leader."""
        return self._sending.wait_s(leader.topic, leader.index, self._node_id, replica_id) > 0

    def sent(self, leader: Leader, replica_id: int, size_bytes: int) -> None:
        self._sending.spend(leader.topic, leader.index, self._node_id, replica_id, size_bytes)

    def fetch_wait_s(self, follower: Follower) -> float:
        """The time until this broker may fetch from the partition."""
        me = self._node_id
        return self._fetching.wait_s(follower.topic, follower.index, me, me)

    def fetched(self, follower: Follower, size_bytes: int) -> None:
        me = self._node_id
        self._fetching.spend(follower.topic, follower.index, me, me, size_bytes)
