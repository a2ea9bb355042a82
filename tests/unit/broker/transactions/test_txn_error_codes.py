"""The transaction coordinator's errors, as producers of each version know them."""

import pytest

from headrace.broker.transactions.txn_error_codes import (
    fenced_error,
    produce_error,
    verification_error,
)
from headrace.protocol.errors import ErrorCode


def test_old_versions_get_invalid_producer_epoch_in_place_of_fenced() -> None:
    fenced = ErrorCode.PRODUCER_FENCED
    assert fenced_error(fenced, knows_fenced=True) is fenced
    assert fenced_error(fenced, knows_fenced=False) is ErrorCode.INVALID_PRODUCER_EPOCH
    other = ErrorCode.INVALID_TXN_STATE
    assert fenced_error(other, knows_fenced=False) is other


def test_verification_never_answers_producer_fenced() -> None:
    for knows in (False, True):
        shown = verification_error(ErrorCode.PRODUCER_FENCED, knows_abortable=knows)
        assert shown is ErrorCode.INVALID_PRODUCER_EPOCH


@pytest.mark.parametrize(
    ("knows", "shown"),
    [(True, ErrorCode.TRANSACTION_ABORTABLE), (False, ErrorCode.INVALID_TXN_STATE)],
)
def test_abortable_is_shown_to_versions_that_know_it(knows: bool, shown: ErrorCode) -> None:
    code = ErrorCode.TRANSACTION_ABORTABLE
    assert verification_error(code, knows_abortable=knows) is shown
    assert produce_error(code, adds=True, knows_abortable=knows) is shown


def test_produce_retries_while_the_coordinator_is_unavailable() -> None:
    retriable = ErrorCode.NOT_ENOUGH_REPLICAS
    for code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
        assert produce_error(code, adds=True, knows_abortable=True) is retriable
    still_ending = ErrorCode.CONCURRENT_TRANSACTIONS
    assert produce_error(still_ending, adds=True, knows_abortable=True) is still_ending
    assert produce_error(still_ending, adds=False, knows_abortable=True) is retriable
