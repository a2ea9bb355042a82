"""What happened to the cluster between two metadata images, as events for the log. Pure.

One change may move thousands of leaders, so each cause has one summary with a few examples.
"""

from collections.abc import Iterator, Mapping, Sequence
from logging import INFO, WARNING
from typing import Final

from headrace.cluster.image import MetadataImage
from headrace.cluster.metadata_records import (
    BrokerFenced,
    FencedReason,
    MetadataRecord,
    PartitionChanged,
)
from headrace.cluster.topology import NO_LEADER, BrokerRegistration, Partition, Topic
from headrace.log_event import MAX_EXAMPLES, LogEvent, examples

CONTROLLED_SHUTDOWN: Final = "controlled shutdown"
_REASONS: Final[dict[str, str]] = {
    FencedReason.SESSION_ENDED: "its ZooKeeper session ended",
    FencedReason.PROCESS_DIED: "its process died (fast failure detection)",
    FencedReason.RESTARTED: "its process was replaced by a new one",
}
_UNKNOWN_REASON: Final = "the controller fenced it"


def events_between(
    before: MetadataImage,
    after: MetadataImage,
    records: Sequence[MetadataRecord],
    *,
    node_id: int,
    took_ms: int | None = None,
) -> Iterator[LogEvent]:
    """The events of a change, as the broker `node_id` logs them.

    `records` led from one image to the other. `took_ms` is the time from the decision to the
    commit, which only the controller knows.
    """
    yield from _controller_events(before, after, node_id)
    yield from _broker_events(before, after, _fenced_reasons(records))
    yield from _partition_events(before, after, records, took_ms)


def _controller_events(
    before: MetadataImage, after: MetadataImage, node_id: int
) -> Iterator[LogEvent]:
    """A broker that is elected logs that itself, earlier."""
    if after.controller_epoch != before.controller_epoch and after.controller_id != node_id:
        fields = {
            "controller": after.controller_id,
            "epoch": after.controller_epoch,
            "previous": before.controller_id,
        }
        yield LogEvent(INFO, "the cluster has a new controller", fields)


# --- brokers ------------------------------------------------------------------------------------


def _fenced_reasons(records: Sequence[MetadataRecord]) -> dict[int, str]:
    return {each.broker_id: each.reason for each in records if isinstance(each, BrokerFenced)}


def _broker_events(
    before: MetadataImage, after: MetadataImage, reasons: dict[int, str]
) -> Iterator[LogEvent]:
    if before.brokers is after.brokers:
        return
    for id_ in sorted({*before.brokers, *after.brokers}):
        old, new = before.brokers.get(id_), after.brokers.get(id_)
        if new is None:
            yield LogEvent(INFO, "a broker was unregistered", {"broker": id_})
            continue
        if _is_live(old) and _has_left(old, new):
            assert old is not None
            yield _left(old, reasons.get(id_, ""))
        if _is_live(new) and (old is None or old.fenced or old.epoch != new.epoch):
            yield LogEvent(INFO, "a broker joined", _registration_fields(new))
        elif new.leaving and old is not None and not old.leaving:
            fields = {"broker": id_, "epoch": new.epoch}
            yield LogEvent(INFO, "a broker begins its controlled shutdown", fields)


def _is_live(broker: BrokerRegistration | None) -> bool:
    return broker is not None and not broker.fenced


def _has_left(old: BrokerRegistration | None, new: BrokerRegistration) -> bool:
    return new.fenced or (old is not None and old.epoch != new.epoch)


def _left(broker: BrokerRegistration, reason: str) -> LogEvent:
    if broker.leaving:
        level, cause = INFO, CONTROLLED_SHUTDOWN
    else:
        level, cause = WARNING, _REASONS.get(reason, _UNKNOWN_REASON)
    fields = {"broker": broker.broker_id, "epoch": broker.epoch, "cause": cause}
    return LogEvent(level, "a broker left", fields)


def _registration_fields(broker: BrokerRegistration) -> dict[str, object]:
    fields: dict[str, object] = {
        "broker": broker.broker_id,
        "epoch": broker.epoch,
        "endpoints": ",".join(
            f"{each.listener}://{each.host}:{each.port}" for each in broker.endpoints
        ),
    }
    if broker.rack is not None:
        fields["rack"] = broker.rack
    return fields


# --- partitions ---------------------------------------------------------------------------------


class _Moves:
    """The leaders that changed for one cause, as topics and indexes of partitions."""

    def __init__(self) -> None:
        self.elected: list[tuple[str, int]] = []
        self.leaderless: list[tuple[str, int]] = []
        self.unclean: list[tuple[str, int]] = []
        self.left_isrs = 0


def _partition_events(
    before: MetadataImage,
    after: MetadataImage,
    records: Sequence[MetadataRecord],
    took_ms: int | None,
) -> Iterator[LogEvent]:
    moves: dict[str, _Moves] = {}
    departed = _departed(before, after)
    reassigned: dict[str, Topic] = {}
    changed = {
        (each.topic_id, each.index): None for each in records if isinstance(each, PartitionChanged)
    }
    for topic_id, index in changed:
        old_topic, topic = before.topics_by_id.get(topic_id), after.topics_by_id.get(topic_id)
        old = None if old_topic is None else old_topic.partition(index)
        new = None if topic is None else topic.partition(index)
        if old is None or new is None or topic is None:
            continue
        _note_move(moves, (topic.name, index), old, new, departed)
        if _is_reassigned(old) and not _is_reassigned(new):
            reassigned[topic.name] = topic
    for cause, found in moves.items():
        yield from _election_events(cause, found, took_ms)
    for topic in reassigned.values():
        if not any(map(_is_reassigned, topic.partitions)):
            yield LogEvent(INFO, "the reassignment of a topic finished", {"topic": topic.name})


def _is_reassigned(partition: Partition) -> bool:
    return bool(partition.adding or partition.removing)


def _departed(before: MetadataImage, after: MetadataImage) -> dict[int, str]:
    """The brokers that left, were restarted or began their shutdown, each as a cause."""
    found: dict[int, str] = {}
    if before.brokers is after.brokers:
        return found
    for id_, new in after.brokers.items():
        old = before.brokers.get(id_)
        if old is None:
            continue
        if _is_live(old) and _has_left(old, new):
            found[id_] = f"broker {id_} left"
        elif new.leaving and not old.leaving:
            found[id_] = f"{CONTROLLED_SHUTDOWN} of broker {id_}"
    return found


def _note_move(
    moves: dict[str, _Moves],
    place: tuple[str, int],
    old: Partition,
    new: Partition,
    departed: Mapping[int, str],
) -> None:
    gone = [id_ for id_ in old.isr if id_ in departed and id_ not in new.isr]
    if old.leader_epoch < 0 or (old.leader == new.leader and not gone):
        return
    found = moves.setdefault(_cause(old, new, departed, gone), _Moves())
    found.left_isrs += len(gone)
    if old.leader == new.leader:
        return
    if new.leader == NO_LEADER:
        found.leaderless.append(place)
        return
    found.elected.append(place)
    if new.leader not in old.isr and new.leader not in old.eligible_leaders:
        found.unclean.append(place)


def _cause(old: Partition, new: Partition, departed: Mapping[int, str], gone: Sequence[int]) -> str:
    """Why the leader changed, or why replicas left the ISR."""
    if old.leader in departed:
        return departed[old.leader]
    if gone:
        return departed[gone[0]]
    if old.leader == NO_LEADER:
        return "a replica is available again"
    if old.leader not in new.replicas:
        return "reassignment"
    if old.leader not in new.isr:
        return f"broker {old.leader} left the ISR"
    if new.leader == new.replicas[0]:
        return "preferred leader"
    return "election"


def _election_events(cause: str, found: _Moves, took_ms: int | None) -> Iterator[LogEvent]:
    fields: dict[str, object] = {
        "cause": cause,
        "elected": len(found.elected),
        "without_leader": len(found.leaderless),
    }
    if found.left_isrs:
        fields["removed_from_isr"] = found.left_isrs
    if took_ms is not None:
        fields["ms"] = took_ms
    if found.elected:
        fields["examples"] = _examples(found.elected)
    if found.leaderless:
        fields["offline"] = _examples(found.leaderless)
    level = WARNING if found.leaderless else INFO
    yield LogEvent(level, "leaders were elected", fields)
    if found.unclean:
        yield LogEvent(
            WARNING,
            "unclean leader election: committed records may be lost",
            {
                "cause": cause,
                "partitions": len(found.unclean),
                "examples": _examples(found.unclean),
            },
        )


def _examples(places: Sequence[tuple[str, int]]) -> str:
    names = [f"{topic}-{index}" for topic, index in places[:MAX_EXAMPLES]]
    return examples(names, len(places))
