"""The verdict names each cause, the worst first."""

from dataclasses import replace

from headrace.console.cluster.snapshot import (
    BrokerState,
    ClusterSnapshot,
    LogDirState,
    PartitionState,
    topic_state,
)
from headrace.console.cluster.verdict import CRITICAL, OK, WARNING, verdict_of

GIB = 2**30
DISK = LogDirState("/data", None, 100 * GIB, 50 * GIB, 1, 1)
HEALTHY = ClusterSnapshot(
    taken_ms=0,
    taken_s=0.0,
    duration_s=0.0,
    cluster_id="c",
    controller_id=1,
    brokers=(BrokerState(1, "h", 1, None, fenced=False, log_dirs=(DISK,)),),
    topics={},
    groups={},
)


def with_partition(**changes: object) -> ClusterSnapshot:
    partition = PartitionState(0, 1, 0, (1, 2), (1, 2))._replace(**changes)  # type: ignore[arg-type]
    return replace(HEALTHY, topics={"t": topic_state("t", b"", False, (partition,))})


def test_a_healthy_cluster_has_no_reasons() -> None:
    assert verdict_of(HEALTHY)[::2] == (OK, ())


def test_no_answer_at_all_is_critical() -> None:
    verdict = verdict_of(None, "connection refused")
    assert verdict.level == CRITICAL
    assert verdict.reasons[0].text == "connection refused"


def test_under_replication_is_a_warning_and_a_missing_leader_is_critical() -> None:
    assert verdict_of(with_partition(isr=(1,))).level == WARNING
    verdict = verdict_of(with_partition(leader=-1, isr=()))
    assert [reason.level for reason in verdict.reasons] == [CRITICAL, WARNING]
    assert "without a leader in t" in verdict.reasons[0].text


def test_each_broker_disk_and_controller_problem_is_named() -> None:
    for change, text in (
        ({"controller_id": -1}, "no controller"),
        ({"brokers": (replace(HEALTHY.brokers[0], fenced=True),)}, "is fenced"),
        ({"brokers": (replace(HEALTHY.brokers[0], problem="timed out"),)}, "timed out"),
        (
            {
                "brokers": (
                    replace(HEALTHY.brokers[0], log_dirs=(DISK._replace(usable_bytes=GIB),)),
                )
            },
            "99% full",
        ),
        (
            {"brokers": (replace(HEALTHY.brokers[0], log_dirs=(DISK._replace(problem="I/O"),)),)},
            "offline: I/O",
        ),
    ):
        verdict = verdict_of(replace(HEALTHY, **change))  # type: ignore[arg-type]
        assert verdict.level == CRITICAL
        assert text in verdict.reasons[0].text
