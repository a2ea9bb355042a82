"""The metadata of a flow's offsets marks its group, and nothing else does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.core.group_metadata import Progress, progress_metadata, progress_of


@given(st.integers(0, 2**62), st.text(max_size=200))
def test_the_progress_survives(batch_id: int, version: str) -> None:
    assert progress_of(progress_metadata(batch_id, version)) == Progress(batch_id, version)


def test_a_long_version_is_cut_to_what_brokers_accept() -> None:
    assert len(progress_metadata(1, "v" * 9999)) < 4096


@pytest.mark.parametrize(
    "metadata", ["", "x", "headrace.pipeline", "headrace.pipeline batch=x version=1", "a batch=1"]
)
def test_other_metadata_marks_no_pipeline(metadata: str) -> None:
    assert progress_of(metadata) is None
