"""Creates pytest fixtures with other options than the plugin's own fixtures.

from headrace.testing import factories

kafka_proc = factories.headrace_proc(settings={"num.partitions": "6"})
kafka = factories.headrace("kafka_proc")
"""

import os
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from headrace.testing.broker import Broker
    from headrace.testing.cluster import Cluster
    from headrace.testing.external import ExternalBroker
    from headrace.testing.helper import Headrace

BOOTSTRAP: Final = "HEADRACE_BOOTSTRAP"


def headrace_proc(
    *,
    port: int | Callable[[pytest.Config], int] = 0,
    settings: Mapping[str, str] | None = None,
    virtual_clock: bool = False,
) -> "Callable[..., Iterator[Broker]]":
    """A fixture: the broker of a session, one for each worker of pytest-xdist.

    `settings` are added to those of the ini file. A `port` other than 0 works only without
    pytest-xdist; the plugin's own fixture uses `configured_port`.
    """

    @pytest.fixture(scope="session")
    def proc(request: pytest.FixtureRequest) -> "Iterator[Broker]":
        from headrace.testing.broker import Broker
        from headrace.testing.defaults import TEST_SETTINGS
        from headrace.testing.virtual_clock import VirtualClock

        config = request.config
        with Broker(
            settings=TEST_SETTINGS | _ini_settings(config) | dict(settings or {}),
            port=port if isinstance(port, int) else port(config),
            clock=VirtualClock() if virtual_clock else None,
        ) as broker:
            yield broker

    return proc


def headrace_noproc(
    *, bootstrap_servers: str | None = None
) -> "Callable[..., Iterator[ExternalBroker]]":
    """A fixture: a running broker at `bootstrap`, HEADRACE_BOOTSTRAP or `headrace_bootstrap`."""

    @pytest.fixture(scope="session")
    def noproc(request: pytest.FixtureRequest) -> "Iterator[ExternalBroker]":
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
        broker = ExternalBroker(servers)
        yield broker
        broker.close()

    return noproc


def headrace(process: str = "headrace_proc") -> "Callable[..., Iterator[Headrace]]":
    """A fixture: the helper for one test; it deletes the test's topics and groups at the end."""

    @pytest.fixture
    def helper(request: pytest.FixtureRequest) -> "Iterator[Headrace]":
        broker: Broker | ExternalBroker = request.getfixturevalue(process)
        helper = broker.headrace
        helper.begin()
        yield helper
        helper.clean()

    return helper


def headrace_cluster_proc(
    *,
    brokers: int = 3,
    settings: Mapping[str, str] | None = None,
    racks: tuple[str, ...] = (),
) -> "Callable[..., Iterator[Cluster]]":
    """A fixture: the cluster of a session, one for each worker of pytest-xdist."""

    @pytest.fixture(scope="session")
    def proc(request: pytest.FixtureRequest) -> "Iterator[Cluster]":
        from headrace.testing.cluster import Cluster

        chosen = _ini_settings(request.config) | dict(settings or {})
        with Cluster(brokers, settings=chosen, racks=racks) as cluster:
            yield cluster

    return proc


def headrace_cluster(process: str = "headrace_cluster_proc") -> "Callable[..., Iterator[Cluster]]":
    """A fixture: the cluster for one test. All brokers run at the start of the test, and the
    test's topics and groups are deleted at the end."""

    @pytest.fixture
    def cluster(request: pytest.FixtureRequest) -> "Iterator[Cluster]":
        found: Cluster = request.getfixturevalue(process)
        found.headrace.begin()
        yield found
        found.headrace.clean()

    return cluster


def configured_port(config: pytest.Config) -> int:
    """The port from `--headrace-port` or the ini file, plus the pytest-xdist worker's number."""
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
