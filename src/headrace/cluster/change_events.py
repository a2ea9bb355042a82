"""What a request has changed in the metadata, as events for the log of changes. Pure.

A request may create thousands of topics or change thousands of partitions; more than a few equal
changes have one summary with examples.
"""

from collections.abc import Iterator, Sequence
from logging import INFO
from typing import Final

from headrace.cluster.configs.catalog import BY_RESOURCE, broker_definition
from headrace.cluster.image import MetadataImage
from headrace.cluster.metadata_records import (
    BrokerUnregistered,
    ConfigChanged,
    FeatureSet,
    MetadataRecord,
    PartitionChanged,
    PartitionsAdded,
    TopicCreated,
    TopicDeleted,
)
from headrace.cluster.resources import ConfigResource, ConfigResourceType
from headrace.cluster.topology import Partition
from headrace.log_event import LogEvent, examples

MAX_LINES: Final = 5
"""Topics of one request that have a line each."""
DEFAULT: Final = "(default)"
HIDDEN: Final = "***"

STARTED_REASSIGNMENT: Final = "started a reassignment"
CANCELLED_REASSIGNMENT: Final = "cancelled a reassignment"
ELECTED_LEADERS: Final = "requested leader elections"


def change_events(before: MetadataImage, records: Sequence[MetadataRecord]) -> Iterator[LogEvent]:
    """The changes of `records`, which a request has made to `before`."""
    yield from _created(records)
    yield from _deleted(before, records)
    yield from _moved(before, records)
    for record in records:
        match record:
            case PartitionsAdded(topic_id, partitions):
                yield from _added(before, topic_id, len(partitions))
            case ConfigChanged():
                yield _changed_setting(before, record)
            case FeatureSet(name, level):
                fields = {"feature": name, "old": before.features.get(name, 0), "new": level}
                yield LogEvent(INFO, "changed a feature level", fields)
            case BrokerUnregistered(broker_id):
                yield LogEvent(INFO, "unregistered a broker", {"broker": broker_id})


def _created(records: Sequence[MetadataRecord]) -> Iterator[LogEvent]:
    created = [each for each in records if isinstance(each, TopicCreated)]
    if len(created) > MAX_LINES:
        names = examples([each.name for each in created])
        fields = {"topics": len(created), "examples": names}
        yield LogEvent(INFO, "created many topics", fields)
        return
    for name, _, partitions in created:
        one = {
            "topic": name,
            "partitions": len(partitions),
            "replicas": len(partitions[0].replicas),
        }
        yield LogEvent(INFO, "created a topic", one)


def _deleted(before: MetadataImage, records: Sequence[MetadataRecord]) -> Iterator[LogEvent]:
    deleted = [
        before.topics_by_id[each.topic_id]
        for each in records
        if isinstance(each, TopicDeleted) and each.topic_id in before.topics_by_id
    ]
    if len(deleted) > MAX_LINES:
        names = examples([each.name for each in deleted])
        fields = {"topics": len(deleted), "examples": names}
        yield LogEvent(INFO, "deleted many topics", fields)
        return
    for topic in deleted:
        one = {"topic": topic.name, "partitions": len(topic.partitions)}
        yield LogEvent(INFO, "deleted a topic", one)


def _added(before: MetadataImage, topic_id: bytes, number: int) -> Iterator[LogEvent]:
    topic = before.topics_by_id.get(topic_id)
    if topic is not None:
        have = len(topic.partitions)
        fields = {"topic": topic.name, "old": have, "new": have + number}
        yield LogEvent(INFO, "added partitions to a topic", fields)


def _moved(before: MetadataImage, records: Sequence[MetadataRecord]) -> Iterator[LogEvent]:
    """Reassignments and elections that a request started."""
    found: dict[str, list[str]] = {}
    for record in records:
        if not isinstance(record, PartitionChanged):
            continue
        topic = before.topics_by_id.get(record.topic_id)
        old = None if topic is None else topic.partition(record.index)
        if topic is None or old is None:
            continue
        change = _kind_of_move(old, record.partition)
        if change is not None:
            found.setdefault(change, []).append(f"{topic.name}-{record.index}")
    for change, names in found.items():
        yield LogEvent(INFO, change, {"partitions": len(names), "examples": examples(names)})


def _kind_of_move(old: Partition, new: Partition) -> str | None:
    was_moving, moves = _moves(old), _moves(new)
    if moves and (not was_moving or old.adding != new.adding or old.removing != new.removing):
        return STARTED_REASSIGNMENT
    if was_moving and not moves:
        return CANCELLED_REASSIGNMENT
    return ELECTED_LEADERS if old.leader != new.leader else None


def _moves(partition: Partition) -> bool:
    return bool(partition.adding or partition.removing)


def _changed_setting(before: MetadataImage, record: ConfigChanged) -> LogEvent:
    resource, name, value = record.resource, record.name, record.value
    old = before.config(resource).get(name)
    is_secret = _is_secret(resource, name)
    fields = {
        "resource": f"{resource.type.name}:{resource.name or '(all)'}",
        "setting": name,
        "old": _shown(old, is_secret=is_secret),
        "new": _shown(value, is_secret=is_secret),
    }
    return LogEvent(INFO, "changed a setting", fields)


def _is_secret(resource: ConfigResource, name: str) -> bool:
    """Whether the value may be a secret: as in Kafka, that of an unknown setting may be."""
    if resource.type is ConfigResourceType.BROKER:
        definition = broker_definition(name)
    else:
        definition = BY_RESOURCE[resource.type].get(name)
    return definition is None or definition.sensitive


def _shown(value: str | None, *, is_secret: bool) -> str:
    if value is None:
        return DEFAULT
    return HIDDEN if is_secret else value
