"""A full disk counts only if writes keep failing for a while."""

from headrace.broker.replication.full_disk_detector import PATIENCE_S, FullDiskDetector


def test_a_log_counts_after_its_disk_has_failed_for_a_while() -> None:
    detector = FullDiskDetector()
    assert detector.update({"a": {"t-0": 1}}, 0.0) == set()
    assert detector.update({"a": {"t-0": 5}}, PATIENCE_S / 2) == set()
    assert detector.update({"a": {"t-0": 9}}, PATIENCE_S) == {"t-0"}
    assert detector.update({"a": {}}, PATIENCE_S + 1) == set()
    assert detector.update({"a": {"t-0": 20}}, PATIENCE_S + 2) == set()


def test_the_next_log_on_a_full_disk_counts_immediately() -> None:
    detector = FullDiskDetector()
    detector.update({"a": {"t-0": 1}, "b": {}}, 0.0)
    detector.update({"a": {"t-0": 9}, "b": {}}, PATIENCE_S)
    refusals = {"a": {"t-0": 10, "t-1": 1}, "b": {"t-2": 1}}
    assert detector.update(refusals, PATIENCE_S + 1) == {"t-0", "t-1"}


def test_a_log_without_writes_does_not_count() -> None:
    detector = FullDiskDetector()
    assert detector.update({"a": {"t-0": 1}}, 0.0) == set()
    assert detector.update({"a": {"t-0": 1}}, 10 * PATIENCE_S) == set()


def test_a_successful_write_restarts_the_period() -> None:
    detector = FullDiskDetector()
    detector.update({"a": {"t-0": 5}}, 0.0)
    assert detector.update({"a": {"t-0": 2}}, PATIENCE_S) == set()
    assert detector.update({"a": {"t-0": 3}}, 1.5 * PATIENCE_S) == set()
    assert detector.update({"a": {"t-0": 4}}, 2 * PATIENCE_S) == {"t-0"}
