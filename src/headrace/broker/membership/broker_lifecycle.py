"""This broker as a member of its cluster: its registration, and its requests to the controller.

Guarantees: while the session with the metadata store lasts, the broker is registered under one
epoch; after the session ends, it registers again under a new one. While the store is unreachable,
the broker keeps serving clients. `controller_election` follows the active controller and elects
the next one.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, TypeVar, cast

from headrace.broker.membership.controller_election import (
    FOREIGN_STORE_CHECK_S,
    RETRY_S,
    ControllerElection,
)
from headrace.broker.membership.fast_failure_detection import FastFailureDetection
from headrace.broker.membership.peers import Peers
from headrace.broker.metadata.member_metadata import MemberMetadata
from headrace.client.errors import RequestTimedOut, UnknownBroker
from headrace.client.network.connection import Address
from headrace.cluster.listeners import Listener
from headrace.cluster.metadata_store import (
    AnotherCluster,
    ClusterStore,
    ConnectionSuspended,
    Elected,
    SessionExpired,
    StoreError,
)
from headrace.cluster.topology import BrokerRegistration
from headrace.controller.active_controller import ActiveController
from headrace.failure_log import FailureLog
from headrace.protocol.struct import Struct

R = TypeVar("R", bound=Struct)

log = logging.getLogger(__package__)

UNTIL_RESTORED: Final = (
    "Restore the data of this cluster. Until then this broker serves the metadata that it has and "
    "accepts no changes"
)


class BrokerIdentity(NamedTuple):
    """The registration of a process; `last_epoch` is that of an incarnation that stopped
    cleanly."""

    broker: BrokerRegistration
    storage_id: str = ""
    last_epoch: int | None = None
    cluster_id: str = ""


class BrokerLifecycle:
    """Runs until it is stopped; `start` returns after the broker is registered."""

    def __init__(
        self,
        store: ClusterStore,
        metadata: MemberMetadata,
        peers: Peers,
        make_active_controller: Callable[[Elected], ActiveController],
        answer_here: Callable[[Struct], Awaitable[Struct]],
        *,
        node_id: int,
        listener: Listener,
        detect_crashes: bool,
    ) -> None:
        self._store = store
        self._metadata = metadata
        self._peers = peers
        self._answer_here = answer_here
        self._node_id = node_id
        self._listener = listener
        self.crashes = FastFailureDetection(
            metadata, self.address_of, node_id=node_id, enabled=detect_crashes
        )
        self._identity: BrokerIdentity | None = None
        self.broker_epoch = -1
        self._registered = asyncio.Event()
        self._lost = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._register_failures = FailureLog(log)
        self._election = ControllerElection(
            store,
            metadata,
            peers,
            self.crashes,
            make_active_controller,
            node_id=node_id,
            broker_epoch=lambda: self.broker_epoch,
            registered=self._registered,
            check_store=self._check_store,
        )
        store.on_lost(self._lost.set)
        peers.on_lost = self.crashes.connection_lost

    # --- queries --------------------------------------------------------------------------------

    @property
    def is_registered(self) -> bool:
        """Whether this broker has a registration in the metadata store, as far as it knows."""
        return self._registered.is_set()

    @property
    def is_store_connected(self) -> bool:
        return self._store.disconnected_s is None

    @property
    def active_controller(self) -> ActiveController | None:
        return self._metadata.active_controller

    @property
    def controller_id(self) -> int:
        """The active controller as far as this broker knows; -1 if there is none."""
        return self._election.controller_id

    def address_of(self, broker_id: int) -> Address | None:
        """The address at which a broker listens for its peers, from its latest registration."""
        known = self._election.latest_registration(broker_id)
        return None if known is None else self._address(known)

    def incarnation_of(self, broker_id: int) -> bytes | None:
        """The latest known incarnation of a broker."""
        known = self._election.latest_registration(broker_id)
        return None if known is None else known.incarnation_id

    def _address(self, broker: BrokerRegistration) -> Address | None:
        ours = self._listener
        endpoint = broker.endpoint(ours.name)
        if endpoint is None:
            # Without a configured listener, that of another broker may have another name.
            same = [e for e in broker.endpoints if e.security_protocol == ours.security_protocol]
            endpoint = same[0] if same else None
        return None if endpoint is None else Address(endpoint.host, endpoint.port)

    # --- joining and leaving --------------------------------------------------------------------

    async def start(self, identity: BrokerIdentity) -> None:
        """Registers; raises `StoreError` if the store refuses."""
        self._identity = identity
        await self._register()
        loop = asyncio.get_running_loop()
        self._tasks = [
            loop.create_task(self._keep_registered()),
            loop.create_task(self._election.run()),
        ]

    async def joined(self) -> None:
        """Waits until the metadata has this incarnation of the broker."""
        while not self._is_in_metadata():
            await self._metadata.next_change()

    @property
    def last_poll_failure(self) -> str | None:
        """Why the controller's last answer did not come or was a refusal."""
        return self._election.last_failure

    def _is_in_metadata(self) -> bool:
        known = self._metadata.image.brokers.get(self._node_id)
        return known is not None and known.epoch == self.broker_epoch and not known.fenced

    async def stop(self) -> None:
        """Resigns as controller, if this broker is it, and stops following."""
        self._cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def crash(self) -> None:
        """Stops at once, without notifying other brokers."""
        active_controller, self._metadata.active_controller = self.active_controller, None
        if active_controller is not None:
            active_controller.abandon()
        self._cancel()

    def _cancel(self) -> None:
        self.crashes.close()
        for task in self._tasks:
            task.cancel()

    # --- the registration -----------------------------------------------------------------------

    async def _register(self) -> None:
        assert self._identity is not None
        identity = self._identity
        self._lost.clear()
        self.broker_epoch = await self._store.register(
            identity.broker,
            clean_shutdown_epoch=identity.last_epoch,
            storage_id=identity.storage_id,
        )
        # If it registers again, its logs are still those of this incarnation.
        self._identity = identity._replace(last_epoch=self.broker_epoch)
        self._registered.set()
        self._register_failures.reset()
        log.info(
            "registered with the metadata store",
            extra={"broker": self._node_id, "epoch": self.broker_epoch},
        )

    async def _keep_registered(self) -> None:
        while True:
            await self._lost.wait()
            self._registered.clear()
            if self.active_controller is not None:
                self.active_controller.recheck_registrations()
            try:
                await self._check_store()
                await self._register()
            except (ConnectionSuspended, SessionExpired):
                await asyncio.sleep(RETRY_S)
                self._lost.set()
            except StoreError as error:
                foreign = isinstance(error, AnotherCluster)
                pause_s = FOREIGN_STORE_CHECK_S if foreign else RETRY_S
                self._register_failures.failed(
                    logging.ERROR,
                    "cannot register with the metadata store, retrying in %g s",
                    pause_s,
                    reason=str(error),
                    fields={"broker": self._node_id},
                )
                await asyncio.sleep(pause_s)
                self._lost.set()

    async def _check_store(self) -> None:
        """Refuses a store that has lost its data or belongs to another cluster.

        Such a store lacks the topics of this broker, which would delete them.
        """
        assert self._identity is not None
        ours, found = self._identity.cluster_id, await self._store.stored_cluster_id()
        if found != ours:
            raise AnotherCluster(
                "the metadata store belongs to "
                f"{f'cluster {found}' if found else 'no cluster'}, this broker to {ours}: "
                f"has ZooKeeper lost its data? {UNTIL_RESTORED}"
            )
        # Before an election: an election counts as a version and would hide missing ones.
        known, stored = self._metadata.image.version, await self._store.stored_version()
        if stored < known:
            raise AnotherCluster(
                f"the metadata store has version {stored}, this broker has version {known}: was "
                f"ZooKeeper restored from an old backup? {UNTIL_RESTORED}"
            )

    # --- requests to the controller -------------------------------------------------------------

    async def ask_controller(self, request: Struct, answer: type[R], *, timeout_s: float) -> R:
        """Sends one request to the current controller, which may be this broker.

        Raises `ClientError` or returns NOT_CONTROLLER; the caller retries.
        """
        if self.active_controller is None:
            return await self.ask(request, answer, timeout_s=timeout_s)
        try:
            async with asyncio.timeout(timeout_s):
                return cast("R", await self._answer_here(request))
        except TimeoutError:
            raise RequestTimedOut(
                f"the controller made no decision within {timeout_s:g} s"
            ) from None

    async def ask(
        self,
        request: Struct,
        answer: type[R],
        *,
        timeout_s: float,
        version: int | None = None,
        origin: str | None = None,
    ) -> R:
        """Sends a request to another broker, the active controller; `ClientError` if there is
        none. `origin` names the client for which it is sent."""
        controller_id = self.controller_id
        if controller_id in (-1, self._node_id):
            raise UnknownBroker("no active controller is known")
        return await self._peers.request(
            controller_id, request, answer, timeout_s=timeout_s, version=version, origin=origin
        )
