"""The partitions whose stored state a share group has initialized, is initializing or is
deleting."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple


class StateTopic(NamedTuple):
    """Partitions of one topic; the name is for readers of the log."""

    name: str
    partitions: frozenset[int]


Partitions = Mapping[bytes, frozenset[int]]
"""By topic id."""


@dataclass(frozen=True, slots=True)
class StateTopics:
    """Immutable: each method returns the next version."""

    initializing: Mapping[bytes, StateTopic] = field(default_factory=dict)
    initialized: Mapping[bytes, StateTopic] = field(default_factory=dict)
    deleting: Mapping[bytes, str] = field(default_factory=dict)

    def starting(self, topics: Mapping[bytes, StateTopic]) -> "StateTopics":
        """The version in which the state of these partitions is being initialized."""
        deleting = {id_: name for id_, name in self.deleting.items() if id_ not in topics}
        return replace(self, initializing=_joined(self.initializing, topics), deleting=deleting)

    def started(self, topics: Mapping[bytes, StateTopic]) -> "StateTopics":
        """The version in which the state of these partitions is stored."""
        return replace(
            self,
            initializing=_without(self.initializing, topics),
            initialized=_joined(self.initialized, topics),
        )

    def not_started(self, topics: Mapping[bytes, StateTopic]) -> "StateTopics":
        """The version after the state could not be stored; the next heartbeat tries again."""
        return replace(self, initializing=_without(self.initializing, topics))

    def removing(self, topics: Mapping[bytes, str]) -> "StateTopics":
        """The version in which the state of these topics is being deleted."""
        kept = {id_: one for id_, one in self.initialized.items() if id_ not in topics}
        return replace(self, initialized=kept, deleting={**self.deleting, **topics})

    def removed(self, topic_ids: Collection[bytes]) -> "StateTopics":
        """The version in which the state of these topics is deleted."""
        deleting = {id_: name for id_, name in self.deleting.items() if id_ not in topic_ids}
        return replace(self, deleting=deleting)

    def only(self, topic_ids: Collection[bytes]) -> "StateTopics":
        """The state without topics that do not exist."""
        return StateTopics(
            {id_: one for id_, one in self.initializing.items() if id_ in topic_ids},
            {id_: one for id_, one in self.initialized.items() if id_ in topic_ids},
            {id_: name for id_, name in self.deleting.items() if id_ in topic_ids},
        )

    def initialized_partitions(self) -> Partitions:
        return {id_: one.partitions for id_, one in self.initialized.items()}


def _joined(
    some: Mapping[bytes, StateTopic], more: Mapping[bytes, StateTopic]
) -> dict[bytes, StateTopic]:
    joined = dict(some)
    for topic_id, topic in more.items():
        known = joined.get(topic_id)
        partitions = topic.partitions if known is None else known.partitions | topic.partitions
        joined[topic_id] = StateTopic(topic.name, partitions)
    return joined


def _without(
    some: Mapping[bytes, StateTopic], less: Mapping[bytes, StateTopic]
) -> dict[bytes, StateTopic]:
    left = {}
    for topic_id, topic in some.items():
        gone = less[topic_id].partitions if topic_id in less else frozenset()
        if topic.partitions - gone:
            left[topic_id] = StateTopic(topic.name, topic.partitions - gone)
    return left
