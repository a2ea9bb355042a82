"""A cluster of real brokers for tests in one process. Each has its own thread, loop and port.

    with headrace.testing.Cluster(brokers=3) as cluster:
        producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap_servers})
        cluster.kill(cluster.leader("orders"))

They register, elect a controller, replicate and fail over like processes that use ZooKeeper. The
metadata store is in memory, so no Java is needed.
"""

import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final, NoReturn, Self

from headrace.broker.runtime.environment import Environment
from headrace.client.login.security import PLAINTEXT, Security
from headrace.cluster.replication_settings import replication_settings
from headrace.security.authorization.acl import Acl
from headrace.testing.broker import Broker, security_from
from headrace.testing.defaults import TEST_SETTINGS
from headrace.testing.lifetime import Lifetime
from headrace.testing.network_links import NetworkLinks
from headrace.testing.setting_values import SettingValue, setting_texts
from headrace.testing.shared_store import SESSION_TIMEOUT_S, SharedStore
from headrace.testing.slow_files import SlowFiles

if TYPE_CHECKING:
    from headrace.testing.helper import Headrace
    from headrace.testing.security import SecurityName, Users
    from headrace.testing.trouble import Trouble
    from headrace.testing.virtual_clock import VirtualClock

HEALTHY_TIMEOUT_S: Final = 60.0


class NoSuchBroker(KeyError):
    """The cluster has no broker with this id."""


class Cluster(Lifetime):
    """Brokers 1 to `brokers` in one process. Use it with `with`, or `start()` and `close()`.

    New topics have three replicas, of which two must be in sync; with fewer brokers, fewer.

    Args:
        brokers: The number of brokers.
        settings: Settings of all brokers by Kafka's names.
        racks: One rack for each broker. Replicas are spread over racks, and consumers may read
            from their own.
        session_timeout_s: How long a silent broker stays a member of the cluster.
        security: As for `Broker`; the brokers use it among themselves, too.
        users: As for `Broker`.
        acls: As for `Broker`.
    """

    def __init__(
        self,
        brokers: int = 3,
        *,
        settings: Mapping[str, SettingValue] | None = None,
        racks: tuple[str, ...] = (),
        session_timeout_s: float = SESSION_TIMEOUT_S,
        security: "SecurityName | None" = None,
        users: "Users" = (),
        acls: Iterable[Acl] = (),
    ) -> None:
        if brokers < 1:
            raise ValueError("brokers must be at least 1")
        if racks and len(racks) != brokers:
            raise ValueError("racks must name one rack for each broker")
        self._size = brokers
        self._settings = setting_texts(settings)
        self._racks = racks
        self._session_timeout_s = session_timeout_s
        self.security = security_from(security, users, acls)
        """The certificates and users; None for a cluster without security."""
        self._store: SharedStore | None = None
        self._links = NetworkLinks()
        self._disks: dict[int, SlowFiles] = {}
        self._paused: set[int] = set()
        self._temporary: TemporaryDirectory[str] | None = None
        self.brokers: dict[int, Broker] = {}
        """The brokers by id; each has its own `trouble`, `kill()` and so on."""

    # --- start and stop -------------------------------------------------------------------------

    def start(self) -> Self:
        """Starts all brokers and returns when they serve and one of them is controller."""
        if self._store is None:
            first = None if self.security is None else self.security.first
            self._store = SharedStore(self._session_timeout_s, first)
            self._temporary = TemporaryDirectory(prefix="headrace-", ignore_cleanup_errors=True)
            for broker_id in range(1, self._size + 1):
                self._begin(broker_id)
            self.wait_until_healthy()
        return self

    def close(self) -> None:
        """Ends all brokers as in a crash and removes their data."""
        with ExitStack() as closing:
            if self.security is not None:
                closing.callback(self.security.close)
            if self._temporary is not None:
                closing.callback(self._temporary.cleanup)
            if self._store is not None:
                closing.callback(self._store.close)
            for broker in self.brokers.values():
                closing.callback(broker.kill)
            if "headrace" in self.__dict__:
                closing.callback(self.headrace.close)
                del self.headrace
        self._store = self._temporary = None
        self.brokers = {}

    def ready(self) -> None:
        """Starts stopped brokers, reconnects all, and removes pending faults."""
        self.heal()
        for broker_id, broker in self.brokers.items():
            self.slow_disk(broker_id, 0.0)
            self.resume(broker_id)
            if not broker.is_running:
                self.restart(broker_id)
            broker.ready()
        self.wait_until_healthy()

    def _begin(self, broker_id: int) -> None:
        assert self._temporary is not None
        disk = self._disks[broker_id] = SlowFiles()
        world = Environment(files=disk, cluster_store=lambda *_: self._shared.session(broker_id))
        broker = Broker(
            settings=self._settings_of(broker_id),
            data=Path(self._temporary.name) / str(broker_id),
            security=self.security,
            world=world,
            loops=self._links.loops(broker_id),
        )
        self.brokers[broker_id] = broker
        broker.start()
        self._links.place(broker_id, broker.port)

    def _settings_of(self, broker_id: int) -> dict[str, str]:
        named = {"node.id": str(broker_id), **replication_settings(self._size)}
        if self._racks and broker_id <= len(self._racks):
            named["broker.rack"] = self._racks[broker_id - 1]
        return TEST_SETTINGS | named | self._settings

    @property
    def _shared(self) -> SharedStore:
        assert self._store is not None, (
            "the cluster has not been started: use it as a context manager, or call start()"
        )
        return self._store

    # --- faults and changes ---------------------------------------------------------------------

    def kill(self, broker_id: int) -> None:
        """Ends a broker as `kill -9` does. Its data stays for `restart`."""
        self._known(broker_id).kill()
        self._paused.discard(broker_id)
        self._shared.silence(broker_id)

    def stop(self, broker_id: int) -> None:
        """Stops a broker as SIGTERM does: its leaders move first."""
        self.resume(broker_id)
        self._known(broker_id).stop()

    def restart(self, broker_id: int) -> None:
        """Starts a broker again on its data and its port; stops it first if it runs."""
        self.stop(broker_id)
        self.brokers[broker_id].start()

    def pause(self, broker_id: int) -> None:
        """Suspends a broker as SIGSTOP does. It loses its session after the session timeout."""
        self._known(broker_id).pause()
        self._paused.add(broker_id)
        self._shared.silence(broker_id)

    def resume(self, broker_id: int) -> None:
        """Continues a paused broker."""
        self._known(broker_id).resume()
        if broker_id in self._paused:
            self._paused.discard(broker_id)
            self._shared.resume(broker_id)

    def partition(self, broker_id: int, *others: int) -> None:
        """Disconnects a broker from `others`; without `others`, from all brokers and the store.

        Packets are dropped silently. Clients still reach every broker.
        """
        self._known(broker_id)
        cut_from = others or tuple(other for other in self.brokers if other != broker_id)
        self._links.cut(broker_id, map(self._checked, cut_from))
        if not others:
            self._shared.cut_off(broker_id)

    def heal(self) -> None:
        """Reconnects all brokers."""
        self._links.heal()
        for broker_id in self.brokers:
            if broker_id not in self._paused and self.brokers[broker_id].is_running:
                self._shared.resume(broker_id)

    def slow_disk(self, broker_id: int, seconds: float) -> None:
        """Delays each write and flush of a broker by `seconds`; 0 removes the delay."""
        self._disks[self._checked(broker_id)].delay_s = seconds

    def add(self) -> int:
        """Starts one more broker and returns its id. It has no partitions yet."""
        broker_id = max(self.brokers) + 1
        self._begin(broker_id)
        return broker_id

    # --- state ----------------------------------------------------------------------------------

    @property
    def bootstrap_servers(self) -> str:
        """The addresses for clients."""
        return ",".join(broker.bootstrap_servers for broker in self.brokers.values())

    def client_config(self, user: str | None = None) -> dict[str, str]:
        """The settings of a client for confluent-kafka; see `Broker.client_config`."""
        return {**self._any_broker.client_config(user), "bootstrap.servers": self.bootstrap_servers}

    def java_config(self, user: str | None = None) -> dict[str, str]:
        """The same for Kafka's clients in Java."""
        return self._any_broker.java_config(user) | {"bootstrap.servers": self.bootstrap_servers}

    @property
    def ca_path(self) -> Path:
        """The certificate that clients trust, in PEM."""
        return self._any_broker.ca_path

    @property
    def client_security(self) -> Security:
        """How the helper connects."""
        return PLAINTEXT if self.security is None else self.security.helper

    @property
    def _any_broker(self) -> Broker:
        return self._known(min(self.brokers, default=1))

    @property
    def controller(self) -> int | None:
        """The id of the controller; None during an election."""
        for broker_id, broker in self.brokers.items():
            node = broker.node
            if node is not None and broker_id not in self._paused and node.is_controller:
                return broker_id
        return None

    def leader(self, topic: str, partition: int = 0) -> int:
        """The id of the broker that leads the partition; waits during an election."""
        return self.headrace.leader(topic, partition)

    def wait_until_healthy(self, *, timeout_s: float = HEALTHY_TIMEOUT_S) -> None:
        """Returns when the running brokers are in the cluster and agree, with all replicas in sync.

        Raises `DeadlineMissed`.
        """
        deadline = time.monotonic() + timeout_s
        self.headrace.wait_until_healthy(self._serving(), timeout_s=timeout_s)
        left_s = deadline - time.monotonic()
        self.headrace.wait_for(self._agree, "all brokers have the same metadata", timeout_s=left_s)

    def _agree(self) -> bool:
        nodes = [self.brokers[id_].node for id_ in self._serving()]
        return len({node and node.metadata.image.version for node in nodes}) == 1

    def _serving(self) -> frozenset[int]:
        return frozenset(
            id_
            for id_, broker in self.brokers.items()
            if broker.is_running and id_ not in self._paused
        )

    @cached_property
    def headrace(self) -> "Headrace":
        """The helper for tests: topics, records, groups."""
        from headrace.testing.helper import Headrace

        return Headrace(self)

    @property
    def trouble(self) -> "Trouble":
        """Not available: each of `brokers` has its own `trouble`."""
        self._refuse("trouble", "cluster.brokers[1].trouble is one broker's")

    @property
    def clock(self) -> "VirtualClock":
        """Not available: a cluster uses the machine's clock."""
        self._refuse("a clock that tests move", "a Broker may have one")

    def now_ms(self) -> int:
        """The machine's time in Unix milliseconds."""
        return time.time_ns() // 1_000_000

    def _refuse(self, what: str, instead: str) -> NoReturn:
        raise TypeError(f"a cluster has no {what}: {instead}")

    def _known(self, broker_id: int) -> Broker:
        return self.brokers[self._checked(broker_id)]

    def _checked(self, broker_id: int) -> int:
        if broker_id not in self.brokers:
            known = ", ".join(map(str, self.brokers)) or "none, the cluster has not been started"
            raise NoSuchBroker(f"no broker has the id {broker_id}; the cluster has: {known}")
        return broker_id
