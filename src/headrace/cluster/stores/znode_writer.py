"""Turns records into ZooKeeper writes, in steps. Pure.

A step is atomic. Steps are packed into writes; each write is one `multi` of ZooKeeper. So a crash
leaves whole steps, and the stored state is valid after any number of them. ZooKeeper drops a
connection that sends about 1 MB at once, so a batch may need several writes.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from headrace.cluster.records import (
    BrokerFenced,
    BrokerLeaving,
    BrokerRegistered,
    BrokerUnregistered,
    ClusterNamed,
    ConfigChanged,
    ControllerElected,
    FeatureSet,
    LeaderReturned,
    MetadataRecord,
    PartitionChanged,
    PartitionsAdded,
    ProducerIdsReserved,
    TopicCreated,
    TopicDeleted,
)
from headrace.cluster.resources import ConfigResource, ResourceType, topic_resource
from headrace.cluster.store import Elected, StoreError, TooLarge
from headrace.cluster.stores import znodes
from headrace.cluster.stores.znode_reader import Stored, StoredTopic, UnreadableZnodes
from headrace.cluster.stores.zookeeper_client import Create, Delete, Op, SetData
from headrace.cluster.topology import BrokerRegistration, Partition

WRITE_BYTES: Final = 512 * 1024
"""A write is closed at this size: half of ZooKeeper's default limit (jute.maxbuffer)."""

WRITE_OPS: Final = 1_000
"""A write is closed at this number of operations: a `multi` blocks ZooKeeper's other requests."""

MAX_STEP_BYTES: Final = 1_000_000
"""A larger step cannot be written at all."""

_OP_OVERHEAD_BYTES: Final = 100  # headers and the ACL of a new znode


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


class Writer:
    """Turns records into steps. It updates `stored`; after a failed write, read `stored` again."""

    def __init__(self, stored: Stored, elected: Elected) -> None:
        self.stored = stored
        self._elected = elected
        self._epoch = elected.controller_epoch
        self._plan = WritePlan()

    def plan(self, records: Sequence[MetadataRecord]) -> WritePlan:
        """The steps of the records, in order, after removing leftovers of deleted topics."""
        for name in list(self.stored.leftovers):
            self._remove_leftovers(name, self.stored.leftovers.pop(name))
        new_topics = {record.name for record in records if isinstance(record, TopicCreated)}
        configs = _configs_of_new_topics(new_topics, records)
        for record in records:
            self._plan_record(record, configs)
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
            case LeaderReturned(broker_id):
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
        ops: list[Op] = [Create(znodes.topic_path(name), document)]
        ops.append(Create(znodes.partitions_path(name)))
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
        if not topic.rooted:
            topic.rooted = True
            yield Create(znodes.partitions_path(topic.name))
        if index in topic.bare:
            topic.bare.remove(index)
        else:
            yield Create(znodes.partition_path(topic.name, index))
        yield Create(znodes.state_path(topic.name, index), state)

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
            ops = (SetData(znodes.state_path(topic.name, index), state),)
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
        ops: list[Op] = [SetData(znodes.topic_path(name), tombstone)]
        ops.extend(self._config_ops(topic_resource(name), {}))
        if name in self.stored.deleting:
            self.stored.deleting.remove(name)
            ops.append(Delete(znodes.deletion_path(name)))
        self._add_step(*ops)
        stated = tuple(
            index
            for index, partition in enumerate(topic.partitions)
            if partition.partition_epoch != znodes.NEW_EPOCH
        )
        self._remove_leftovers(
            name, UnreadableZnodes(topic_id, stated, tuple(sorted(topic.bare)), topic.rooted)
        )

    def _remove_leftovers(self, name: str, leftovers: UnreadableZnodes) -> None:
        for index in leftovers.stated:
            self._add_step(
                Delete(znodes.state_path(name, index)), Delete(znodes.partition_path(name, index))
            )
        for index in leftovers.bare:
            self._add_step(Delete(znodes.partition_path(name, index)))
        last: list[Op] = [Delete(znodes.partitions_path(name))] if leftovers.rooted else []
        self._add_step(*last, Delete(znodes.topic_path(name)))

    # -- configurations, brokers, and singletons ---------------------------------------------------

    def _config_ops(self, resource: ConfigResource, config: dict[str, str]) -> list[Op]:
        """The operations that give a resource's znode this configuration; empty if unchanged."""
        before = self.stored.configs.get(resource)
        path = znodes.config_path(resource)
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
        self._add_step(_put_op(znodes.FEATURES, data, stored=self.stored.features_stored))
        self.stored.features_stored = True

    def _reserve_producer_ids(self, next_id: int) -> None:
        first = self.stored.next_producer_id
        data = znodes.write_producer_ids(self._elected.controller_id, first, next_id)
        self._add_step(_put_op(znodes.PRODUCER_IDS, data, stored=self.stored.producer_ids_stored))
        self.stored.next_producer_id = next_id
        self.stored.producer_ids_stored = True

    def _name_cluster(self, cluster_id: str) -> None:
        if not self.stored.cluster_id:
            self._add_step(Create(znodes.CLUSTER_ID, znodes.write_cluster_id(cluster_id)))
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
                    self._add_step(Delete(znodes.recorded_broker_path(broker_id)))
            case _:
                raise StoreError(f"{type(record).__name__} cannot be stored in ZooKeeper")

    def _put_broker(self, broker: BrokerRegistration) -> None:
        path = znodes.recorded_broker_path(broker.broker_id)
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
            and record.resource.type is ResourceType.TOPIC
            and record.resource.name in topics
            and record.value is not None
        ):
            configs.setdefault(record.resource, {})[record.name] = record.value
    return configs


# -- packing -------------------------------------------------------------------------------------


def pack(
    plan: WritePlan, *, write_bytes: int = WRITE_BYTES, write_ops: int = WRITE_OPS
) -> list[list[Op]]:
    """Packs the steps into as few writes as possible; raises `TooLarge` if a step does not fit."""
    packer = _Packer(plan, write_bytes, write_ops)
    for step in plan.steps:
        packer.add(step)
    packer.close()
    return packer.writes


class _Packer:
    """Packs steps into writes. A write that changes a topic's document contains it once."""

    def __init__(self, plan: WritePlan, write_bytes: int, write_ops: int) -> None:
        self.writes: list[list[Op]] = []
        self._documents = plan.documents
        self._sizes = {
            topic_id: sum(map(_entry_size, topic.assignments))
            for topic_id, topic in plan.documents.items()
        }
        self._write_bytes = write_bytes
        self._write_ops = write_ops
        self._ops: list[Op] = []
        self._places: dict[bytes, int] = {}  # of topics' documents among the operations
        self._bytes = 0

    def add(self, step: WriteStep) -> None:
        ops, change = step
        size = sum(map(_op_size, ops))
        document = 0 if change is None else self._resized_document(change)
        if size + document > MAX_STEP_BYTES:
            raise self._too_large(step, size + document)
        new = document if change is not None and change.topic_id not in self._places else 0
        full = len(self._ops) + len(ops) + 1 > self._write_ops
        if self._ops and (full or self._bytes + size + new > self._write_bytes):
            self.close()
            new = document
        if change is not None:
            self._apply_topic_change(change)
        self._ops.extend(ops)
        self._bytes += size + new

    def close(self) -> None:
        for topic_id, place in self._places.items():
            topic = self._documents[topic_id]
            document = znodes.write_topic(topic_id, topic.assignments)
            self._ops[place] = SetData(znodes.topic_path(topic.name), document)
        if self._ops:
            self.writes.append(self._ops)
        self._ops, self._places, self._bytes = [], {}, 0

    def _resized_document(self, change: TopicChange) -> int:
        """Updates the size of the topic's document for the change, and returns it."""
        assignments = self._documents[change.topic_id].assignments
        if change.partition < len(assignments):
            self._sizes[change.topic_id] -= _entry_size(assignments[change.partition])
        self._sizes[change.topic_id] += _entry_size(change.assignment)
        return self._sizes[change.topic_id] + 2 * _OP_OVERHEAD_BYTES

    def _apply_topic_change(self, change: TopicChange) -> None:
        topic = self._documents[change.topic_id]
        if change.partition == len(topic.assignments):
            topic.assignments.append(change.assignment)
        else:
            topic.assignments[change.partition] = change.assignment
        if change.topic_id not in self._places:
            self._places[change.topic_id] = len(self._ops)
            self._ops.append(SetData(znodes.topic_path(topic.name), b""))  # filled by `close`

    def _too_large(self, step: WriteStep, size: int) -> TooLarge:
        if step.topic is not None:
            path = znodes.topic_path(self._documents[step.topic.topic_id].name)
        else:
            path = step.ops[0].path
        return TooLarge(
            f"{path} would need {size} bytes in ZooKeeper, which accepts {MAX_STEP_BYTES} at once: "
            "use fewer partitions for the topic"
        )


def _op_size(op: Op) -> int:
    data = op.data if isinstance(op, Create | SetData) else b""
    return len(op.path) + len(data) + _OP_OVERHEAD_BYTES


def _entry_size(assignment: znodes.Assignment) -> int:
    """The maximum size of one partition in its topic's document."""
    return sum(12 + sum(len(str(id_)) + 1 for id_ in ids) for ids in assignment if ids)
