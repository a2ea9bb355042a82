"""A real broker for tests, with its own thread and loop on a free port. It leaves no files.

    with headrace.testing.Broker() as broker:
        producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers})

It is the broker that `headrace up` runs, over real sockets and real files. `start` raises any error
that keeps the broker from starting. A broker whose log directories have all failed ends, as its
process would: `is_running` is then False, and `failure` gives the reason.
"""

import asyncio
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from random import Random, SystemRandom
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final, Literal, Self, TypeVar

from headrace.broker.node import Broker as Node
from headrace.broker.runtime.environment import Environment
from headrace.client.login.security import PLAINTEXT, Security
from headrace.clock import Clock, SystemClock
from headrace.cluster.settings import BrokerSettings
from headrace.process_tuning import loop_factory
from headrace.security.authorization.acl import Acl
from headrace.storage.errors import LogDirFailed
from headrace.testing.lifetime import Lifetime
from headrace.testing.setting_values import SettingValue, setting_texts
from headrace.testing.virtual_clock import VirtualClock

if TYPE_CHECKING:
    from headrace.local_security import ClientConfig
    from headrace.testing.helper import Headrace
    from headrace.testing.security import BrokerSecurity, SecurityName, Users
    from headrace.testing.trouble import Trouble

T = TypeVar("T")

HOST: Final = "127.0.0.1"
STOP_TIMEOUT_S: Final = 30.0
JOIN_MARGIN_S: Final = 5.0  # for the loop to end, after the broker has ended

SETTLE_TIMEOUT_S: Final = 60.0
QUIET_ROUNDS: Final = (
    3  # loop iterations without a due timer: callbacks that a timer started have run
)
SETTLE_PAUSE_S: Final = 0.001

# While a virtual clock does not move, no wait may depend on it: groups do not wait for more members
# or for their next assignment, and connections do not become idle.
BY_HAND_SETTINGS: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
    "group.share.assignment.interval.ms": "0",
    "connections.max.idle.ms": str(2**62),
}

Ending = Literal["stop", "kill"]
LoopFactory = Callable[[], asyncio.AbstractEventLoop]


class NotRunning(RuntimeError):
    """The call needs a running broker, and this one is stopped."""


class Broker(Lifetime):
    """A real broker in a thread. Use it with `with`, `async with`, or `start()` and `close()`.

    Args:
        settings: Broker settings by Kafka's names: str, int, float or bool.
        data: A directory that outlives the broker. Without it, the broker uses a temporary
            directory, keeps it over `restart()` and removes it at the end.
        port: The port to listen on; 0 means any free port.
        clock: With a `VirtualClock`, time passes only when the test advances it.
        random: The source of randomness.
        security: "ssl", "sasl_plaintext" or "sasl_ssl": the broker accepts only its users, with a
            certificate or with a password (SCRAM-SHA-512), and checks their ACLs.
        users: The users with their passwords, or only their names.
        acls: What they may do, such as `allow("alice", "read", topic="orders")`. Without ACLs,
            only the administrator may do anything.
        world: For `Cluster`, which controls the broker's environment.
        loops: For `Cluster`; creates the broker's event loop.
    """

    def __init__(
        self,
        *,
        settings: Mapping[str, SettingValue] | None = None,
        data: Path | None = None,
        port: int = 0,
        clock: Clock | None = None,
        random: Random | None = None,
        security: "SecurityName | BrokerSecurity | None" = None,
        users: "Users" = (),
        acls: Iterable[Acl] = (),
        world: Environment | None = None,
        loops: LoopFactory | None = None,
    ) -> None:
        self._settings = setting_texts(settings)
        self._data = data
        self._port = port
        self._clock = clock
        self._world = (world or Environment())._replace(
            clock=clock or SystemClock(), random=random or SystemRandom()
        )
        self._loops = loops or loop_factory()
        self.security = security_from(security, users, acls)
        """Its certificates and users; None for a broker without security."""
        self._has_users = False
        self._detach: Callable[[], None] | None = None
        self._temporary: TemporaryDirectory[str] | None = None
        self._running: _Running | None = None

    # --- start and stop -------------------------------------------------------------------------

    def start(self) -> Self:
        """Starts the broker and returns when clients can connect; raises any error of the start."""
        if self._serving is None:
            self._end_broker("kill")
            running = _Running(self._create_node, self._loops)
            self._port = running.broker.endpoints[0].port
            self._running = running
            self._has_users = True
            if isinstance(self._clock, VirtualClock):
                self._detach = self._clock.attach(running.settle)
            if "trouble" in self.__dict__:
                self.on_loop(lambda: self.trouble.started(running.broker))
        return self

    def stop(self) -> None:
        """Stops as after SIGTERM: answers accepted requests, flushes, writes the clean-shutdown
        marker."""
        self._end_broker("stop")

    def kill(self) -> None:
        """Ends as in a crash. The next start recovers the logs."""
        self._end_broker("kill")

    def pause(self) -> None:
        """Suspends the broker as SIGSTOP does: it keeps its connections and answers nothing."""
        self._expect_running().pause()

    def resume(self) -> None:
        """Continues after `pause()`. Does nothing if the broker is not paused."""
        if self._serving is not None:
            self._serving.resume()

    def restart(self) -> Self:
        """Stops the broker if it runs, and starts it with the same data on the same port."""
        self.stop()
        return self.start()

    def close(self) -> None:
        """Stops the broker and removes its temporary directory."""
        if "headrace" in self.__dict__:
            self.headrace.close()
            del self.headrace
        try:
            self.stop()
        finally:
            if self._temporary is not None:
                self._temporary.cleanup()
                self._temporary = None
            if self.security is not None:
                self.security.close()

    # --- tools for tests ------------------------------------------------------------------------

    @cached_property
    def headrace(self) -> "Headrace":
        """The helper for tests: topics, records, groups, faults."""
        from headrace.testing.helper import Headrace

        return Headrace(self)

    @cached_property
    def trouble(self) -> "Trouble":
        """Faults for the requests of clients."""
        from headrace.testing.trouble import Trouble

        return Trouble(self)

    def ready(self) -> None:
        """Starts the broker if it is stopped, and removes pending faults."""
        if "trouble" in self.__dict__:
            self.trouble.clear()
        self.start()

    @property
    def clock(self) -> VirtualClock:
        """The broker's `VirtualClock`; raises TypeError if the broker has another clock."""
        if not isinstance(self._clock, VirtualClock):
            msg = "the broker runs on the machine's clock; create it with clock=VirtualClock()"
            raise TypeError(msg)
        return self._clock

    def on_loop(self, call: Callable[[], T]) -> T:
        """Runs `call` on the broker's event loop and returns its result; runs here if stopped."""
        return call() if self._serving is None else self._serving.on_loop(call)

    @property
    def node(self) -> Node | None:
        """The broker object, for use on its event loop; None while the broker is stopped."""
        return None if self._serving is None else self._serving.broker

    # --- state ----------------------------------------------------------------------------------

    @property
    def is_running(self) -> bool:
        """Whether the broker serves clients."""
        return self._serving is not None

    @property
    def failure(self) -> LogDirFailed | None:
        """The reason why the broker stopped by itself; None if it did not. Reset by the next start
        or stop."""
        return None if self._running is None else self._running.failure

    def now_ms(self) -> int:
        """The time of the broker's clock in Unix milliseconds; timestamps of records use it."""
        return (self._clock or SystemClock()).wall_ms()

    @property
    def bootstrap_servers(self) -> str:
        """The address for clients. It stays the same over a restart."""
        if not self._port:
            msg = "the broker has no port yet: use it as a context manager, or call start()"
            raise NotRunning(msg)
        return f"{HOST}:{self._port}"

    def client_config(self, user: str | None = None) -> dict[str, str]:
        """The settings of a client for confluent-kafka and other clients with librdkafka.

        Without a name, they are those of the administrator, who may do everything.
        """
        if self.security is None and user is None:
            return {"bootstrap.servers": self.bootstrap_servers}
        return self._config(user).librdkafka()

    def java_config(self, user: str | None = None) -> dict[str, str]:
        """The same for Kafka's clients in Java."""
        return self._config(user).java()

    def _config(self, user: str | None) -> "ClientConfig":
        if self.security is None:
            msg = "the broker has no security; create it with security=..., such as 'sasl_ssl'"
            raise TypeError(msg)
        return self.security.config(self.bootstrap_servers, user)

    @property
    def ca_path(self) -> Path:
        """The certificate that clients trust, in PEM."""
        ca = self._config(None).ca
        if ca is None:
            raise TypeError("the broker has no TLS")
        return ca

    @property
    def client_security(self) -> Security:
        """How the helper connects."""
        return PLAINTEXT if self.security is None else self.security.helper

    @property
    def port(self) -> int:
        """The port that the broker listens on."""
        return int(self.bootstrap_servers.rpartition(":")[2])

    @property
    def data(self) -> Path:
        """The data directory."""
        if self._data is not None:
            return self._data
        if self._temporary is None:
            self._temporary = TemporaryDirectory(prefix="headrace-", ignore_cleanup_errors=True)
        return Path(self._temporary.name)

    # --- internals ------------------------------------------------------------------------------

    @property
    def _serving(self) -> "_Running | None":
        """The running broker; None if it is stopped or has ended because of a failure."""
        return None if self.failure is not None else self._running

    def _expect_running(self) -> "_Running":
        serving = self._serving
        if serving is None:
            raise NotRunning(f"the broker is not running ({self.failure or 'it was stopped'})")
        return serving

    def _create_node(self) -> Node:
        security, world = self.security, self._world
        protocol = "PLAINTEXT" if security is None else security.protocol
        named = {
            "listeners": f"{protocol}://{HOST}:{self._port}",
            "log.dirs": str(self.data),
        }
        if security is not None:
            from headrace.local_security import seeded

            named |= security.settings
            if not self._has_users:  # a restart keeps what tests have changed
                store = seeded(world.metadata_store, security.first)
                world = world._replace(metadata_store=store)
        if isinstance(self._clock, VirtualClock):
            named |= BY_HAND_SETTINGS
        settings = BrokerSettings.parse(named | self._settings)
        return Node(settings, environment=world)

    def _end_broker(self, ending: Ending) -> None:
        running, self._running = self._running, None
        detach, self._detach = self._detach, None
        if detach is not None:
            detach()
        if running is not None:
            running.end(ending)


def security_from(
    security: "SecurityName | BrokerSecurity | None", users: "Users", acls: Iterable[Acl]
) -> "BrokerSecurity | None":
    """The security that these arguments of `Broker` and `Cluster` describe."""
    if security is None:
        if users or acls:
            raise ValueError("users and acls need security=..., such as 'sasl_ssl'")
        return None
    # A broker without security does not need the libraries.
    from headrace.testing.security import BrokerSecurity

    if isinstance(security, BrokerSecurity):
        return security
    return BrokerSecurity(security, users, acls)


class _Running:
    """A started broker and its thread."""

    def __init__(self, make: Callable[[], Node], loops: LoopFactory | None) -> None:
        self._create_node = make
        self._loops = loops
        self._goes_on = threading.Event()
        self._goes_on.set()
        self._is_killed = False
        self.failure: LogDirFailed | None = None
        self._started: Future[Node] = Future()
        self._ended: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, name="headrace-broker", daemon=True)
        self._thread.start()
        try:
            self.broker = self._started.result()
        except BaseException:
            self._thread.join()
            raise

    def pause(self) -> None:
        if self._goes_on.is_set():
            self._goes_on.clear()
            stands = threading.Event()
            self._loop.call_soon_threadsafe(self._stand_still, stands)
            stands.wait(STOP_TIMEOUT_S)

    def resume(self) -> None:
        self._goes_on.set()

    def _stand_still(self, stands: threading.Event) -> None:
        stands.set()
        self._goes_on.wait()
        if self._is_killed:  # before the loop runs any other code
            self.broker.abort()

    def end(self, ending: Ending) -> None:
        if not self._goes_on.is_set():
            self._is_killed = ending == "kill"
            self.resume()
        with suppress(RuntimeError):  # a broker that has failed has closed its loop
            self._loop.call_soon_threadsafe(self._request_end, ending)
        self._thread.join(STOP_TIMEOUT_S + JOIN_MARGIN_S)
        self._ended.result(timeout=0)

    def _request_end(self, ending: Ending) -> None:
        if not self._ending.done():
            self._ending.set_result(ending)

    def on_loop(self, call: Callable[[], T]) -> T:
        async def made() -> T:
            return call()

        return asyncio.run_coroutine_threadsafe(made(), self._loop).result(STOP_TIMEOUT_S)

    def settle(self) -> None:
        """Returns when no timer is due and no periodic task runs."""
        if self.failure is not None:
            return
        settled = asyncio.run_coroutine_threadsafe(self._settled(), self._loop)
        try:
            settled.result(SETTLE_TIMEOUT_S)
        except CancelledError:
            if self.failure is None:  # False: it has ended meanwhile
                raise

    async def _settled(self) -> None:
        quiet = 0
        while quiet < QUIET_ROUNDS:
            busy = self.broker.timers.due or self.broker.task_scheduler.busy
            quiet = 0 if busy else quiet + 1
            await asyncio.sleep(SETTLE_PAUSE_S if busy else 0)

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=self._loops) as runner:
                runner.run(self._serve())
        except BaseException as error:
            self._ended.set_exception(error)
        else:
            self._ended.set_result(None)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._ending: asyncio.Future[Ending] = self._loop.create_future()
        try:
            broker = self._create_node()
            await broker.start()
        except BaseException as error:
            self._started.set_exception(error)
            return
        self._started.set_result(broker)
        await broker.wait_until_ended(self._ending)
        if broker.ended.done():
            self.failure = broker.ended.result()
            broker.abort()
        elif self._ending.result() == "kill":
            if not self._is_killed:
                broker.abort()
            await asyncio.sleep(0)  # the loop closes the sockets before it stops
        else:
            await broker.stop(timeout_s=STOP_TIMEOUT_S)
