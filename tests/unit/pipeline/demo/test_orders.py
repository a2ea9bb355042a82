"""The demo's orders are the same for a seed, mostly good, and broken in known ways."""

import json
from collections import Counter

import pytest

from headrace.pipeline.demo.orders import FLAWS, LANDS, Order, orders

COUNT = 5_000


@pytest.fixture(scope="module")
def made() -> list[Order]:
    return list(orders(COUNT, seed=1))


def fields_of(order: Order) -> object:
    try:
        return json.loads(order.value)
    except ValueError:
        return None


def test_a_seed_makes_the_same_orders(made: list[Order]) -> None:
    assert list(orders(COUNT, seed=1)) == made
    assert list(orders(COUNT, seed=2)) != made


def test_good_orders_have_all_fields_and_the_sum_of_their_lines(made: list[Order]) -> None:
    for order in made:
        if order.error != LANDS:
            continue
        fields = json.loads(order.value)
        assert set(fields) == {"id", "customer", "country", "amount", "lines", "placed_at"}
        lines = sum(round(line["price"] * 100) * line["quantity"] for line in fields["lines"])
        assert round(fields["amount"] * 100) == lines > 0


def test_every_kind_of_broken_order_occurs(made: list[Order]) -> None:
    kinds = Counter(order.error for order in made)
    assert set(kinds) == {LANDS, *(flaw.error for flaw in FLAWS)}
    assert COUNT * 0.01 < COUNT - kinds[LANDS] < COUNT * 0.04


def test_a_broken_order_has_the_stated_defect(made: list[Order]) -> None:
    for order in made:
        fields = fields_of(order)
        match order.error:
            case "NotJson":
                assert fields is None
            case "MissingField":
                assert isinstance(fields, dict)
                assert len(fields.keys() & {"id", "customer", "amount"}) == 2
            case "SchemaMismatch":
                assert isinstance(fields, dict)
                assert not isinstance(fields["amount"], float)
            case "ExpectationFailed":
                assert isinstance(fields, dict)
                assert fields["amount"] < 0
