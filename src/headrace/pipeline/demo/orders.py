"""Orders of a small shop, as its website would send them. A few are invalid. Pure.

The same seed makes the same orders. Each order has the expected result of the pipeline, so that the
demo can check what it shows.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Final, NamedTuple

BROKEN_SHARE: Final = 0.02
LANDS: Final = ""
"""The value for an order without an error, which becomes a row."""

PRODUCTS: Final[Mapping[str, int]] = {
    "espresso-machine": 24900,
    "grinder": 8950,
    "kettle": 4490,
    "beans-1kg": 2190,
    "filters-100": 475,
    "cup": 1200,
    "scale": 3999,
}
"""Prices in cents."""
COUNTRIES: Final = ("DE", "DE", "DE", "FR", "FR", "ES", "IT", "NL", "AT", "PL")
MAX_LINES: Final = 4
MAX_QUANTITY: Final = 3
CUSTOMERS: Final = 2_000
FIRST_ID: Final = 100_000
STEP: Final = timedelta(seconds=7)


class Order(NamedTuple):
    """A record for the topic, and its expected error class."""

    key: bytes
    value: bytes
    error: str = LANDS


Fields = dict[str, object]


@dataclass(frozen=True, slots=True)
class Flaw:
    """A way to make an order invalid."""

    error: str
    spoil: Callable[[Fields, Random], bytes]


def _cut_off(fields: Fields, random: Random) -> bytes:
    """A value that ends early, as from an interrupted sender."""
    text = _encoded(fields)
    return text[: random.randrange(len(text) // 4, len(text) - 1)]


def _without_a_field(fields: Fields, random: Random) -> bytes:
    del fields[random.choice(("id", "customer", "amount"))]
    return _encoded(fields)


def _negative(fields: Fields, random: Random) -> bytes:
    """A negative amount, as from a refund in the wrong field."""
    amount = fields["amount"]
    assert isinstance(amount, float)
    return _encoded({**fields, "amount": -amount})


def _wrong_type(fields: Fields, random: Random) -> bytes:
    return _encoded({**fields, "amount": random.choice(("a lot", [12, 50], {"eur": 5}))})


FLAWS: Final = (
    Flaw("NotJson", _cut_off),
    Flaw("MissingField", _without_a_field),
    Flaw("ExpectationFailed", _negative),
    Flaw("SchemaMismatch", _wrong_type),
)


def orders(
    count: int, seed: int, began: datetime = datetime(2026, 1, 5, 8, tzinfo=UTC)
) -> Iterator[Order]:
    """Yields orders, with a few seconds of the shop's time between them."""
    random = Random(seed)  # noqa: S311 - a demo, not a secret
    for number in range(count):
        fields = _order(number, began + number * STEP, random)
        key = str(fields["customer"]).encode()
        if random.random() < BROKEN_SHARE:
            flaw = random.choice(FLAWS)
            yield Order(key, flaw.spoil(fields, random), flaw.error)
        else:
            yield Order(key, _encoded(fields))


def _order(number: int, placed: datetime, random: Random) -> Fields:
    lines = []
    cents = 0
    for product in random.sample(sorted(PRODUCTS), random.randint(1, MAX_LINES)):
        quantity = random.randint(1, MAX_QUANTITY)
        cents += PRODUCTS[product] * quantity
        lines.append({"product": product, "quantity": quantity, "price": PRODUCTS[product] / 100})
    return {
        "id": f"o-{FIRST_ID + number}",
        "customer": f"c-{random.randrange(CUSTOMERS):04}",
        "country": random.choice(COUNTRIES),
        "amount": cents / 100,
        "lines": lines,
        "placed_at": placed.isoformat().replace("+00:00", "Z"),
    }


def _encoded(fields: Fields) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode()
