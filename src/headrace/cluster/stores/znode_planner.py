"""Turns metadata records into steps of ZooKeeper operations. Pure.

A step is atomic, and the stored state is valid after any number of steps. `multi_packing` puts the
steps into as few writes as possible.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from headrace.cluster.metadata_records import (
    BrokerFenced,
    BrokerLeaving,
    BrokerRegistered,
    BrokerUnregistered,
    ClusterNamed,
    ConfigChanged,
    ControllerElected,
    FeatureSet,
    LeaderRestarted,
    MetadataRecord,
    PartitionChanged,
    PartitionsAdded,
    ProducerIdsReserved,
    TopicCreated,
    TopicDeleted,
)
from headrace.cluster.metadata_store import Elected, StoreError
from headrace.cluster.resources import ConfigResource, ConfigResourceType, topic_resource
from headrace.cluster.stores import znode_paths, znodes
from headrace.cluster.stores.security_znode_planner import SecurityZnodePlanner
from headrace.cluster.stores.znode_reader import LeftoverZnodes, StoredMetadata, StoredTopic
from headrace.cluster.stores.zookeeper_client import Create, Delete, Op, SetData
from headrace.cluster.topology import BrokerRegistration, Partition


class WriteStep(NamedTuple):
    """Operations that happen together. `topic` is set if they need a new topic document."""

    ops: tuple[Op, ...]
    topic: "TopicChange | None" = None


class TopicChange(NamedTuple):
    """A partition's new assignment; the document of its whole topic must be written."""

    topic_id: bytes
    partition: int
    assignment: znodes.Assignment


@dataclass(slots=True)
class TopicAssignments:
    """A topic's document before the steps of a plan."""

    name: str
    assignments: list[znodes.Assignment]


@dataclass(slots=True)
class WritePlan:
    """The steps of a batch, and the documents from which its topics start, by topic id."""

    steps: list[WriteStep] = field(default_factory=list)
    documents: dict[bytes, TopicAssignments] = field(default_factory=dict)


class ZnodePlanner:
    """Turns records into steps. It updates `stored`; after a failed write, read `stored` again."""

    def __init__(self, stored: StoredMetadata, elected: Elected) -> None:
        self.stored = stored
        self._elected = elected
        self._epoch = elected.controller_epoch
        self._plan = WritePlan()
        self._security = SecurityZnodePlanner(stored.security)

    def plan(self, records: Sequence[MetadataRecord]) -> WritePlan:
        """The steps of the records, in order, after removing leftovers of deleted topics.

        The records of ACLs, credentials, quotas and tokens come last, merged for each znode.
        """
        for name in list(self.stored.leftovers):
            self._remove_leftovers(name, self.stored.leftovers.pop(name))
        new_topics = {record.name for record in records if isinstance(record, TopicCreated)}
        configs = _configs_of_new_topics(new_topics, records)
        for record in records:
            self._plan_record(record, configs)
        for ops in self._security.steps():
            self._add_step(*ops)
        return self._plan

    def _add_step(self, *ops: Op) -> None:
        if ops:
            self._plan.steps.append(WriteStep(ops))

    def _plan_record(
        self, record: MetadataRecord, configs: Mapping[ConfigResource, Mapping[str, str]]
    ) -> None:
        match record:
            case PartitionChanged(topic_id, index, partition):
                self._change_partition(self._topic(topic_id), index, partition)
            case TopicCreated(name, topic_id, partitions):
                config = configs.get(topic_resource(name), {})
                self._create_topic(name, topic_id, partitions, dict(config))
            case PartitionsAdded(topic_id, partitions):
                self._add_partitions(self._topic(topic_id), partitions)
            case TopicDeleted(topic_id):
                self._delete_topic(topic_id)
            case LeaderRestarted(broker_id):
                self._bump_leader_epochs(broker_id)
            case ConfigChanged():
                self._change_config(record)
            case FeatureSet(name, level):
                self._set_feature(name, level)
            case ProducerIdsReserved(next_id):
                self._reserve_producer_ids(next_id)
            case ClusterNamed(cluster_id):
                self._name_cluster(cluster_id)
            case ControllerElected():
                self._check_elected(record)
            case _:
                self._plan_broker_record(record)

    # -- topics ---------------------------------------------------------------------------------

    def _topic(self, topic_id: bytes) -> StoredTopic:
        topic = self.stored.topics.get(topic_id)
        if topic is None:
            raise StoreError(f"ZooKeeper has no topic with the id {topic_id.hex()}")
        return topic

    def _create_topic(
        self,
        name: str,
        topic_id: bytes,
        partitions: tuple[Partition, ...],
        config: dict[str, str],
    ) -> None:
        """Creates the topic and its configuration in one step, then its partitions."""
        resource = topic_resource(name)
        assignments = [znodes.assignment_of(partition) for partition in partitions]
        document = znodes.write_topic(topic_id, assignments)
        ops: list[Op] = [Create(znode_paths.topic_path(name), document)]
        ops.append(Create(znode_paths.partitions_path(name)))
        ops.extend(self._config_ops(resource, config))
        self._add_step(*ops)
        topic = StoredTopic(name, topic_id, list(partitions))
        self.stored.topics[topic_id] = topic
        self._write_states(topic, range(len(partitions)))

    def _add_partitions(self, topic: StoredTopic, partitions: tuple[Partition, ...]) -> None:
        first = len(topic.partitions)
        for index, partition in enumerate(partitions, first):
            self._add_assignment_step(topic, index, znodes.assignment_of(partition))
            topic.partitions.append(partition)
        self._write_states(topic, range(first, len(topic.partitions)))

    def _write_states(self, topic: StoredTopic, indexes: Iterable[int]) -> None:
        """Writes the first states. Until then a partition is only in the topic's document."""
        states: dict[Partition, bytes] = {}
        for index in indexes:
            partition = topic.partitions[index]
            if partition.partition_epoch == znodes.NEW_EPOCH:
                continue
            state = states.get(partition)
            if state is None:
                state = states[partition] = znodes.write_state(partition, self._epoch)
            self._add_step(*self._state_ops(topic, index, state))

    def _state_ops(self, topic: StoredTopic, index: int, state: bytes) -> Iterator[Op]:
        if not topic.has_partitions_znode:
            topic.has_partitions_znode = True
            yield Create(znode_paths.partitions_path(topic.name))
        if index in topic.without_state:
            topic.without_state.remove(index)
        else:
            yield Create(znode_paths.partition_path(topic.name, index))
        yield Create(znode_paths.state_path(topic.name, index), state)

    def _change_partition(self, topic: StoredTopic, index: int, partition: Partition) -> None:
        if not 0 <= index < len(topic.partitions):
            raise StoreError(f"ZooKeeper has no partition {index} of topic {topic.name}")
        before = topic.partitions[index]
        topic.partitions[index] = partition
        state = znodes.write_state(partition, self._epoch)
        ops: tuple[Op, ...]
        if before.partition_epoch == znodes.NEW_EPOCH:
            ops = tuple(self._state_ops(topic, index, state))
        else:
            ops = (SetData(znode_paths.state_path(topic.name, index), state),)
        assignment = znodes.assignment_of(partition)
        if assignment == znodes.assignment_of(before):
            self._add_step(*ops)
        else:
            self._add_assignment_step(topic, index, assignment, before, ops)

    def _add_assignment_step(
        self,
        topic: StoredTopic,
        index: int,
        assignment: znodes.Assignment,
        before: Partition | None = None,
        ops: tuple[Op, ...] = (),
    ) -> None:
        documents = self._plan.documents
        if topic.topic_id not in documents:
            now = [znodes.assignment_of(partition) for partition in topic.partitions]
            if before is not None:
                now[index] = znodes.assignment_of(before)
            documents[topic.topic_id] = TopicAssignments(topic.name, now)
        self._plan.steps.append(WriteStep(ops, TopicChange(topic.topic_id, index, assignment)))

    def _bump_leader_epochs(self, broker_id: int) -> None:
        for topic in self.stored.topics.values():
            for index, partition in enumerate(topic.partitions):
                if partition.leader == broker_id:
                    self._change_partition(topic, index, partition.with_new_leader_epoch())

    def _delete_topic(self, topic_id: bytes) -> None:
        """Marks the topic as deleted, then removes its znodes: a crash leaves a marked topic."""
        topic = self._topic(topic_id)
        del self.stored.topics[topic_id]
        name = topic.name
        tombstone = znodes.write_deleted_topic(topic_id)
        ops: list[Op] = [SetData(znode_paths.topic_path(name), tombstone)]
        ops.extend(self._config_ops(topic_resource(name), {}))
        if name in self.stored.deleting:
            self.stored.deleting.remove(name)
            ops.append(Delete(znode_paths.deletion_path(name)))
        self._add_step(*ops)
        with_state = tuple(
            index
            for index, partition in enumerate(topic.partitions)
            if partition.partition_epoch != znodes.NEW_EPOCH
        )
        self._remove_leftovers(
            name,
            LeftoverZnodes(
                topic_id, with_state, tuple(sorted(topic.without_state)), topic.has_partitions_znode
            ),
        )

    def _remove_leftovers(self, name: str, leftovers: LeftoverZnodes) -> None:
        for index in leftovers.with_state:
            self._add_step(
                Delete(znode_paths.state_path(name, index)),
                Delete(znode_paths.partition_path(name, index)),
            )
        for index in leftovers.without_state:
            self._add_step(Delete(znode_paths.partition_path(name, index)))
        last: list[Op] = (
            [Delete(znode_paths.partitions_path(name))] if leftovers.has_partitions_znode else []
        )
        self._add_step(*last, Delete(znode_paths.topic_path(name)))

    # -- configurations, brokers, and singletons ---------------------------------------------------

    def _config_ops(self, resource: ConfigResource, config: dict[str, str]) -> list[Op]:
        """The operations that give a resource's znode this configuration; empty if unchanged."""
        before = self.stored.configs.get(resource)
        path = znode_paths.config_path(resource)
        if config:
            self.stored.configs[resource] = config
            if before is None:
                return [Create(path, znodes.write_config(config))]
            return [SetData(path, znodes.write_config(config))] if before != config else []
        if before is None:
            return []
        del self.stored.configs[resource]
        return [Delete(path)]

    def _change_config(self, record: ConfigChanged) -> None:
        config = dict(self.stored.configs.get(record.resource, {}))
        if record.value is None:
            config.pop(record.name, None)
        else:
            config[record.name] = record.value
        self._add_step(*self._config_ops(record.resource, config))

    def _set_feature(self, name: str, level: int) -> None:
        if level:
            self.stored.features[name] = level
        else:
            self.stored.features.pop(name, None)
        data = znodes.write_features(self.stored.features)
        self._add_step(_put_op(znode_paths.FEATURES, data, stored=self.stored.features_stored))
        self.stored.features_stored = True

    def _reserve_producer_ids(self, next_id: int) -> None:
        first = self.stored.next_producer_id
        data = znodes.write_producer_ids(self._elected.controller_id, first, next_id)
        self._add_step(
            _put_op(znode_paths.PRODUCER_IDS, data, stored=self.stored.producer_ids_stored)
        )
        self.stored.next_producer_id = next_id
        self.stored.producer_ids_stored = True

    def _name_cluster(self, cluster_id: str) -> None:
        if not self.stored.cluster_id:
            self._add_step(Create(znode_paths.CLUSTER_ID, znodes.write_cluster_id(cluster_id)))
            self.stored.cluster_id = cluster_id
        elif self.stored.cluster_id != cluster_id:
            raise StoreError(
                f"ZooKeeper belongs to the cluster {self.stored.cluster_id}, not {cluster_id}: "
                "check zookeeper.connect and its chroot"
            )

    def _check_elected(self, record: ControllerElected) -> None:
        """Checks that the record matches the election: a record cannot elect a controller."""
        if record != (self._elected.controller_id, self._elected.controller_epoch):
            raise StoreError(f"{record} was committed by the controller {self._elected}")

    def _plan_broker_record(self, record: MetadataRecord) -> None:
        brokers = self.stored.brokers
        match record:
            case BrokerRegistered(broker):
                self._put_broker(broker)
            case BrokerFenced(broker_id):
                self._put_broker(brokers[broker_id]._replace(fenced=True))
            case BrokerLeaving(broker_id):
                self._put_broker(brokers[broker_id]._replace(leaving=True))
            case BrokerUnregistered(broker_id):
                if brokers.pop(broker_id, None) is not None:
                    self._add_step(Delete(znode_paths.recorded_broker_path(broker_id)))
            case _:
                self._security.add(record)

    def _put_broker(self, broker: BrokerRegistration) -> None:
        path = znode_paths.recorded_broker_path(broker.broker_id)
        data = znodes.write_recorded_broker(broker)
        self._add_step(_put_op(path, data, stored=broker.broker_id in self.stored.brokers))
        self.stored.brokers[broker.broker_id] = broker


def _put_op(path: str, data: bytes, *, stored: bool) -> Op:
    return SetData(path, data) if stored else Create(path, data)


def _configs_of_new_topics(
    topics: set[str], records: Iterable[MetadataRecord]
) -> dict[ConfigResource, dict[str, str]]:
    """The configurations of the topics that a batch creates: they must be created together."""
    configs: dict[ConfigResource, dict[str, str]] = {}
    for record in records:
        if (
            isinstance(record, ConfigChanged)
            and record.resource.type is ConfigResourceType.TOPIC
            and record.resource.name in topics
            and record.value is not None
        ):
            configs.setdefault(record.resource, {})[record.name] = record.value
    return configs
