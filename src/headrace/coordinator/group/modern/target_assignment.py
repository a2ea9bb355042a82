"""The group epoch and the target assignment of a consumer group or a share group."""

from collections.abc import Iterable, Mapping
from typing import TypeVar

from headrace.cluster.image import MetadataImage
from headrace.coordinator.group.modern.assignor_spec import (
    NOTHING,
    Assignment,
    Assignor,
    GroupSpec,
    MemberSpec,
)
from headrace.coordinator.group.modern.modern_group import ModernGroup, ModernMember
from headrace.coordinator.group.modern.subscribed_topics import metadata_hash, partition_counts
from headrace.coordinator.group.result_builder import ResultBuilder

M = TypeVar("M", bound=ModernMember)


def advance_group_epoch(
    group: ModernGroup[M],
    topics: Iterable[str],
    image: MetadataImage,
    result: ResultBuilder,
    now_ms: int,
    *,
    changed: bool,
) -> int:
    """The epoch of the group with these topics: the next one if `changed`, or if one of the topics
    has changed since the last check."""
    hash_ = metadata_hash(topics, image)
    epoch = group.epoch
    if changed or hash_ != group.metadata_hash:
        epoch += 1
        result.changes.append(group.records.epoch(group.group_id, epoch, hash_))
    group.refreshed(epoch, now_ms)
    return epoch


def assign_targets(
    group: ModernGroup[M],
    specs: Mapping[str, MemberSpec],
    assignor: Assignor,
    image: MetadataImage,
    result: ResultBuilder,
) -> Mapping[str, Assignment]:
    """The assignor's targets for the members in `specs`. Writes those that have changed; the caller
    writes the target's epoch."""
    wanted = frozenset().union(*(spec.topics for spec in specs.values()))
    targets = assignor(GroupSpec(specs, partition_counts(wanted, image)))
    for member_id in specs:
        target = targets.get(member_id, NOTHING)
        if target != group.target.get(member_id):
            result.changes.append(group.records.target(group.group_id, member_id, target))
    return targets
