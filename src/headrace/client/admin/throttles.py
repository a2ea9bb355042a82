"""Throttles the replication of reassignments, with the settings that Kafka's own tool uses.

Each participating broker gets a rate (`leader.replication.throttled.rate` and the follower's), and
each topic the list of replicas to which the rate applies. Other replication is not slowed down.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from headrace.client.admin.configs import (
    ConfigChange,
    ConfigSource,
    Operation,
    Resource,
    ResourceKind,
    alter_configs,
    describe_configs,
)
from headrace.client.broker_requests import ask_brokers
from headrace.client.client import ClusterClient
from headrace.client.errors import DeadlineExceeded
from headrace.client.results import Refusal, TopicPartition
from headrace.protocol.errors import ErrorCode

RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
LEADERS: Final = "leader.replication.throttled.replicas"
FOLLOWERS: Final = "follower.replication.throttled.replicas"

UNREACHABLE: Final = ErrorCode.BROKER_NOT_AVAILABLE

Moves = Mapping[TopicPartition, tuple[Sequence[int], Sequence[int]]]
"""The current and the future replicas of each partition that moves."""


async def set_throttle(
    client: ClusterClient, moves: Moves, bytes_per_s: int, *, timeout_s: float
) -> dict[Resource, Refusal | None]:
    """Limits the replication that `moves` cause to this rate, on each broker.

    A broker that cannot be reached gets the refusal `UNREACHABLE`. It copies nothing at the moment.
    """
    brokers = {broker for before, after in moves.values() for broker in (*before, *after)}
    changes: dict[Resource, Sequence[ConfigChange]] = {
        Resource(ResourceKind.BROKER, str(broker)): [
            ConfigChange(name, Operation.SET, str(bytes_per_s)) for name in RATES
        ]
        for broker in sorted(brokers)
    }
    for topic, (leaders, followers) in _throttled_replicas(moves).items():
        changes[Resource(ResourceKind.TOPIC, topic)] = [
            ConfigChange(LEADERS, Operation.SET, ",".join(leaders)),
            ConfigChange(FOLLOWERS, Operation.SET, ",".join(followers)),
        ]
    return await _alter_at_brokers(client, changes, timeout_s=timeout_s)


async def clear_throttle(
    client: ClusterClient, brokers: Sequence[int], topics: Sequence[str], *, timeout_s: float
) -> dict[Resource, Refusal | None]:
    """Removes the limits of these brokers and topics; refusals as for `set_throttle`."""
    changes: dict[Resource, Sequence[ConfigChange]] = {
        Resource(ResourceKind.BROKER, str(broker)): [
            ConfigChange(name, Operation.DELETE) for name in RATES
        ]
        for broker in brokers
    }
    for topic in topics:
        changes[Resource(ResourceKind.TOPIC, topic)] = [
            ConfigChange(name, Operation.DELETE) for name in (LEADERS, FOLLOWERS)
        ]
    return await _alter_at_brokers(client, changes, timeout_s=timeout_s)


async def _alter_at_brokers(
    client: ClusterClient,
    changes: Mapping[Resource, Sequence[ConfigChange]],
    *,
    timeout_s: float,
) -> dict[Resource, Refusal | None]:
    """Each broker changes its own settings, so one that is dead must not fail the others."""
    brokers = {int(each.name): each for each in changes if each.kind is ResourceKind.BROKER}
    topics = {each: of for each, of in changes.items() if each.kind is not ResourceKind.BROKER}

    async def ask(broker: int, limit_s: float) -> dict[Resource, Refusal | None]:
        own = brokers[broker]
        return await alter_configs(client, {own: changes[own]}, timeout_s=limit_s)

    done = await alter_configs(client, topics, timeout_s=timeout_s)
    found = await ask_brokers(sorted(brokers), ask, timeout_s=timeout_s)
    for outcome in found.answers.values():
        done |= outcome
    for broker, error in found.failures.items():
        if not (error.retriable or isinstance(error, DeadlineExceeded)):
            raise error
        done[brokers[broker]] = Refusal(UNREACHABLE, str(error))
    return done


async def find_throttled(
    client: ClusterClient, brokers: Sequence[int], topics: Sequence[str], *, timeout_s: float
) -> tuple[list[int], list[str]]:
    """The brokers and topics among these that have a limit."""
    resources = [Resource(ResourceKind.BROKER, str(broker)) for broker in brokers]
    resources += [Resource(ResourceKind.TOPIC, topic) for topic in topics]
    names = (*RATES, LEADERS, FOLLOWERS)
    limited = (ConfigSource.DYNAMIC_BROKER, ConfigSource.TOPIC)
    answers = await describe_configs(client, resources, timeout_s=timeout_s, names=names)
    found = [
        resource
        for resource, entries in answers.items()
        if not isinstance(entries, Refusal)
        and any(entry.source in limited and entry.name in names for entry in entries)
    ]
    return (
        [int(each.name) for each in found if each.kind is ResourceKind.BROKER],
        [each.name for each in found if each.kind is ResourceKind.TOPIC],
    )


def _throttled_replicas(moves: Moves) -> dict[str, tuple[list[str], list[str]]]:
    """By topic, `partition:broker` of the source replicas and of the destination replicas."""
    topics: dict[str, tuple[list[str], list[str]]] = {}
    for (topic, index), (before, after) in moves.items():
        leaders, followers = topics.setdefault(topic, ([], []))
        leaders.extend(f"{index}:{broker}" for broker in before)
        followers.extend(f"{index}:{broker}" for broker in after if broker not in before)
    return topics
