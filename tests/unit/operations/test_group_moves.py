"""A move's target is the requested offset, limited to the log, and says when it was limited."""

import pytest

from headrace.operations.group_moves import Target


@pytest.mark.parametrize(
    ("requested", "offset", "clamped"),
    [(3, 5, True), (5, 5, False), (10, 10, False), (99, 10, True)],
)
def test_a_target_outside_the_log_becomes_the_nearest_offset(
    requested: int, offset: int, clamped: bool
) -> None:
    target = Target(requested, 5, 10)
    assert (target.offset, target.is_clamped) == (offset, clamped)
