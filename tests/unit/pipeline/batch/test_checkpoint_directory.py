"""A flow's checkpoint stores its start and allows one run at a time."""

from pathlib import Path

import pytest

from headrace.client.results import TopicPartition
from headrace.pipeline.batch.checkpoint_directory import BEGINNING, Checkpoint, CheckpointError
from headrace.pipeline.batch.planner import StartPosition

BEGUN = StartPosition({"t": "id"}, {TopicPartition("t", 0): 7}, {"t": 3})


def test_a_started_batch_is_found_again(tmp_path: Path) -> None:
    assert Checkpoint(str(tmp_path / "c")).beginning() is None
    Checkpoint(str(tmp_path / "c")).save_beginning(BEGUN)
    assert Checkpoint(f"file://{tmp_path}/c").beginning() == BEGUN


def test_a_damaged_batch_start_is_reported_and_not_ignored(tmp_path: Path) -> None:
    checkpoint = Checkpoint(str(tmp_path))
    (tmp_path / BEGINNING).write_text("{")
    with pytest.raises(CheckpointError, match=BEGINNING):
        checkpoint.beginning()
    (tmp_path / BEGINNING).write_text('{"topic_ids": {}}')
    with pytest.raises(CheckpointError, match="damaged"):
        checkpoint.beginning()


def test_a_second_run_is_rejected(tmp_path: Path) -> None:
    checkpoint = Checkpoint(str(tmp_path))
    assert not checkpoint.is_locked()
    with checkpoint.locked("orders"):
        assert checkpoint.is_locked()
        with (
            pytest.raises(CheckpointError, match="already running"),
            checkpoint.locked("orders"),
        ):
            pass
    assert not checkpoint.is_locked()


def test_staged_files_of_another_attempt_are_removed(tmp_path: Path) -> None:
    checkpoint = Checkpoint(str(tmp_path))
    (checkpoint.fresh_staging(4) / "left.parquet").write_text("")
    assert list(checkpoint.fresh_staging(4).iterdir()) == []
    checkpoint.clear_staging()
    assert not checkpoint.staging(4).exists()


def test_a_restarted_flow_keeps_its_history(tmp_path: Path) -> None:
    checkpoint = Checkpoint(str(tmp_path))
    checkpoint.save_beginning(BEGUN)
    checkpoint.history.mkdir()
    (tmp_path / "schemas").mkdir()
    checkpoint.forget()
    assert checkpoint.beginning() is None
    assert checkpoint.history.exists()
    assert not (tmp_path / "schemas").exists()


def test_a_bucket_cannot_be_the_checkpoint_directory() -> None:
    with pytest.raises(CheckpointError, match="not a bucket"):
        Checkpoint("s3://bucket/c")


def test_a_directory_belongs_to_the_flow_that_created_it(tmp_path: Path) -> None:
    """Two specs in one folder share a checkpoint directory unless they name two."""
    checkpoint = Checkpoint(str(tmp_path / "checkpoints"))
    with checkpoint.locked("orders"):
        pass
    with (
        pytest.raises(CheckpointError, match=r"of orders, and this is customers: give it"),
        checkpoint.locked("customers"),
    ):
        pass
    with checkpoint.locked("orders"):
        pass
