"""Builds an image from znodes: selects the znodes to read and decodes them. Pure.

`read_metadata()` is a generator: it yields the next znodes to read and is sent their contents, so
that the same code reads a real ensemble and a test's table.
"""

from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from headrace.cluster.image import ImageError, MetadataImage
from headrace.cluster.image_records import build_records
from headrace.cluster.metadata_records import MetadataRecord, TopicCreated
from headrace.cluster.metadata_store import CorruptStore
from headrace.cluster.resources import ConfigResource, ConfigResourceType
from headrace.cluster.stores import znode_paths, znodes
from headrace.cluster.stores.security_znode_reader import StoredSecurity, read_security
from headrace.cluster.stores.znode_read import Reading, ZnodeRead, ZnodeReadResult
from headrace.cluster.topology import NO_LEADER, BrokerRegistration, Partition
from headrace.security.authorization.acl import Acl
from headrace.security.quotas.client_quota import QuotaEntity
from headrace.security.sasl.scram_credential import ScramCredential, ScramMechanism
from headrace.security.tokens.delegation_token import DelegationToken

EPOCH_SHIFT = 32
"""An image's version is (controller epoch << 32) + that controller's writes; it never decreases."""


MetadataRead = Generator[ZnodeRead, ZnodeReadResult, "StoredMetadata"]


@dataclass(slots=True)
class StoredTopic:
    """A topic as ZooKeeper stores it."""

    name: str
    topic_id: bytes
    partitions: list[Partition]
    without_state: set[int] = field(default_factory=set)
    """Partitions that have a znode but no state in it."""
    has_partitions_znode: bool = True
    """Whether the parent of the partitions' znodes exists."""


class LeftoverZnodes(NamedTuple):
    """The znodes left below a deleted topic: partitions with a state, and those without."""

    topic_id: bytes
    with_state: tuple[int, ...]
    without_state: tuple[int, ...]
    has_partitions_znode: bool


def metadata_version(controller_epoch: int, commits: znodes.Commits) -> int:
    """The version of the stored metadata. It grows with every election and every write."""
    writes = commits.commits if commits.controller_epoch == controller_epoch else 0
    return (controller_epoch << EPOCH_SHIFT) + writes


@dataclass(slots=True)
class StoredMetadata:
    """Everything that is stored, as the writer needs it to plan changes."""

    cluster_id: str = ""
    controller_id: int = NO_LEADER
    controller_epoch: int = 0
    commits: znodes.Commits = field(default_factory=lambda: znodes.Commits(0, 0))
    commits_version: int = 0
    next_producer_id: int = 0
    producer_ids_stored: bool = False
    features: dict[str, int] = field(default_factory=dict)
    features_stored: bool = False
    brokers: dict[int, BrokerRegistration] = field(default_factory=dict)
    topics: dict[bytes, StoredTopic] = field(default_factory=dict)
    configs: dict[ConfigResource, dict[str, str]] = field(default_factory=dict)
    security: StoredSecurity = field(default_factory=StoredSecurity)
    deleting: set[str] = field(default_factory=set)
    """Names under /admin/delete_topics."""
    leftovers: dict[str, LeftoverZnodes] = field(default_factory=dict)

    @property
    def acls(self) -> Mapping[Acl, None]:
        return {acl: None for acls in self.security.acls.values() for acl in acls}

    @property
    def scram_credentials(self) -> Mapping[tuple[str, ScramMechanism], ScramCredential]:
        return self.security.scram_credentials()

    @property
    def quotas(self) -> Mapping[QuotaEntity, Mapping[str, float]]:
        return self.security.quotas()

    @property
    def delegation_tokens(self) -> Mapping[str, DelegationToken]:
        return self.security.tokens

    def image(self) -> MetadataImage:
        """The image, at a version above every one that any controller published."""
        try:
            image = MetadataImage().apply(self._records())
        except ImageError as error:
            raise CorruptStore(f"ZooKeeper's metadata is inconsistent: {error}") from error
        return image.at_version(self.version())

    def version(self) -> int:
        return metadata_version(self.controller_epoch, self.commits)

    def _records(self) -> Iterator[MetadataRecord]:
        topics = [
            TopicCreated(topic.name, topic.topic_id, tuple(topic.partitions))
            for topic in self.topics.values()
        ]
        names = {topic.name for topic in topics}
        configs = {
            resource: config
            for resource, config in self.configs.items()
            # Other configurations were left by another program; a new topic replaces them.
            if resource.type is not ConfigResourceType.TOPIC or resource.name in names
        }
        return build_records(self, topics, configs)


def read_metadata() -> MetadataRead:
    """Reads everything that controllers write, and returns it decoded."""
    stored = StoredMetadata()
    yield from _read_singletons(stored)
    yield from _read_brokers(stored)
    yield from _read_topics(stored)
    yield from _read_configs(stored)
    yield from read_security(stored.security)
    return stored


def _read_singletons(stored: StoredMetadata) -> Reading:
    paths = (
        znode_paths.CLUSTER_ID,
        znode_paths.CONTROLLER,
        znode_paths.CONTROLLER_EPOCH,
        znode_paths.COMMITS,
        znode_paths.PRODUCER_IDS,
        znode_paths.FEATURES,
    )
    answer = yield ZnodeRead(paths)
    cluster, controller, epoch, commits, producer_ids, features = answer.znodes
    if cluster:
        stored.cluster_id = znodes.read_cluster_id(cluster.data)
    if controller:
        stored.controller_id = znodes.read_controller(controller.data).controller_id
    if epoch:
        stored.controller_epoch = znodes.read_epoch(epoch.data)
    if commits:
        stored.commits = znodes.read_commits(commits.data)
        stored.commits_version = commits.version
    if producer_ids:
        stored.producer_ids_stored = True
        stored.next_producer_id = znodes.read_next_producer_id(producer_ids.data)
    if features:
        stored.features_stored = True
        stored.features = znodes.read_features(features.data)


def _read_brokers(stored: StoredMetadata) -> Reading:
    answer = yield ZnodeRead(children=(znode_paths.RECORDED_BROKERS, znode_paths.DELETE_TOPICS))
    ids = sorted(int(child) for child in answer.children[0] or ())
    stored.deleting.update(answer.children[1] or ())
    answer = yield ZnodeRead([znode_paths.recorded_broker_path(id_) for id_ in ids])
    for id_, znode in zip(ids, answer.znodes, strict=True):
        if znode:
            stored.brokers[id_] = znodes.read_recorded_broker(id_, znode.data)


def _read_topics(stored: StoredMetadata) -> Reading:
    answer = yield ZnodeRead(children=(znode_paths.TOPICS,))
    names = sorted(answer.children[0] or ())
    answer = yield ZnodeRead([znode_paths.topic_path(name) for name in names])
    documents: dict[str, znodes.TopicDocument] = {}
    for name, znode in zip(names, answer.znodes, strict=True):
        if znode:
            documents[name] = znodes.read_topic(name, znode.data)
    alive = {name: document for name, document in documents.items() if not document.deleted}
    yield from _read_states(stored, alive)
    yield from _read_deleted_topics(
        stored, {name: documents[name] for name in documents.keys() - alive}
    )


def _read_states(stored: StoredMetadata, documents: Mapping[str, znodes.TopicDocument]) -> Reading:
    paths: list[str] = []
    for name, document in documents.items():
        _check_indexes(name, document.assignments)
        paths.extend(
            znode_paths.state_path(name, index) for index in range(len(document.assignments))
        )
    answer = yield ZnodeRead(paths)
    states = iter(zip(paths, answer.znodes, strict=True))
    # Thousands of partitions in the same state share one object.
    seen: dict[Partition, Partition] = {}
    for name, document in documents.items():
        topic = StoredTopic(name, document.topic_id, [])
        for index in range(len(document.assignments)):
            assignment = document.assignments[index]
            path, state = next(states)
            if state is None:
                partition = znodes.new_partition(assignment)
            else:
                partition = znodes.read_partition(path, assignment, state.data, state.version)
            topic.partitions.append(seen.setdefault(partition, partition))
        stored.topics[topic.topic_id] = topic
    yield from _read_partitions_without_state(stored)


def _check_indexes(name: str, indexes: Iterable[int]) -> None:
    found = sorted(indexes)
    if not found or found != list(range(len(found))):
        path = znode_paths.topic_path(name)
        raise CorruptStore(f"ZooKeeper: {path} lacks partitions: it has {found[:10]}")


def _read_partitions_without_state(
    stored: StoredMetadata,
) -> Reading:
    """Finds which znodes above a missing state exist: Kafka writes them one by one."""
    gaps = [
        topic
        for topic in stored.topics.values()
        if any(partition.partition_epoch == znodes.NEW_EPOCH for partition in topic.partitions)
    ]
    if not gaps:
        return
    answer = yield ZnodeRead(children=[znode_paths.partitions_path(topic.name) for topic in gaps])
    for topic, children in zip(gaps, answer.children, strict=True):
        topic.has_partitions_znode = children is not None
        topic.without_state = {
            index
            for index in map(int, children or ())
            if index < len(topic.partitions)
            and topic.partitions[index].partition_epoch == znodes.NEW_EPOCH
        }


def _read_deleted_topics(
    stored: StoredMetadata, documents: Mapping[str, znodes.TopicDocument]
) -> Reading:
    for name, document in sorted(documents.items()):
        answer = yield ZnodeRead(children=(znode_paths.partitions_path(name),))
        children = answer.children[0]
        indexes = sorted(map(int, children or ()))
        answer = yield ZnodeRead([znode_paths.state_path(name, index) for index in indexes])
        states = list(zip(indexes, answer.znodes, strict=True))
        with_state = tuple(index for index, state in states if state is not None)
        without_state = tuple(index for index, state in states if state is None)
        stored.leftovers[name] = LeftoverZnodes(
            document.topic_id, with_state, without_state, children is not None
        )


def _read_configs(stored: StoredMetadata) -> Reading:
    types = list(znode_paths.CONFIG_TYPES)
    answer = yield ZnodeRead(children=[znode_paths.CONFIG_TYPES[type_] for type_ in types])
    found: list[tuple[ConfigResourceType, str]] = [
        (type_, child)
        for type_, children in zip(types, answer.children, strict=True)
        for child in sorted(children or ())
    ]
    paths = [f"{znode_paths.CONFIG_TYPES[type_]}/{child}" for type_, child in found]
    answer = yield ZnodeRead(paths)
    for (type_, child), path, znode in zip(found, paths, answer.znodes, strict=True):
        if znode:
            resource = znode_paths.config_resource(type_, child)
            stored.configs[resource] = znodes.read_config(path, znode.data)
