"""Why a replica is not in sync, how far it is behind and for how long, from the reports."""

from headrace.cli.cluster.broker_probe import BrokerReport
from headrace.cli.cluster.out_of_sync import FirstSeen, OutOfSyncReplica, out_of_sync_replicas
from headrace.cli.cluster.status import Overview
from headrace.client.admin.brokers import BrokerInfo, ClusterInfo, StoreConnection
from headrace.client.admin.log_dirs import FollowerLag, LogDirInfo, ReplicaSize
from headrace.client.metadata import PartitionInfo, TopicInfo
from headrace.client.results import Refusal, TopicPartition
from headrace.protocol.errors import ErrorCode

PARTITION = TopicPartition("t", 0)
OFFLINE = Refusal(ErrorCode.KAFKA_STORAGE_ERROR, "offline")
GB = 10**9


def overview(*, fenced: int | None = None, registered: tuple[int, ...] = (1, 2)) -> Overview:
    brokers = tuple(
        BrokerInfo(each, "h", 9092 + each, fenced=each == fenced) for each in registered
    )
    topic = TopicInfo("t", bytes(16), False, {0: PartitionInfo(1, 0, (1, 2), (1,))})
    return Overview(ClusterInfo("c", 1, brokers), (topic,))


def directory(
    replica: ReplicaSize | None = None, *, problem: Refusal | None = None, free: int = GB
) -> LogDirInfo:
    held = {} if replica is None else {PARTITION: replica}
    return LogDirInfo("/d", problem, 2 * GB, free, held)


def headrace(replica: ReplicaSize | None = None, **others: object) -> BrokerReport:
    store = StoreConnection("zookeeper", None)
    return BrokerReport(directories=(directory(replica, **others),), store=store)  # type: ignore[arg-type]


def leader(lag: FollowerLag) -> BrokerReport:
    return headrace(ReplicaSize(5000, 0, False, 100, (lag,)))


def only(reports: dict[int, BrokerReport], of: Overview | None = None) -> OutOfSyncReplica:
    (found,) = out_of_sync_replicas(of or overview(), reports, {})
    return found


BEHIND = FollowerLag(2, 40, 3000, 12.5, is_minimum=False)


def test_a_headrace_leader_tells_the_lag_and_the_age_of_its_follower() -> None:
    found = only({1: leader(BEHIND), 2: headrace(ReplicaSize(2000, 0, False))})
    assert found == OutOfSyncReplica(PARTITION, 2, "catching up", 60, 3000, 12.5)


def test_a_dead_follower_keeps_the_lag_that_its_leader_knows() -> None:
    found = only({1: leader(BEHIND)}, overview(fenced=2))
    assert (found.reason, found.lag, found.lag_bytes) == ("broker 2 is down", 60, 3000)
    found = only({1: leader(BEHIND)}, overview(registered=(1,)))
    assert found.reason == "broker 2 is down"


def test_without_a_fetch_from_this_leader_the_lag_is_unknown_and_the_age_a_minimum() -> None:
    found = only({1: leader(FollowerLag(2, None, None, 7.0, is_minimum=True))}, overview(fenced=2))
    assert found[3:] == (None, None, 7.0, True)


def test_on_other_brokers_the_two_logs_are_compared() -> None:
    apache_leader = BrokerReport(
        directories=(directory(ReplicaSize(5000, 0, False)),), ends={PARTITION: 100}
    )
    follower = BrokerReport(
        directories=(directory(ReplicaSize(4000, 0, False)),), ends={PARTITION: 100}
    )
    found = only({1: apache_leader, 2: follower})
    assert found == OutOfSyncReplica(PARTITION, 2, "caught up, joins soon", 0, 1000)


def test_the_reason_is_the_cause_at_the_follower() -> None:
    reports = {1: leader(BEHIND)}
    silent = {**reports, 2: BrokerReport(failure="no response")}
    assert only(silent).reason == "broker 2 does not answer"
    offline = {**reports, 2: headrace(problem=OFFLINE)}
    assert only(offline).reason == "log directory /d is offline"
    full = {**reports, 2: headrace(ReplicaSize(2000, 0, False), free=4096)}
    assert only(full).reason == "the disk of /d is full"
    assert only({**reports, 2: headrace()}).reason == "broker 2 has no log of it yet"
    (adding,) = out_of_sync_replicas(overview(), silent, {PARTITION: (2,)})
    assert adding.reason == "being added by a reassignment"


def test_an_age_that_no_broker_tells_is_measured_while_watching() -> None:
    unknown = OutOfSyncReplica(PARTITION, 2, "not known")
    seen = FirstSeen()
    assert seen.complete([unknown], 100.0) == [unknown]
    (later,) = seen.complete([unknown], 104.0)
    assert (later.age_s, later.age_is_minimum) == (4.0, True)
    assert seen.complete([], 105.0) == []  # it caught up: a later lag is a new one
    assert seen.complete([unknown], 106.0) == [unknown]
    told = unknown._replace(age_s=9.0)
    assert seen.complete([told], 110.0) == [told]
