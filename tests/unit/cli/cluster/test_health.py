"""The verdict: unavailable if clients fail now, degraded if something has failed, else healthy."""

import pytest

from headrace.cli.cluster.broker_probe import BrokerReport
from headrace.cli.cluster.health import Health, Verdict, assess
from headrace.cli.cluster.status import Overview
from headrace.cli.exit_codes import ExitCode
from headrace.client.admin.brokers import BrokerInfo, ClusterInfo, StoreConnection
from headrace.client.admin.log_dirs import LogDirInfo
from headrace.client.metadata import PartitionInfo, TopicInfo
from headrace.client.results import Refusal, TopicPartition
from headrace.protocol.errors import ErrorCode

PARTITION = TopicPartition("t", 0)
OFFLINE = Refusal(ErrorCode.KAFKA_STORAGE_ERROR, "offline")


def overview(
    isr: tuple[int, ...] = (1, 2),
    leader: int = 1,
    *,
    controller: int = 1,
    fenced: int | None = None,
) -> Overview:
    brokers = tuple(BrokerInfo(each, "h", 1, fenced=each == fenced) for each in (1, 2))
    topic = TopicInfo("t", bytes(16), False, {0: PartitionInfo(leader, 0, (1, 2), isr)})
    return Overview(ClusterInfo("c", controller, brokers), (topic,))


def report(
    *, usable: int = 10**9, problem: Refusal | None = None, lost_s: float | None = None
) -> BrokerReport:
    directory = LogDirInfo("/d", problem, 2 * 10**9, usable, {})
    return BrokerReport(directories=(directory,), store=StoreConnection("zookeeper", lost_s))


FINE = {1: report(), 2: report()}


def texts(health: Health) -> list[str]:
    return [problem.text for problem in health.problems]


def test_a_cluster_without_problems_is_healthy() -> None:
    health = assess(overview(), FINE)
    assert health.verdict is Verdict.HEALTHY
    assert health.sentence == (
        "healthy: every partition has a leader, and every replica is in sync"
    )


@pytest.mark.parametrize(
    ("verdict", "code"),
    [(Verdict.HEALTHY, 0), (Verdict.DEGRADED, 6), (Verdict.UNAVAILABLE, 7)],
)
def test_each_verdict_has_its_exit_code(verdict: Verdict, code: int) -> None:
    assert verdict.exit_code == code
    assert ExitCode.UNREACHABLE == 5


def test_a_dead_broker_is_named_before_its_partitions() -> None:
    health = assess(overview((1,), fenced=2), {1: report()})
    assert health.verdict is Verdict.DEGRADED
    assert health.reason == "broker 2 is down; 1 of 1 partition is under-replicated"


def test_a_partition_without_a_leader_makes_the_cluster_unavailable() -> None:
    health = assess(overview((2,), leader=-1, fenced=2), {1: report()})
    assert health.verdict is Verdict.UNAVAILABLE
    assert health.reason == "1 partition has no leader: t-0; broker 2 is down"


def test_a_silent_leader_makes_the_cluster_unavailable_a_silent_follower_does_not() -> None:
    silent = BrokerReport(failure="no response")
    health = assess(overview(), {1: silent, 2: report()})
    assert health.sentence == "unavailable: broker 1 does not answer and leads 1 partition"
    health = assess(overview(), {1: report(), 2: silent})
    assert health.sentence == "degraded: broker 2 does not answer"


def test_too_few_in_sync_replicas_refuse_writes() -> None:
    health = assess(overview((1,)), FINE, under_min_isr={PARTITION})
    assert health.verdict is Verdict.UNAVAILABLE
    assert "refuses writes with acks=all" in health.reason


def test_a_lost_zookeeper_and_a_missing_controller_are_reported_with_their_effect() -> None:
    health = assess(overview(controller=-1), {1: report(lost_s=40.2), 2: report(lost_s=39.0)})
    assert health.verdict is Verdict.DEGRADED
    zookeeper, controller = texts(health)
    assert zookeeper == (
        "brokers 1, 2 have had no connection to ZooKeeper for 40 s: leaders still serve, but "
        "metadata cannot change"
    )
    assert controller.startswith("there is no controller")


def test_failed_and_full_disks_are_named() -> None:
    health = assess(overview(), {1: report(), 2: report(problem=OFFLINE)})
    assert health.sentence == "degraded: log directory /d of broker 2 is offline"
    health = assess(overview(), {1: report(), 2: report(usable=4096)})
    assert health.sentence == (
        "degraded: the disk of /d of broker 2 is full (4.1 kB of 2.0 GB free)"
    )
    health = assess(overview(), {1: report(usable=0), 2: report()})
    assert health.verdict is Verdict.UNAVAILABLE  # it leads, and has no other directory


def test_a_replica_that_a_reassignment_adds_is_no_problem() -> None:
    assert assess(overview((1,)), FINE, adding={PARTITION: (2,)}).verdict is Verdict.HEALTHY
    assert assess(overview((1,)), FINE, adding={PARTITION: (3,)}).verdict is Verdict.DEGRADED
