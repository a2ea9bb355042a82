"""A transaction has an age only while it is open."""

from headrace.client.admin.transactions import ListedTransaction, TransactionDescription
from headrace.console.screens.transactions import row_of


def described(state: str, start_ms: int) -> TransactionDescription:
    return TransactionDescription("id", 1, 0, state, 60_000, start_ms, ())


LISTED = ListedTransaction("id", 1, "Ongoing", 1)


def test_an_open_transaction_is_overdue_after_its_timeout() -> None:
    young = row_of(LISTED, described("Ongoing", 100_000), 150_000)
    old = row_of(LISTED, described("Ongoing", 100_000), 170_000)
    assert (young.age_s, young.is_overdue) == (50.0, False)
    assert (old.age_s, old.is_overdue) == (70.0, True)


def test_an_ended_transaction_has_no_age() -> None:
    row = row_of(LISTED, described("CompleteCommit", 100_000), 900_000)
    assert row.age_s is None
    assert not row.is_overdue
    assert row_of(LISTED, None, 900_000).age_s is None
