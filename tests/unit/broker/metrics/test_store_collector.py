"""The connection to the metadata store, as series."""

import pytest

from headrace.broker.metrics.store_collector import StoreCollector


class Member:
    def __init__(self, disconnected_s: float | None) -> None:
        self.store_disconnected_s = disconnected_s


class Host:
    def __init__(self, member: Member | None) -> None:
        self.member = member


@pytest.mark.parametrize(
    ("member", "values"),
    [(None, [1, 0.0]), (Member(None), [1, 0.0]), (Member(2.5), [0, 2.5])],
    ids=["standalone", "connected", "disconnected"],
)
def test_the_connection_and_the_time_without_it(member: Member | None, values: list[float]) -> None:
    families = list(StoreCollector(Host(member)).collect())
    assert [next(iter(family.samples))[1] for family in families if family] == values
