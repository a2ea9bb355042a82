"""Leader election: which replica leads a partition. Pure.

The leader is live and in sync. A partition without such a replica gets an eligible leader
(KIP-966), and only an unclean election gives it a replica that may lack acknowledged records.
"""

from collections.abc import Callable, Collection
from enum import Enum
from typing import NamedTuple

from headrace.cluster.image import MetadataImage
from headrace.cluster.topology import NO_LEADER


class Election(Enum):
    """The kinds of election: each defines which replica may become the leader."""

    ONLINE = "only a partition without a leader gets a new one"
    PREFERRED = "the first replica, if it is live and in sync"
    UNCLEAN = "any live replica, even one that lacks acknowledged records"


class ElectionContext(NamedTuple):
    """The inputs of an election besides the partition's own state."""

    live: Collection[int]  # brokers that may lead: registered, not fenced, not shutting down
    min_isr: int = 1
    unclean: bool = False  # unclean.leader.election.enable: availability before durability


class TopicRules(NamedTuple):
    """The topic settings that matter for elections."""

    min_isr: int = 1
    unclean: bool = False
    flushes_each_ack: bool = False  # acknowledged records survive the loss of the page cache


Rules = Callable[[str], TopicRules]
"""Returns the rules of the topic with this name."""


class ElectedLeader(NamedTuple):
    """The result of an election for one partition."""

    leader: int
    isr: tuple[int, ...]
    was_unclean: bool  # the leader may lack acknowledged records


def live_ids(image: MetadataImage) -> frozenset[int]:
    """The brokers that may lead partitions and host new replicas."""
    return frozenset(id_ for id_, broker in image.brokers.items() if broker.is_available)


def election_context(image: MetadataImage, rules: Rules, topic: str) -> ElectionContext:
    of_topic = rules(topic)
    return ElectionContext(live_ids(image), of_topic.min_isr, of_topic.unclean)


def elect_leader(
    replicas: tuple[int, ...],
    isr: tuple[int, ...],
    eligible: tuple[int, ...],
    leader: int,
    context: ElectionContext,
    election: Election,
) -> ElectedLeader:
    """Keeps `leader` if it is live and in sync; else chooses the first replica that may lead."""
    live = context.live
    # Dead replicas are out of sync. If all are dead, keep the set: the first one to return still
    # has every acknowledged record.
    isr = tuple(id_ for id_ in isr if id_ in live) or isr
    first = replicas[0]
    if election is Election.PREFERRED and first in live and first in isr:
        leader = first
    if leader not in live or leader not in isr:
        leader = _first_live(replicas, live, isr)
    if leader != NO_LEADER:
        return ElectedLeader(leader, isr, was_unclean=False)
    chosen, was_unclean = _first_live(replicas, live, eligible), False
    if chosen == NO_LEADER and (election is Election.UNCLEAN or context.unclean):
        chosen = _first_live(replicas, live, replicas)
        was_unclean = chosen != NO_LEADER
    return ElectedLeader(chosen, isr if chosen == NO_LEADER else (chosen,), was_unclean)


def _first_live(replicas: tuple[int, ...], live: Collection[int], among: Collection[int]) -> int:
    return next((id_ for id_ in replicas if id_ in live and id_ in among), NO_LEADER)
