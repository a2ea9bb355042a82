"""A broker that runs outside of the test process."""

import time
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, NoReturn

from headrace.client.login.security import security_of

if TYPE_CHECKING:
    from headrace.testing.helper import Headrace
    from headrace.testing.trouble import Trouble
    from headrace.testing.virtual_clock import VirtualClock


class NotOurs(RuntimeError):
    """The feature needs a broker that `headrace.testing` has started."""


class ExternalBroker:
    """Any Kafka cluster, by its bootstrap servers and client settings such as sasl.username."""

    def __init__(self, bootstrap_servers: str, settings: Mapping[str, str] | None = None) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.client_security = security_of(settings or {})
        self._settings = dict(settings or {})

    def client_config(self, user: str | None = None) -> dict[str, str]:
        """The settings that this object was created with."""
        if user is not None:
            self._refuse("users")
        return {**self._settings, "bootstrap.servers": self.bootstrap_servers}

    @cached_property
    def headrace(self) -> "Headrace":
        """The helper for tests."""
        from headrace.testing.helper import Headrace

        return Headrace(self)

    @property
    def trouble(self) -> "Trouble":
        self._refuse("trouble")

    @property
    def clock(self) -> "VirtualClock":
        self._refuse("virtual clock")

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def ready(self) -> None:
        """Does nothing: tests do not start or stop an external broker."""

    def close(self) -> None:
        if "headrace" in self.__dict__:
            self.headrace.close()

    def _refuse(self, what: str) -> NoReturn:
        msg = f"{self.bootstrap_servers} was not started by headrace.testing, so it has no {what}"
        raise NotOurs(msg)
