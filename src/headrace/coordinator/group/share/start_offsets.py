"""Start offsets of share groups, altered and deleted by administrators; the group must be empty.

Both take two steps, because another coordinator stores the offsets: the group's log records the
operation before it starts, and its completion afterwards.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from headrace.cluster.image import MetadataImage
from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.common.result import CoordinatorResult
from headrace.coordinator.group.share import group_records
from headrace.coordinator.group.share.share_group import ShareGroup
from headrace.coordinator.group.share.state_topics import Partitions, StateTopic
from headrace.protocol.errors import ErrorCode

NOT_HOSTED: Final = "This server does not host this topic-partition."


class StartOffset(NamedTuple):
    """The new start offset of a group in one partition."""

    topic: str
    partition: int
    offset: int


class StartOffsetAlteration(NamedTuple):
    """The offsets to store and their state epoch; partitions that do not exist are left out."""

    state_epoch: int
    topics: Mapping[bytes, StateTopic]
    accepted: Sequence[StartOffset]


class StateDeletion(NamedTuple):
    """The stored state to delete."""

    partitions: Partitions
    names: Mapping[bytes, str]
    errors: Mapping[str, str]
    """The reason why there is nothing to delete, by topic name."""


def alter(
    group: ShareGroup, offsets: Sequence[StartOffset], image: MetadataImage
) -> CoordinatorResult[StartOffsetAlteration]:
    """Prepares new start offsets of partitions that exist."""
    group.check_delete()
    accepted = []
    topics: dict[bytes, StateTopic] = {}
    for wanted in offsets:
        topic = image.topics.get(wanted.topic)
        if topic is None or not 0 <= wanted.partition < len(topic.partitions):
            continue
        accepted.append(wanted)
        known = topics.get(topic.topic_id, StateTopic(topic.name, frozenset()))
        topics[topic.topic_id] = known._replace(partitions=known.partitions | {wanted.partition})
    answer = StartOffsetAlteration(group.epoch, topics, accepted)
    if not topics:
        return CoordinatorResult(answer)
    record = group_records.state_topics_record(group.group_id, group.state_topics.starting(topics))
    return CoordinatorResult(answer, changes=[record])


def begin_deletion(
    group: ShareGroup, topics: Sequence[str], image: MetadataImage
) -> CoordinatorResult[StateDeletion]:
    """Marks the state of these topics as being deleted; topics that are marked already are deleted
    again."""
    group.check_delete()
    state = group.state_topics
    partitions: dict[bytes, frozenset[int]] = {}
    names: dict[bytes, str] = {}
    errors: dict[str, str] = {}
    for name in topics:
        topic = image.topics.get(name)
        if topic is None:
            errors[name] = NOT_HOSTED
            continue
        started = state.initialized.get(topic.topic_id)
        if started is not None:
            partitions[topic.topic_id] = started.partitions
        elif topic.topic_id in state.deleting:
            partitions[topic.topic_id] = frozenset(range(len(topic.partitions)))
        else:
            errors[name] = "There is no offset information to delete."
            continue
        names[topic.topic_id] = name
    answer = StateDeletion(partitions, names, errors)
    if not partitions:
        return CoordinatorResult(answer)
    return CoordinatorResult(
        answer, changes=[group_records.state_topics_record(group.group_id, state.removing(names))]
    )


def begin_group_deletion(group: ShareGroup, image: MetadataImage) -> CoordinatorResult[Partitions]:
    """Marks all state of the group as being deleted."""
    group.check_delete()
    state = group.state_topics
    partitions: dict[bytes, frozenset[int]] = {}
    names: dict[bytes, str] = {}
    for topics in (state.initializing, state.initialized):
        for topic_id, topic in topics.items():
            partitions[topic_id] = partitions.get(topic_id, frozenset()) | topic.partitions
            names[topic_id] = topic.name
    for topic_id, name in state.deleting.items():
        known = image.topics_by_id.get(topic_id)
        if known is not None:
            partitions[topic_id] = frozenset(range(len(known.partitions)))
            names[topic_id] = name
    if not partitions:
        return CoordinatorResult(partitions)
    going = state.removing(names)
    going = going.not_started(going.initializing)
    return CoordinatorResult(
        partitions, changes=[group_records.state_topics_record(group.group_id, going)]
    )


def not_a_share_group(group_id: str, *, exists: bool) -> CoordinatorError:
    message = (
        f"Group {group_id} is not a share group." if exists else f"Group {group_id} not found."
    )
    return CoordinatorError(ErrorCode.GROUP_ID_NOT_FOUND, message)
