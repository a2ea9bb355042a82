"""Creating, growing and deleting topics: Kafka's checks in Kafka's order, records out. Pure."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final, NamedTuple

from headrace.cluster.image import MetadataImage
from headrace.cluster.metadata_records import (
    ConfigChanged,
    MetadataRecord,
    PartitionsAdded,
    TopicCreated,
    TopicDeleted,
)
from headrace.cluster.resources import topic_resource
from headrace.cluster.topic_names import collision_key, name_problem
from headrace.cluster.topology import (
    CLUSTER_METADATA_TOPIC,
    ZERO_UUID,
    Partition,
    Topic,
)
from headrace.controller.replica_placement import assigned_partition, bad_assignment, place
from headrace.controller.result import NO_ERROR, ApiError, ControllerResult, Refused
from headrace.protocol.errors import ErrorCode

MAX_PARTITIONS_PER_REQUEST: Final = 10_000
"""Kafka's limit: the partitions of one request must fit one batch, in memory and in time."""

UNSET: Final = -1
"""Asks for the broker's default number of partitions or replicas."""


class NewTopic(NamedTuple):
    """A topic to create. With assignments (partition, brokers) both counts must be UNSET."""

    name: str
    num_partitions: int = UNSET
    replication_factor: int = UNSET
    assignments: Sequence[tuple[int, Sequence[int]]] = ()
    configs: Sequence[tuple[str, str | None]] = ()


class CreatedTopic(NamedTuple):
    """The result for one new topic; the id and the counts are set unless there is an error."""

    name: str
    error: ApiError = NO_ERROR
    topic_id: bytes = ZERO_UUID
    num_partitions: int = -1
    replication_factor: int = -1


class TopicRef(NamedTuple):
    """A topic by its name or by its id; a request with both or neither is refused."""

    name: str | None = None
    topic_id: bytes = ZERO_UUID


class DeletedTopic(NamedTuple):
    """The result for one topic to delete."""

    name: str | None
    topic_id: bytes = ZERO_UUID
    error: ApiError = NO_ERROR


@dataclass(frozen=True, slots=True)
class MorePartitions:
    """A topic's new total of partitions, and optionally the brokers of each added partition."""

    name: str
    count: int
    assignments: Sequence[Sequence[int]] | None = None


class GrownTopic(NamedTuple):
    """The result for one topic that gets more partitions."""

    name: str
    error: ApiError = NO_ERROR


class TopicDefaults(NamedTuple):
    """The counts of a topic whose request leaves them UNSET."""

    num_partitions: int = 1
    replication_factor: int = 1


ConfigCheck = Callable[[dict[str, str]], None]
"""Raises `Refused` if a new topic may not have these configs."""


ChargePartitions = Callable[[int], None]
"""Called with the partitions that a topic gets or loses; raises `Refused` if the sender's
`controller_mutation_rate` does not allow it. As in Kafka, a topic that is refused for another
reason costs nothing, and one that is only validated costs the same."""


def without_quota(_partitions: int) -> None:
    """For senders without a quota."""


def create_topics(
    image: MetadataImage,
    topics: Sequence[NewTopic],
    *,
    defaults: TopicDefaults,
    check_configs: ConfigCheck,
    rng: Random,
    charge: ChargePartitions = without_quota,
) -> ControllerResult[CreatedTopic]:
    """Creates topics. One result for each distinct name, in the order of the request."""
    counts = Counter(topic.name for topic in topics)
    oversized = _requested_partitions(topics, defaults) > MAX_PARTITIONS_PER_REQUEST
    records: list[MetadataRecord] = []
    results: list[CreatedTopic] = []
    new_keys: dict[str, str] = {}
    for topic in topics:
        try:
            if counts[topic.name] > 1:
                raise Refused(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            if oversized:
                raise Refused(
                    ErrorCode.POLICY_VIOLATION,
                    "Excessively large number of partitions per request.",
                )
            _check_name(image, topic.name, new_keys)
            configs = _checked_configs(topic, check_configs)
            partitions = _new_partitions(image, topic, defaults, rng)
            charge(len(partitions))
        except Refused as refused:
            results.append(CreatedTopic(topic.name, refused.error))
            continue
        topic_id = _random_topic_id(image, rng)
        _reserve_name(topic.name, new_keys)
        records.append(TopicCreated(topic.name, topic_id, partitions))
        resource = topic_resource(topic.name)
        records.extend(ConfigChanged(resource, name, value) for name, value in configs.items())
        factor = len(partitions[0].replicas)
        results.append(CreatedTopic(topic.name, NO_ERROR, topic_id, len(partitions), factor))
    return ControllerResult(tuple(records), _one_per_name(results))


def delete_topics(
    image: MetadataImage, refs: Sequence[TopicRef], *, charge: ChargePartitions = without_quota
) -> ControllerResult[DeletedTopic]:
    """Deletes topics. A topic that the request names twice, also by name and id, is refused."""
    names = Counter(ref.name for ref in refs)
    ids = Counter(ref.topic_id for ref in refs if ref.name is None)
    records: list[MetadataRecord] = []
    results: dict[tuple[str | None, bytes], DeletedTopic] = {}
    for ref in refs:
        try:
            topic = _topic_to_delete(image, ref, names, ids)
            charge(len(topic.partitions))
        except Refused as refused:
            results[ref.name, ref.topic_id] = DeletedTopic(ref.name, ref.topic_id, refused.error)
            continue
        records.append(TopicDeleted(topic.topic_id))
        results[ref.name, ref.topic_id] = DeletedTopic(topic.name, topic.topic_id)
    return ControllerResult(tuple(records), list(results.values()))


def create_partitions(
    image: MetadataImage,
    growths: Sequence[MorePartitions],
    *,
    rng: Random,
    charge: ChargePartitions = without_quota,
) -> ControllerResult[GrownTopic]:
    """Adds partitions; a topic never shrinks. One result for each distinct name."""
    counts = Counter(growth.name for growth in growths)
    records: list[MetadataRecord] = []
    results: dict[str, GrownTopic] = {}
    remaining = MAX_PARTITIONS_PER_REQUEST
    for growth in growths:
        try:
            if counts[growth.name] > 1:
                raise Refused(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            topic = image.topics.get(growth.name)
            if topic is None:
                raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            _check_growth(topic, growth, remaining)
            added = _added_partitions(image, topic, growth, rng)
            charge(len(added))
        except Refused as refused:
            results[growth.name] = GrownTopic(growth.name, refused.error)
            continue
        remaining -= len(added)
        records.append(PartitionsAdded(topic.topic_id, added))
        results[growth.name] = GrownTopic(growth.name)
    return ControllerResult(tuple(records), list(results.values()))


def _one_per_name(results: Iterable[CreatedTopic]) -> list[CreatedTopic]:
    return list({result.name: result for result in results}.values())


def _requested_partitions(topics: Sequence[NewTopic], defaults: TopicDefaults) -> int:
    total = 0
    for topic in topics:
        if topic.assignments:
            total += len(topic.assignments)
        elif topic.num_partitions == UNSET:
            total += defaults.num_partitions
        else:
            total += max(0, topic.num_partitions)
    return total


def _check_name(image: MetadataImage, name: str, new_keys: dict[str, str]) -> None:
    if name == CLUSTER_METADATA_TOPIC:
        raise Refused(
            ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited."
        )
    if name in image.topics:
        raise Refused(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    problem = name_problem(name)
    if problem is not None:
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
    key = collision_key(name)
    if key is None:
        return
    other = image.collisions.get(key) or new_keys.get(key)
    if other is not None:
        raise Refused(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"Topic '{name}' collides with existing topic: {other}",
        )


def _reserve_name(name: str, new_keys: dict[str, str]) -> None:
    """Two topics of one request must not collide with each other either."""
    key = collision_key(name)
    if key is not None:
        new_keys[key] = name


def _checked_configs(topic: NewTopic, check: ConfigCheck) -> dict[str, str]:
    nulls = [name for name, value in topic.configs if value is None]
    if nulls:
        raise Refused(
            ErrorCode.INVALID_CONFIG,
            "Null value not supported for topic configs: " + ",".join(nulls),
        )
    configs = {name: value for name, value in topic.configs if value is not None}
    check(configs)
    return configs


def _new_partitions(
    image: MetadataImage, topic: NewTopic, defaults: TopicDefaults, rng: Random
) -> tuple[Partition, ...]:
    if topic.assignments:
        return _assigned_partitions(image, topic)
    count, factor = topic.num_partitions, topic.replication_factor
    if factor < UNSET or factor == 0:
        raise Refused(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if count < UNSET or count == 0:
        raise Refused(
            ErrorCode.INVALID_PARTITIONS,
            "Number of partitions was set to an invalid non-positive value.",
        )
    return place(
        list(image.brokers.values()),
        count=defaults.num_partitions if count == UNSET else count,
        replication_factor=defaults.replication_factor if factor == UNSET else factor,
        rng=rng,
    )


def _assigned_partitions(image: MetadataImage, topic: NewTopic) -> tuple[Partition, ...]:
    for value, label in (
        (topic.replication_factor, "replication factor"),
        (topic.num_partitions, "numPartitions"),
    ):
        if value != UNSET:
            raise Refused(
                ErrorCode.INVALID_REQUEST,
                f"A manual partition assignment was specified, but {label} was not set to -1.",
            )
    chosen: dict[int, Partition] = {}
    factor: int | None = None
    for index, replicas in topic.assignments:
        if index in chosen:
            raise bad_assignment(
                f"Found multiple manual partition assignments for partition {index}"
            )
        chosen[index] = assigned_partition(image.brokers, index, replicas, factor)
        factor = len(replicas)
    if set(chosen) != set(range(len(chosen))):
        raise bad_assignment("partitions should be a consecutive 0-based integer sequence")
    return tuple(chosen[index] for index in range(len(chosen)))


def _random_topic_id(image: MetadataImage, rng: Random) -> bytes:
    """A new version-4 UUID that is not reserved and does not begin with '-' in base64.

    Kafka's tools print ids in base64 and accept them as arguments, where a leading '-' reads as an
    option.
    """
    while True:
        number = rng.getrandbits(128)
        number = number & ~(0xF << 76) | (4 << 76)
        number = number & ~(0x3 << 62) | (2 << 62)
        topic_id = number.to_bytes(16, "big")
        if topic_id[0] >> 2 != 62 and topic_id not in image.topics_by_id:
            return topic_id


def _topic_to_delete(
    image: MetadataImage, ref: TopicRef, names: Counter[str | None], ids: Counter[bytes]
) -> Topic:
    if ref.name is None:
        if ref.topic_id == ZERO_UUID:
            raise Refused(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
        if ids[ref.topic_id] > 1:
            raise Refused(ErrorCode.INVALID_REQUEST, "Duplicate topic id.")
        topic = image.topics_by_id.get(ref.topic_id)
        if topic is None:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_ID)
        if topic.name in names:
            raise Refused(ErrorCode.INVALID_REQUEST, _NAMED_TWICE)
        return topic
    if ref.topic_id != ZERO_UUID:
        raise Refused(
            ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id."
        )
    if names[ref.name] > 1:
        raise Refused(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    topic = image.topics.get(ref.name)
    if topic is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if topic.topic_id in ids:
        raise Refused(ErrorCode.INVALID_REQUEST, _NAMED_TWICE)
    return topic


_NAMED_TWICE: Final = "The provided topic name maps to an ID that was already supplied."


def _check_growth(topic: Topic, growth: MorePartitions, remaining: int) -> None:
    have = len(topic.partitions)
    if growth.count == have:
        raise Refused(ErrorCode.INVALID_PARTITIONS, f"Topic already has {have} partition(s).")
    if growth.count < have:
        raise Refused(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {growth.name} currently has {have} partition(s); {growth.count} would "
            "not be an increase.",
        )
    additional = growth.count - have
    if growth.assignments is not None and len(growth.assignments) != additional:
        raise bad_assignment(
            f"Attempted to add {additional} additional partition(s), but only "
            f"{len(growth.assignments)} assignment(s) were specified."
        )
    if additional > remaining:
        raise Refused(
            ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request."
        )


def _added_partitions(
    image: MetadataImage, topic: Topic, growth: MorePartitions, rng: Random
) -> tuple[Partition, ...]:
    have, factor = len(topic.partitions), topic.replication_factor
    if growth.assignments is None:
        return place(
            list(image.brokers.values()),
            count=growth.count - have,
            replication_factor=factor,
            rng=rng,
        )
    return tuple(
        assigned_partition(image.brokers, have + number, replicas, factor)
        for number, replicas in enumerate(growth.assignments)
    )
