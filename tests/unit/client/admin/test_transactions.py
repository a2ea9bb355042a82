"""Only an open transaction has an age."""

import pytest

from headrace.client.admin.transactions import TransactionDescription


@pytest.mark.parametrize(
    ("state", "start_ms", "age_ms"),
    [
        ("Ongoing", 4_000, 1_000),
        ("PrepareAbort", 4_000, 1_000),
        ("Ongoing", 6_000, 0),  # the coordinator's clock is ahead
        ("CompleteCommit", 4_000, None),  # coordinators keep the start of an ended transaction
        ("CompleteAbort", 4_000, None),
        ("Empty", -1, None),
    ],
)
def test_the_age_of_a_transaction(state: str, start_ms: int, age_ms: int | None) -> None:
    found = TransactionDescription("t", 1, 0, state, 60_000, start_ms, ())
    assert found.open_for_ms(5_000) == age_ms
