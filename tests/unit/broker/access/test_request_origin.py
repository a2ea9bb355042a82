"""A forwarded request names its client in the client id."""

import pytest

from headrace.broker.access.request_origin import MAX_CHARS, ORIGIN_MARK, origin_of, parse_origin


@pytest.mark.parametrize("client_id", ["adminclient-1", "", "one for all at home", "x" * MAX_CHARS])
def test_the_client_is_found_again(client_id: str) -> None:
    text = f"headrace-broker-3{ORIGIN_MARK}{origin_of(client_id, '10.0.0.9')}"
    assert parse_origin(text) == (client_id, "10.0.0.9")


def test_a_long_client_id_is_cut() -> None:
    assert len(origin_of("x" * 30_000, "::1")) < 2 * MAX_CHARS


@pytest.mark.parametrize("client_id", ["headrace-broker-3", "", "headrace-broker-3 for nobody"])
def test_a_request_of_the_broker_itself_has_no_client(client_id: str) -> None:
    assert parse_origin(client_id) is None
