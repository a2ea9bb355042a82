"""The rows of brokers: controller, replicas that are behind, partitions that they should lead."""

from headrace.console.cluster.snapshot import (
    BrokerState,
    ClusterSnapshot,
    LogDirState,
    PartitionState,
    topic_state,
)
from headrace.console.screens.brokers import disk_level, rows_of


def snapshot(*brokers: BrokerState) -> ClusterSnapshot:
    partitions = (
        PartitionState(0, 2, 5, (1, 2), (2,)),
        PartitionState(1, 2, 5, (2, 1), (1, 2)),
        PartitionState(2, -1, 5, (1,), (1,)),
    )
    topics = {"t": topic_state("t", bytes(16), is_internal=False, partitions=partitions)}
    return ClusterSnapshot(0, 0.0, 0.0, None, 2, brokers, topics, {})


def test_a_broker_shows_what_it_should_lead_and_what_is_behind() -> None:
    disks = (
        LogDirState("/a", None, 100, 40, 1, 10),
        LogDirState("/b", None, 100, 10, 1, 10),
        LogDirState("/c", "offline", None, None, 0, 0),
    )
    behind, controller = rows_of(
        snapshot(
            BrokerState(1, "a", 1, None, fenced=False, log_dirs=disks),
            BrokerState(2, "b", 1, None, fenced=False),
        )
    )
    assert (behind.out_of_sync, behind.not_preferred, behind.is_controller) == (1, 1, False)
    assert behind.free_share is not None
    assert round(behind.free_share, 2) == 0.10
    assert (behind.level, behind.state) == ("warning", "Replicas out of sync")
    assert (controller.is_controller, controller.level, controller.free_share) == (True, "ok", None)


def test_a_fenced_or_silent_broker_is_critical() -> None:
    fenced, silent = rows_of(
        snapshot(
            BrokerState(1, "a", 1, None, fenced=True),
            BrokerState(2, "b", 1, None, fenced=False, problem="timed out"),
        )
    )
    assert [each.level for each in (fenced, silent)] == ["critical", "critical"]
    assert [each.state for each in (fenced, silent)] == ["Fenced", "Does not answer"]


def test_a_full_disk_has_a_level() -> None:
    assert [disk_level(share) for share in (None, 0.5, 0.9, 0.97)] == [
        "", "ok", "warning", "critical",
    ]  # fmt: skip
