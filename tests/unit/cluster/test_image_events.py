"""The events of a metadata change: brokers that joined or left, and elections by cause."""

from logging import INFO, WARNING

from headrace.cluster.image import MetadataImage
from headrace.cluster.image_events import events_between
from headrace.cluster.metadata_records import (
    BrokerFenced,
    BrokerLeaving,
    BrokerRegistered,
    BrokerUnregistered,
    ControllerElected,
    FencedReason,
    MetadataRecord,
    PartitionChanged,
    TopicCreated,
)
from headrace.cluster.topology import NO_LEADER, BrokerRegistration, Endpoint, Partition
from headrace.log_event import LogEvent

ORDERS = bytes(15) + b"\1"
FULL = Partition(replicas=(1, 2, 3), isr=(1, 2, 3), leader=1)
SOLE = Partition(replicas=(1,), isr=(1,), leader=1)


def broker(broker_id: int, epoch: int = 1) -> BrokerRegistration:
    endpoint = Endpoint("PLAINTEXT", "10.0.0.1", 9090 + broker_id)
    return BrokerRegistration(broker_id, epoch, (endpoint,))


def cluster(*partitions: Partition) -> MetadataImage:
    records: list[MetadataRecord] = [ControllerElected(3, 7)]
    records += [BrokerRegistered(broker(id_)) for id_ in (1, 2, 3)]
    records.append(TopicCreated("orders", ORDERS, partitions or (FULL,)))
    return MetadataImage().apply(records)


def events(
    before: MetadataImage, *records: MetadataRecord, took_ms: int | None = None
) -> list[LogEvent]:
    after = before.apply(records)
    return list(events_between(before, after, records, node_id=2, took_ms=took_ms))


def moved(index: int, old: Partition, leader: int, isr: tuple[int, ...]) -> PartitionChanged:
    new = old._replace(leader=leader, isr=isr, leader_epoch=old.leader_epoch + 1)
    return PartitionChanged(ORDERS, index, new)


def test_a_dead_broker_and_its_elections_are_two_lines() -> None:
    records = (
        BrokerFenced(1, FencedReason.PROCESS_DIED),
        moved(0, FULL, 2, (2, 3)),
        moved(1, FULL, 3, (2, 3)),
    )
    left, elections = events(cluster(FULL, FULL), *records, took_ms=12)
    assert left == LogEvent(
        WARNING,
        "a broker left",
        {"broker": 1, "epoch": 1, "cause": "its process died (fast failure detection)"},
    )
    assert elections == LogEvent(
        INFO,
        "leaders were elected",
        {
            "cause": "broker 1 left",
            "elected": 2,
            "without_leader": 0,
            "removed_from_isr": 2,
            "ms": 12,
            "examples": "orders-0, orders-1",
        },
    )


def test_partitions_without_a_leader_are_a_warning_with_their_names() -> None:
    records = (BrokerFenced(1, FencedReason.SESSION_ENDED), moved(0, SOLE, NO_LEADER, (1,)))
    left, elections = events(cluster(SOLE), *records)
    assert left.fields["cause"] == "its ZooKeeper session ended"
    assert (elections.level, elections.fields["offline"]) == (WARNING, "orders-0")
    assert (elections.fields["elected"], elections.fields["without_leader"]) == (0, 1)


def test_a_summary_names_five_partitions_and_counts_the_rest() -> None:
    image = cluster(*[FULL] * 30)
    records = [moved(index, FULL, 2, (2, 3)) for index in range(30)]
    _, elections = events(image, BrokerFenced(1), *records)
    assert elections.fields["examples"] == (
        "orders-0, orders-1, orders-2, orders-3, orders-4 and 25 more"
    )


def test_a_controlled_shutdown_is_no_warning() -> None:
    image = cluster()
    begins, elections = events(image, BrokerLeaving(1), moved(0, FULL, 2, (2, 3)))
    assert begins.sentence == "a broker begins its controlled shutdown"
    assert elections.fields["cause"] == "controlled shutdown of broker 1"
    (left,) = events(image.apply([BrokerLeaving(1)]), BrokerFenced(1, FencedReason.SESSION_ENDED))
    assert (left.level, left.fields["cause"]) == (INFO, "controlled shutdown")


def test_a_restarted_broker_left_and_joined() -> None:
    records = (BrokerFenced(1, FencedReason.RESTARTED), BrokerRegistered(broker(1, 5)))
    left, joined = events(cluster(), *records)
    assert left.fields["cause"] == "its process was replaced by a new one"
    assert joined == LogEvent(
        INFO,
        "a broker joined",
        {"broker": 1, "epoch": 5, "endpoints": "PLAINTEXT://10.0.0.1:9091"},
    )


def test_a_fenced_broker_whose_reason_is_unknown_was_fenced_by_the_controller() -> None:
    (left,) = events(cluster(), BrokerFenced(1))  # the controller is of an earlier release
    assert left.fields["cause"] == "the controller fenced it"


def test_an_unclean_election_is_a_warning_of_its_own() -> None:
    old = FULL._replace(isr=(1,))
    *_, unclean = events(cluster(old), BrokerFenced(1), moved(0, old, 2, (2,)))
    assert unclean.level == WARNING
    assert unclean.sentence == "unclean leader election: committed records may be lost"
    assert unclean.fields["examples"] == "orders-0"


def test_an_eligible_replica_outside_the_isr_leads_without_a_warning() -> None:
    old = FULL._replace(isr=(1,), eligible_leaders=(2,))
    assert len(events(cluster(old), BrokerFenced(1), moved(0, old, 2, (2,)))) == 2


def test_each_cause_of_elections_has_a_line() -> None:
    offline = FULL._replace(leader=NO_LEADER)
    second = FULL._replace(leader=2)
    elsewhere = Partition(replicas=(2, 3), isr=(2, 3), leader=2, leader_epoch=1)
    found = events(
        cluster(offline, FULL, second, FULL),
        moved(0, offline, 1, (1, 2, 3)),
        moved(1, FULL, 2, (2, 3)),
        moved(2, second, 1, (1, 2, 3)),
        PartitionChanged(ORDERS, 3, elsewhere),
    )
    assert [each.fields["cause"] for each in found] == [
        "a replica is available again",
        "broker 1 left the ISR",
        "preferred leader",
        "reassignment",
    ]


def test_a_change_of_the_isr_alone_is_the_leaders_to_log() -> None:
    assert events(cluster(), PartitionChanged(ORDERS, 0, FULL._replace(isr=(1, 2)))) == []


def test_a_new_controller_is_logged_by_all_others() -> None:
    image = cluster()
    (changed,) = events(image, ControllerElected(1, 8))
    assert changed == LogEvent(
        INFO, "the cluster has a new controller", {"controller": 1, "epoch": 8, "previous": 3}
    )
    assert events(image, ControllerElected(2, 8)) == []  # by itself


def test_a_reassignment_finishes_with_the_topics_last_partition() -> None:
    moving = FULL._replace(adding=(3,))
    image = cluster(moving, moving)
    first = PartitionChanged(ORDERS, 0, FULL)
    assert events(image, first) == []
    (finished,) = events(image.apply([first]), PartitionChanged(ORDERS, 1, FULL))
    assert finished.fields == {"topic": "orders"}


def test_an_unregistered_broker_is_logged() -> None:
    fenced = cluster().apply([BrokerFenced(1)])
    (gone,) = events(fenced, BrokerUnregistered(1))
    assert gone == LogEvent(INFO, "a broker was unregistered", {"broker": 1})
