"""Brokers and clusters for the tests of Kafka applications.

`Broker` is a real broker in a thread, and `Cluster` is several of them that replicate. `Headrace`
is the helper of a test: it creates topics, produces, consumes and injects faults. `VirtualClock` is
a clock that the test moves. `allow` and `deny` create the ACLs of a secured broker.
`HeadraceTestCase` and `AsyncHeadraceTestCase` are for unittest,
`factories` is for pytest.

Each name is imported at first use, so that importing one part does not load the others.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.testing import factories
    from headrace.testing.acls import allow, deny
    from headrace.testing.broker import Broker
    from headrace.testing.cluster import Cluster
    from headrace.testing.helper import Headrace
    from headrace.testing.unittest_cases import AsyncHeadraceTestCase, HeadraceTestCase
    from headrace.testing.virtual_clock import VirtualClock

__all__ = [
    "AsyncHeadraceTestCase",
    "Broker",
    "Cluster",
    "Headrace",
    "HeadraceTestCase",
    "VirtualClock",
    "allow",
    "deny",
    "factories",
]

_HOMES = {
    "AsyncHeadraceTestCase": "headrace.testing.unittest_cases",
    "Broker": "headrace.testing.broker",
    "Cluster": "headrace.testing.cluster",
    "Headrace": "headrace.testing.helper",
    "HeadraceTestCase": "headrace.testing.unittest_cases",
    "VirtualClock": "headrace.testing.virtual_clock",
    "allow": "headrace.testing.acls",
    "deny": "headrace.testing.acls",
}


def __getattr__(name: str) -> object:
    if name == "factories":
        return import_module("headrace.testing.factories")
    home = _HOMES.get(name)
    if home is None:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    value: object = getattr(import_module(home), name)
    globals()[name] = value
    return value
