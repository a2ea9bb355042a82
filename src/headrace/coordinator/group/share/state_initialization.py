"""Initializes the stored state of partitions that a share group is about to read."""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from headrace.cluster.image import MetadataImage
from headrace.coordinator.group.group_config import GroupConfig
from headrace.coordinator.group.result_builder import ResultBuilder
from headrace.coordinator.group.share import group_records
from headrace.coordinator.group.share.share_group import ShareGroup
from headrace.coordinator.group.share.state_topics import StateTopic

CHOSEN_BY_LEADER = -1


class InitializeState(NamedTuple):
    """Effect: initialize the state of these partitions, then call `started` or `not_started`."""

    group_id: str
    state_epoch: int
    topics: Mapping[bytes, StateTopic]


def start_missing_state(
    group: ShareGroup,
    epoch: int,
    subscribed: Collection[str],
    image: MetadataImage,
    config: GroupConfig,
    result: ResultBuilder,
    now_ms: int,
) -> None:
    """Requests the state of every partition that the group wants and that has none.

    A request without a result is repeated after a while.
    """
    missing = _missing(group, subscribed, image, config, now_ms)
    if not missing:
        return
    group.started_at_ms.update(dict.fromkeys(missing, now_ms))
    topics = group.state_topics.starting(missing)
    result.changes.append(group_records.state_topics_record(group.group_id, topics))
    result.effects.append(InitializeState(group.group_id, epoch, missing))


def _missing(
    group: ShareGroup,
    subscribed: Collection[str],
    image: MetadataImage,
    config: GroupConfig,
    now_ms: int,
) -> dict[bytes, StateTopic]:
    state = group.state_topics
    missing = {}
    for name in subscribed:
        topic = image.topics.get(name)
        if topic is None:
            continue
        done = state.initialized.get(topic.topic_id)
        known = done.partitions if done is not None else frozenset()
        if len(known) >= len(topic.partitions):
            continue
        asked = state.initializing.get(topic.topic_id)
        asked_at_ms = group.started_at_ms.get(topic.topic_id, 0)
        # Negative if the clock was set back: then it is due as well.
        waited_ms = now_ms - asked_at_ms
        if asked is not None and 0 <= waited_ms < config.share_initialize_retry_interval_ms:
            known |= asked.partitions
        partitions = frozenset(range(len(topic.partitions))) - known
        if partitions:
            missing[topic.topic_id] = StateTopic(name, partitions)
    return missing
