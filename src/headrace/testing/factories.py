"""Factories of pytest fixtures, for other settings than those of the plugin's own fixtures.

from headrace.testing import factories

kafka_proc = factories.headrace_proc(settings={"num.partitions": "6"})
kafka = factories.headrace("kafka_proc")
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from headrace.security.authorization.acl import Acl
    from headrace.testing.broker import Broker
    from headrace.testing.cluster import Cluster
    from headrace.testing.external import ExternalBroker
    from headrace.testing.helper import Headrace
    from headrace.testing.security import SecurityName, Users
    from headrace.testing.setting_values import SettingValue

BOOTSTRAP: Final = "HEADRACE_BOOTSTRAP"


def headrace_proc(
    *,
    port: int | Callable[[pytest.Config], int] = 0,
    settings: Mapping[str, "SettingValue"] | None = None,
    virtual_clock: bool = False,
    security: "SecurityName | None" = None,
    users: "Users" = (),
    acls: "Iterable[Acl]" = (),
) -> "Callable[..., Iterator[Broker]]":
    """A session fixture: a broker, one for each worker of pytest-xdist.

    Args:
        port: The port, or a function that chooses it. A fixed port works in one process only.
        settings: Broker settings by Kafka's names, added to those of the ini file.
        virtual_clock: Whether the broker's time passes only when a test advances it.
        security: "ssl", "sasl_plaintext" or "sasl_ssl".
        users: The users with their passwords, or only their names.
        acls: What the users may do.
    """

    @pytest.fixture(scope="session")
    def proc(request: pytest.FixtureRequest) -> "Iterator[Broker]":
        """A Kafka-compatible broker for the whole session (`headrace.testing.Broker`)."""
        from headrace.testing.broker import Broker
        from headrace.testing.defaults import TEST_SETTINGS
        from headrace.testing.setting_values import setting_texts
        from headrace.testing.virtual_clock import VirtualClock

        config = request.config
        with Broker(
            settings=TEST_SETTINGS | _ini_settings(config) | setting_texts(settings),
            port=port if isinstance(port, int) else port(config),
            clock=VirtualClock() if virtual_clock else None,
            security=security,
            users=users,
            acls=acls,
        ) as broker:
            yield broker

    return proc


def headrace_noproc(
    *, bootstrap_servers: str | None = None, client_settings: Mapping[str, str] | None = None
) -> "Callable[..., Iterator[ExternalBroker]]":
    """A session fixture: a running broker, given here, by HEADRACE_BOOTSTRAP or in the ini file.

    Args:
        bootstrap_servers: The address of the broker.
        client_settings: How the helper connects, such as `sasl.username`, by Kafka's names.
    """

    @pytest.fixture(scope="session")
    def noproc(request: pytest.FixtureRequest) -> "Iterator[ExternalBroker]":
        """A broker that already runs, at `HEADRACE_BOOTSTRAP`."""
        from headrace.testing.external import ExternalBroker

        servers = (
            bootstrap_servers
            or os.environ.get(BOOTSTRAP)
            or str(request.config.getini("headrace_bootstrap"))
        )
        if not servers:
            pytest.fail(
                f"no broker to use: set {BOOTSTRAP}=host:port, or headrace_bootstrap in the ini "
                "file",
                pytrace=False,
            )
        broker = ExternalBroker(servers, client_settings)
        yield broker
        broker.close()

    return noproc


def headrace(process: str = "headrace_proc") -> "Callable[..., Iterator[Headrace]]":
    """A function fixture: the helper for the broker of fixture `process`. It cleans up after the
    test."""

    @pytest.fixture
    def helper(request: pytest.FixtureRequest) -> "Iterator[Headrace]":
        """A helper for one test: creates topics, produces, consumes, injects faults."""
        broker: Broker | ExternalBroker = request.getfixturevalue(process)
        helper = broker.headrace
        helper.begin()
        yield helper
        helper.clean()

    return helper


def headrace_cluster_proc(
    *,
    brokers: int = 3,
    settings: Mapping[str, "SettingValue"] | None = None,
    racks: tuple[str, ...] = (),
    security: "SecurityName | None" = None,
    users: "Users" = (),
    acls: "Iterable[Acl]" = (),
) -> "Callable[..., Iterator[Cluster]]":
    """A session fixture: a cluster, one for each worker of pytest-xdist.

    Args:
        brokers: The number of brokers.
        settings: Settings of all brokers by Kafka's names, added to those of the ini file.
        racks: One rack for each broker.
        security: "ssl", "sasl_plaintext" or "sasl_ssl".
        users: The users with their passwords, or only their names.
        acls: What the users may do.
    """

    @pytest.fixture(scope="session")
    def proc(request: pytest.FixtureRequest) -> "Iterator[Cluster]":
        """A cluster for the whole session (`headrace.testing.Cluster`)."""
        from headrace.testing.cluster import Cluster
        from headrace.testing.setting_values import setting_texts

        chosen = _ini_settings(request.config) | setting_texts(settings)
        with Cluster(
            brokers, settings=chosen, racks=racks, security=security, users=users, acls=acls
        ) as cluster:
            yield cluster

    return proc


def headrace_cluster(process: str = "headrace_cluster_proc") -> "Callable[..., Iterator[Cluster]]":
    """A function fixture: the cluster of fixture `process`, empty and with all brokers running."""

    @pytest.fixture
    def cluster(request: pytest.FixtureRequest) -> "Iterator[Cluster]":
        """A cluster for one test, empty and with all brokers running."""
        found: Cluster = request.getfixturevalue(process)
        found.headrace.begin()
        yield found
        found.headrace.clean()

    return cluster


def configured_port(config: pytest.Config) -> int:
    """The port of `--headrace-port` or the ini file; workers of pytest-xdist take the next ones."""
    option = config.getoption("headrace_port")
    first = int(config.getini("headrace_port") or 0) if option is None else int(option)
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    number = worker.removeprefix("gw")
    return first + int(number) if first and number.isdecimal() else first


def _ini_settings(config: pytest.Config) -> dict[str, str]:
    settings = {}
    for line in config.getini("headrace_settings"):
        name, equals, value = str(line).partition("=")
        if not equals:
            msg = f"headrace_settings: {line!r} is not name=value"
            raise pytest.UsageError(msg)
        settings[name.strip()] = value.strip()
    return settings
