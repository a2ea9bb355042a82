"""What tests of Kafka applications, and Headrace's own, are built from.

`Broker` is a real broker in a thread. Names load on first use, so that importing one part does
not load the others.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.testing.broker import Broker

__all__ = ["Broker"]

_HOMES = {"Broker": "headrace.testing.broker"}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    value: object = getattr(import_module(home), name)
    globals()[name] = value
    return value
