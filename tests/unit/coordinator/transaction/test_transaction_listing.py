"""ListTransactions and DescribeTransactions: filters as Kafka's."""

import pytest

from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.transaction.transaction import TransactionState
from headrace.coordinator.transaction.transaction_listing import TransactionFilter, describe
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.list_transactions import ListTransactionsRequest
from support.groups.transactions import END_V1, TOPIC_0, TOPIC_1, TransactionDriver


@pytest.fixture
def driver() -> TransactionDriver:
    """Three ids: `open` for 5 s, `done` committed, `idle` without a transaction."""
    driver = TransactionDriver()
    driver.init("idle")
    done = driver.init("done")
    driver.add(done, transactional_id="done")
    driver.end(done, transactional_id="done", version=END_V1)
    driver.write_markers()
    driver.advance(1_000)
    driver.add(driver.init("open"), [TOPIC_1, TOPIC_0], transactional_id="open")
    driver.advance(5_000)
    return driver


def listed(driver: TransactionDriver, **filters: object) -> dict[str, str]:
    wanted = TransactionFilter(ListTransactionsRequest(**filters))  # type: ignore[arg-type]
    found = wanted.select(driver.shard.transactions.values(), driver.now_ms)
    return {one.transactional_id: one.transaction_state for one in found}


def test_without_filters_all_are_listed(driver: TransactionDriver) -> None:
    assert listed(driver) == {"idle": "Empty", "done": "CompleteCommit", "open": "Ongoing"}


def test_filters_by_state_producer_duration_and_pattern(driver: TransactionDriver) -> None:
    assert set(listed(driver, state_filters=["Ongoing", "Empty"])) == {"open", "idle"}
    producer_id = driver.state("done").producer_id
    assert set(listed(driver, producer_id_filters=[producer_id])) == {"done"}
    assert set(listed(driver, state_filters=["Ongoing"], duration_filter=4_999)) == {"open"}
    assert set(listed(driver, state_filters=["Ongoing"], duration_filter=5_000)) == set()
    assert set(listed(driver, transactional_id_pattern="[od].*e.*")) == {"open", "done"}
    assert set(listed(driver, transactional_id_pattern="pen")) == set()
    assert len(listed(driver, transactional_id_pattern="")) == 3


def test_unknown_states_are_named_and_match_nothing(driver: TransactionDriver) -> None:
    wanted = TransactionFilter(ListTransactionsRequest(state_filters=["Unheard"]))
    assert wanted.unknown_states == ["Unheard"]
    assert listed(driver, state_filters=["Unheard"]) == {}


def test_a_pattern_that_is_none_is_refused() -> None:
    with pytest.raises(CoordinatorError) as raised:
        TransactionFilter(ListTransactionsRequest(transactional_id_pattern="(a"))
    assert raised.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION


def test_a_description_has_the_partitions_by_topic(driver: TransactionDriver) -> None:
    shown = describe(driver.shard.find("open"))
    assert (shown.transaction_state, shown.transaction_start_time_ms) == (
        "Ongoing",
        driver.now_ms - 5_000,
    )
    assert [(topic.topic, topic.partitions) for topic in shown.topics] == [("orders", [0, 1])]


def test_unknown_ids_are_not_found(driver: TransactionDriver) -> None:
    for transactional_id, code in (
        ("nobody", ErrorCode.TRANSACTIONAL_ID_NOT_FOUND),
        ("", ErrorCode.INVALID_REQUEST),
    ):
        with pytest.raises(CoordinatorError) as raised:
            driver.shard.find(transactional_id)
        assert raised.value.code is code


def test_every_state_has_kafkas_name() -> None:
    assert [state.title for state in TransactionState] == [
        "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort",
        "Dead", "PrepareEpochFence",
    ]  # fmt: skip
