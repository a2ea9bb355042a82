"""Planted bugs change only the intended behaviour."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

import pytest

from headrace.replication.replica import Replica
from headrace.testing.simulation.checks.fetch_audit import SERVED, FetchAudit
from headrace.testing.simulation.checks.history import Violation
from headrace.testing.simulation.planted_bugs import PLANTED, check_takes_the_same, planted


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_has_the_signature_of_the_replaced_function(name: str) -> None:
    with planted(name):  # raises TypeError otherwise
        pass


def original(one: int, two: int = 2, *, three: int, four: int = 4) -> None: ...


def takes_less(one: int, *, three: int, four: int = 4) -> None: ...


def takes_one_more(one: int, two: int, five: int, *, three: int, four: int = 4) -> None: ...


def knows_fewer_names(one: int, two: int = 2, *, three: int) -> None: ...


def asks_for_what_may_be_left_out(one: int, two: int, *, three: int, four: int = 4) -> None: ...


def takes_anything(one: int, *args: int, **named: int) -> None: ...


@pytest.mark.parametrize(
    "replacement",
    [takes_less, takes_one_more, knows_fewer_names, asks_for_what_may_be_left_out],
)
def test_a_replacement_with_another_signature_is_reported(
    replacement: Callable[..., None],
) -> None:
    with pytest.raises(TypeError):
        check_takes_the_same(original, replacement)


def test_a_replacement_may_have_more_parameters() -> None:
    check_takes_the_same(original, takes_anything)


def a_replica(epoch: int) -> Replica:
    return cast("Replica", SimpleNamespace(topic="t", index=0, epoch=epoch))


@pytest.mark.parametrize("named", [-1, 5])
def test_a_fetch_with_the_leaders_epoch_or_without_one_may_be_served(named: int) -> None:
    witness = FetchAudit()
    witness.served(a_replica(5), named, "somebody")
    witness.check()


@pytest.mark.parametrize("named", [4, 6])
def test_serving_a_fetch_of_another_epoch_is_reported(named: int) -> None:
    witness = FetchAudit()
    witness.served(a_replica(5), named, "somebody")
    with pytest.raises(Violation) as found:
        witness.check()
    assert found.value.rule == SERVED
