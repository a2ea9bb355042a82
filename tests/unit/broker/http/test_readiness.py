"""Readiness and its reasons."""

import pytest

from headrace.broker.http.readiness import BrokerCondition, check_readiness

SINGLE = BrokerCondition(
    is_started=True,
    is_stopping=False,
    is_member=False,
    is_registered=False,
    is_fenced=False,
    has_store=False,
    offline_dirs=(),
    log_dirs=2,
    loading=(),
)
MEMBER = SINGLE._replace(is_member=True, is_registered=True, has_store=True)


@pytest.mark.parametrize("condition", [SINGLE, MEMBER])
def test_a_broker_in_order_is_ready(condition: BrokerCondition) -> None:
    found = check_readiness(condition)
    assert (found.is_ready, found.reasons) == (True, [])


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"is_started": False}, "is starting"),
        ({"is_stopping": True}, "is stopping"),
        ({"is_registered": False}, "not registered"),
        ({"is_fenced": True}, "fenced"),
        ({"offline_dirs": ("/a", "/b")}, "2 of 2 log directories are offline: /a, /b"),
    ],
)
def test_what_keeps_clients_away_makes_it_not_ready(
    changes: dict[str, object], reason: str
) -> None:
    found = check_readiness(MEMBER._replace(**changes))  # type: ignore[arg-type]
    assert not found.is_ready
    assert len(found.reasons) == 1
    assert reason in found.reasons[0]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"has_store": False}, "ZooKeeper is unreachable"),
        ({"offline_dirs": ("/a",)}, "1 of 2 log directories are offline"),
        ({"loading": ("__consumer_offsets-1",)}, "loading: __consumer_offsets-1"),
        ({"loading": tuple(map(str, range(50)))}, "and 45 more"),
    ],
)
def test_what_clients_survive_is_reported_only(changes: dict[str, object], reason: str) -> None:
    found = check_readiness(MEMBER._replace(**changes))  # type: ignore[arg-type]
    assert found.is_ready
    assert reason in found.reasons[0]


def test_the_json_has_the_reasons() -> None:
    found = check_readiness(SINGLE._replace(is_started=False)).as_json(7)
    assert (found["status"], found["broker"]) == ("not ready", 7)
    assert found["reasons"] == ["the broker is starting"]
