"""Test cases for unittest: one broker for each class, without topics left by earlier tests.

class OrdersTest(headrace.testing.HeadraceTestCase):
    def test_orders_arrive(self) -> None:
        self.headrace.produce("orders", "one")
"""

import unittest
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, ClassVar

from headrace.security.authorization.acl import Acl
from headrace.testing.broker import Broker
from headrace.testing.defaults import TEST_SETTINGS
from headrace.testing.helper import Headrace
from headrace.testing.setting_values import SettingValue, setting_texts
from headrace.testing.virtual_clock import VirtualClock

if TYPE_CHECKING:
    from headrace.testing.security import SecurityName, Users


class _WithBroker(unittest.TestCase):
    """The common part of both test case classes."""

    settings: ClassVar[Mapping[str, SettingValue]] = {}
    """Broker settings by Kafka's names."""
    virtual_clock: ClassVar[bool] = False
    """Whether time passes only with `self.headrace.clock.advance`."""
    security: ClassVar["SecurityName | None"] = None
    """The security of the broker, such as "sasl_ssl"."""
    users: ClassVar["Users"] = ()
    """The users with their passwords, or only their names."""
    acls: ClassVar[Iterable[Acl]] = ()
    """What the users may do."""
    broker: ClassVar[Broker]
    headrace: Headrace

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.broker = Broker(
            settings=TEST_SETTINGS | setting_texts(cls.settings),
            clock=VirtualClock() if cls.virtual_clock else None,
            security=cls.security,
            users=cls.users,
            acls=cls.acls,
        )
        cls.enterClassContext(cls.broker)

    def setUp(self) -> None:
        super().setUp()
        self.headrace = self.broker.headrace
        self.headrace.begin()
        self.addCleanup(self.headrace.clean)


class HeadraceTestCase(_WithBroker):
    """A unittest class with one broker. `self.headrace` is its helper; each test starts without
    topics."""


class AsyncHeadraceTestCase(_WithBroker, unittest.IsolatedAsyncioTestCase):
    """The same for `async def` tests. `self.headrace.aio` does not block their event loop."""
