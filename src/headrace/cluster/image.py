"""The metadata image: everything a broker must know about its cluster, at one version.

An image never changes; `apply` returns the next one. A lookup by name, id or resource costs one
dictionary access. A batch copies each changed table once (about 0.1 ms for 10,000 topics),
however many records it has.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final

from headrace.cluster.metadata_records import (
    AclCreated,
    AclDeleted,
    BrokerFenced,
    BrokerLeaving,
    BrokerRegistered,
    BrokerUnregistered,
    ClientQuotaChanged,
    ClusterNamed,
    ConfigChanged,
    ControllerElected,
    DelegationTokenChanged,
    DelegationTokenRemoved,
    FeatureSet,
    LeaderRestarted,
    MetadataRecord,
    PartitionChanged,
    PartitionsAdded,
    ProducerIdsReserved,
    ScramCredentialChanged,
    TopicCreated,
    TopicDeleted,
)
from headrace.cluster.resources import ConfigResource, topic_resource
from headrace.cluster.topic_names import collision_key
from headrace.cluster.topology import NO_LEADER, BrokerRegistration, Endpoint, Partition, Topic
from headrace.security.authorization.acl import Acl
from headrace.security.quotas.client_quota import QuotaEntity
from headrace.security.sasl.scram_credential import ScramCredential, ScramMechanism
from headrace.security.tokens.delegation_token import DelegationToken

__all__ = ["BrokerRegistration", "Endpoint", "ImageError", "MetadataImage", "Partition", "Topic"]

_EMPTY: Final[Mapping[str, str]] = MappingProxyType({})


class ImageError(Exception):
    """A record cannot be applied to the image: it was made for another one."""


@dataclass(frozen=True, slots=True)
class MetadataImage:
    """The cluster at one `version`: the number of batches applied since it was created."""

    version: int = 0
    cluster_id: str = ""
    controller_id: int = NO_LEADER
    controller_epoch: int = 0
    next_producer_id: int = 0
    partition_count: int = 0
    brokers: Mapping[int, BrokerRegistration] = field(default_factory=dict)
    topics: Mapping[str, Topic] = field(default_factory=dict)
    topics_by_id: Mapping[bytes, Topic] = field(default_factory=dict)
    collisions: Mapping[str, str] = field(default_factory=dict)
    configs: Mapping[ConfigResource, Mapping[str, str]] = field(default_factory=dict)
    features: Mapping[str, int] = field(default_factory=dict)
    acls: Mapping[Acl, None] = field(default_factory=dict)
    """The keys of a dict, so that their order is the same on every broker."""
    scram_credentials: Mapping[tuple[str, ScramMechanism], ScramCredential] = field(
        default_factory=dict, repr=False
    )
    quotas: Mapping[QuotaEntity, Mapping[str, float]] = field(default_factory=dict)
    delegation_tokens: Mapping[str, DelegationToken] = field(default_factory=dict)

    def config(self, resource: ConfigResource) -> Mapping[str, str]:
        """The values set on the resource itself; empty if there are none."""
        return self.configs.get(resource, _EMPTY)

    def partition(self, topic: str, index: int) -> Partition | None:
        """The partition, or None if the topic or the index is unknown."""
        found = self.topics.get(topic)
        return None if found is None else found.partition(index)

    def live_brokers(self) -> list[BrokerRegistration]:
        """Brokers that are not fenced, by id."""
        return [self.brokers[id_] for id_ in sorted(self.brokers) if not self.brokers[id_].fenced]

    @property
    def live_ids(self) -> frozenset[int]:
        """The ids of the brokers that are not fenced."""
        return frozenset(id_ for id_, broker in self.brokers.items() if not broker.fenced)

    def at_version(self, version: int) -> "MetadataImage":
        """The same content at another version, for stores that keep state instead of batches."""
        return replace(self, version=version)

    def apply(self, records: Iterable[MetadataRecord]) -> "MetadataImage":
        """The image after one batch of records: the version grows by one."""
        delta = _Delta(self)
        for record in records:
            delta.apply(record)
        return delta.image()


class _Delta:
    """The changes of one batch. A table is copied when it first changes."""

    def __init__(self, base: MetadataImage) -> None:
        self._base = base
        self._scalars: dict[str, str | int] = {"version": base.version + 1}
        self._partition_count = base.partition_count
        self._brokers: dict[int, BrokerRegistration] | None = None
        self._topics: dict[str, Topic] | None = None
        self._topics_by_id: dict[bytes, Topic] = {}
        self._collisions: dict[str, str] = {}
        # Partition lists of the changing topics. One batch may change thousands of partitions of
        # a topic, and each change must not copy the whole tuple.
        self._changing: dict[bytes, list[Partition]] = {}
        self._configs: dict[ConfigResource, Mapping[str, str]] | None = None
        self._features: dict[str, int] | None = None
        self._acls: dict[Acl, None] | None = None
        self._scram_credentials: dict[tuple[str, ScramMechanism], ScramCredential] | None = None
        self._quotas: dict[QuotaEntity, Mapping[str, float]] | None = None
        self._delegation_tokens: dict[str, DelegationToken] | None = None

    def image(self) -> MetadataImage:
        for topic_id in list(self._changing):
            self._store_changed_partitions(topic_id)
        changes: dict[str, Any] = dict(self._scalars)
        if self._brokers is not None:
            changes["brokers"] = self._brokers
        if self._topics is not None:
            changes["topics"] = self._topics
            changes["topics_by_id"] = self._topics_by_id
            changes["collisions"] = self._collisions
            changes["partition_count"] = self._partition_count
        if self._configs is not None:
            changes["configs"] = self._configs
        if self._features is not None:
            changes["features"] = self._features
        if self._acls is not None:
            changes["acls"] = self._acls
        if self._scram_credentials is not None:
            changes["scram_credentials"] = self._scram_credentials
        if self._quotas is not None:
            changes["quotas"] = self._quotas
        if self._delegation_tokens is not None:
            changes["delegation_tokens"] = self._delegation_tokens
        return replace(self._base, **changes)

    def apply(self, record: MetadataRecord) -> None:
        match record:
            case TopicCreated(name, topic_id, partitions):
                self._create_topic(Topic(name, topic_id, partitions))
            case PartitionsAdded(topic_id, partitions):
                topic = self._topic(topic_id)
                self._put_topic(topic._replace(partitions=topic.partitions + partitions))
            case PartitionChanged():
                self._change_partition(record)
            case LeaderRestarted(broker_id):
                self._bump_leader_epochs(broker_id)
            case TopicDeleted(topic_id):
                self._delete_topic(topic_id)
            case ConfigChanged():
                self._change_config(record)
            case BrokerRegistered(broker):
                self._mutable_brokers()[broker.broker_id] = broker
            case BrokerFenced(broker_id):
                brokers = self._mutable_brokers()
                brokers[broker_id] = brokers[broker_id]._replace(fenced=True)
            case BrokerLeaving(broker_id):
                brokers = self._mutable_brokers()
                brokers[broker_id] = brokers[broker_id]._replace(leaving=True)
            case BrokerUnregistered(broker_id):
                self._mutable_brokers().pop(broker_id, None)
            case FeatureSet(name, level):
                self._set_feature(name, level)
            case ProducerIdsReserved(next_producer_id):
                self._scalars["next_producer_id"] = next_producer_id
            case ControllerElected(controller_id, controller_epoch):
                self._scalars["controller_id"] = controller_id
                self._scalars["controller_epoch"] = controller_epoch
            case ClusterNamed(cluster_id):
                self._scalars["cluster_id"] = cluster_id
            case _:
                self._apply_security_record(record)

    def _apply_security_record(self, record: MetadataRecord) -> None:
        match record:
            case AclCreated(acl):
                self._mutable_acls()[acl] = None
            case AclDeleted(acl):
                self._mutable_acls().pop(acl, None)
            case ScramCredentialChanged():
                self._change_scram_credential(record)
            case ClientQuotaChanged():
                self._change_quota(record)
            case DelegationTokenChanged(token):
                self._mutable_delegation_tokens()[token.token_id] = token
            case DelegationTokenRemoved(token_id):
                self._mutable_delegation_tokens().pop(token_id, None)

    def _mutable_brokers(self) -> dict[int, BrokerRegistration]:
        if self._brokers is None:
            self._brokers = dict(self._base.brokers)
        return self._brokers

    def _mutable_topics(self) -> dict[str, Topic]:
        if self._topics is None:
            self._topics = dict(self._base.topics)
            self._topics_by_id = dict(self._base.topics_by_id)
            self._collisions = dict(self._base.collisions)
        return self._topics

    def _topic(self, topic_id: bytes) -> Topic:
        self._mutable_topics()
        if topic_id in self._changing:
            self._store_changed_partitions(topic_id)
        topic = self._topics_by_id.get(topic_id)
        if topic is None:
            raise ImageError(f"no topic with the id {topic_id.hex()}")
        return topic

    def _store_changed_partitions(self, topic_id: bytes) -> None:
        topic = self._topics_by_id[topic_id]
        self._put_topic(topic._replace(partitions=tuple(self._changing.pop(topic_id))))

    def _put_topic(self, topic: Topic) -> None:
        topics = self._mutable_topics()
        before = topics.get(topic.name)
        self._partition_count += len(topic.partitions) - (len(before.partitions) if before else 0)
        topics[topic.name] = topic
        self._topics_by_id[topic.topic_id] = topic

    def _create_topic(self, topic: Topic) -> None:
        if topic.name in self._mutable_topics() or topic.topic_id in self._topics_by_id:
            raise ImageError(f"topic {topic.name} already exists")
        if not topic.partitions:
            raise ImageError(f"topic {topic.name} has no partitions")
        self._put_topic(topic)
        key = collision_key(topic.name)
        if key is not None:
            self._collisions[key] = topic.name

    def _delete_topic(self, topic_id: bytes) -> None:
        topic = self._topic(topic_id)
        del self._mutable_topics()[topic.name], self._topics_by_id[topic_id]
        self._partition_count -= len(topic.partitions)
        key = collision_key(topic.name)
        if key is not None:
            self._collisions.pop(key, None)
        resource = topic_resource(topic.name)
        if resource in (self._base.configs if self._configs is None else self._configs):
            self._mutable_configs().pop(resource)

    def _change_partition(self, record: PartitionChanged) -> None:
        partitions = self._changing.get(record.topic_id)
        if partitions is None:
            partitions = list(self._topic(record.topic_id).partitions)
            self._changing[record.topic_id] = partitions
        if not 0 <= record.index < len(partitions):
            raise ImageError(f"topic {record.topic_id.hex()} has no partition {record.index}")
        partitions[record.index] = record.partition

    def _bump_leader_epochs(self, broker_id: int) -> None:
        for topic_id in list(self._changing):
            self._store_changed_partitions(topic_id)
        renewed: dict[Partition, Partition] = {}
        for topic in list(self._mutable_topics().values()):
            partitions = tuple(
                _in_new_leader_epoch(partition, renewed)
                if partition.leader == broker_id
                else partition
                for partition in topic.partitions
            )
            if partitions != topic.partitions:
                self._put_topic(topic._replace(partitions=partitions))

    def _mutable_configs(self) -> dict[ConfigResource, Mapping[str, str]]:
        if self._configs is None:
            self._configs = dict(self._base.configs)
        return self._configs

    def _change_config(self, record: ConfigChanged) -> None:
        configs = self._mutable_configs()
        changed = dict(configs.get(record.resource, _EMPTY))
        if record.value is None:
            changed.pop(record.name, None)
        else:
            changed[record.name] = record.value
        if changed:
            configs[record.resource] = changed
        else:
            configs.pop(record.resource, None)

    def _set_feature(self, name: str, level: int) -> None:
        if self._features is None:
            self._features = dict(self._base.features)
        if level:
            self._features[name] = level
        else:
            self._features.pop(name, None)

    # -- security -------------------------------------------------------------------------------

    def _mutable_acls(self) -> dict[Acl, None]:
        if self._acls is None:
            self._acls = dict(self._base.acls)
        return self._acls

    def _mutable_delegation_tokens(self) -> dict[str, DelegationToken]:
        if self._delegation_tokens is None:
            self._delegation_tokens = dict(self._base.delegation_tokens)
        return self._delegation_tokens

    def _change_scram_credential(self, record: ScramCredentialChanged) -> None:
        if self._scram_credentials is None:
            self._scram_credentials = dict(self._base.scram_credentials)
        key = (record.user, record.mechanism)
        if record.credential is None:
            self._scram_credentials.pop(key, None)
        else:
            self._scram_credentials[key] = record.credential

    def _change_quota(self, record: ClientQuotaChanged) -> None:
        if self._quotas is None:
            self._quotas = dict(self._base.quotas)
        limits = dict(self._quotas.get(record.entity, {}))
        if record.value is None:
            limits.pop(record.key, None)
        else:
            limits[record.key] = record.value
        if limits:
            self._quotas[record.entity] = limits
        else:
            self._quotas.pop(record.entity, None)


def _in_new_leader_epoch(partition: Partition, seen: dict[Partition, Partition]) -> Partition:
    # Equal partitions share one object: 10,000 of them must not cost 10,000 tuples.
    found = seen.get(partition)
    if found is None:
        found = seen[partition] = partition.with_new_leader_epoch()
    return found
