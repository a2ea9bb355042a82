"""This broker as a member of its cluster: it registers, and follows the controller or is elected.

Guarantees: while the session with the metadata store lasts, the broker is registered under one
epoch; after the session ends, it registers again under a new one. Metadata comes from the
controller by long polls, in order, and never from a controller with an earlier epoch than the last.
While there is no controller, the broker stands for election. While the store is unreachable, the
broker keeps serving clients and keeps polling the last controller.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple, TypeVar, cast

from headrace.broker.membership.fast_failure_detection import FastFailureDetection
from headrace.broker.membership.peers import METADATA, Peers
from headrace.broker.metadata.member_metadata import MemberMetadata
from headrace.client.connection import Address
from headrace.client.errors import ClientError, ConnectionLost, RequestTimedOut, UnknownBroker
from headrace.cluster.image import MetadataImage
from headrace.cluster.image_diff import records_between
from headrace.cluster.metadata_record_format import decode
from headrace.cluster.metadata_store import (
    AnotherCluster,
    ClusterStore,
    ConnectionSuspended,
    Elected,
    Registration,
    SessionExpired,
    StoreError,
)
from headrace.cluster.topology import BrokerRegistration
from headrace.controller.active_controller import ActiveController
from headrace.controller.errors import NotController
from headrace.protocol.messages.cluster_metadata import (
    ClusterMetadataRequest,
    ClusterMetadataResponse,
)
from headrace.protocol.struct import Struct

R = TypeVar("R", bound=Struct)
T = TypeVar("T")

log = logging.getLogger(__name__)

POLL_WAIT_MS: Final = 2_000
POLL_TIMEOUT_S: Final = 10.0
RETRY_S: Final = 0.05
LONGEST_RETRY_S: Final = 5.0
"""After unexpected failures: each attempt may run an election and load all metadata."""

OLD_INCARNATION_CHECK_S: Final = 1.0
FOREIGN_STORE_CHECK_S: Final = 5.0
"""How often a store of another cluster is checked: only an operator can fix that."""

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
        listener: str | None,
        detect_crashes: bool,
    ) -> None:
        self._store = store
        self._metadata = metadata
        self._peers = peers
        self._make_active_controller = make_active_controller
        self._answer_here = answer_here
        self._node_id = node_id
        self._listener = listener
        self.crashes = FastFailureDetection(
            metadata, self.address_of, node_id=node_id, enabled=detect_crashes
        )
        self._identity: BrokerIdentity | None = None
        self.broker_epoch = -1
        self._holder: tuple[int, int] | None = None
        self._answered_by: tuple[int, int] | None = None  # the last controller that answered
        self._registrations_seen: dict[int, BrokerRegistration] = {}
        self._failure_pause_s = RETRY_S
        self._registered = asyncio.Event()
        self._lost = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        store.on_lost(self._lost.set)
        peers.on_lost = self.crashes.connection_lost

    # --- queries --------------------------------------------------------------------------------

    @property
    def active_controller(self) -> ActiveController | None:
        return self._metadata.active_controller

    @property
    def controller_id(self) -> int:
        """The active controller as far as this broker knows; -1 if there is none."""
        if self.active_controller is not None:
            return self._node_id
        return self._holder[0] if self._holder is not None else -1

    def address_of(self, broker_id: int) -> Address | None:
        """The address at which a broker listens for its peers, from its latest registration."""
        known = self._latest_registration(broker_id)
        return None if known is None else self._address(known)

    def incarnation_of(self, broker_id: int) -> bytes | None:
        """The latest known incarnation of a broker."""
        known = self._latest_registration(broker_id)
        return None if known is None else known.incarnation_id

    def _address(self, broker: BrokerRegistration) -> Address | None:
        endpoint = broker.endpoint(self._listener) if self._listener else None
        if endpoint is None and broker.endpoints and not self._listener:
            endpoint = broker.endpoints[0]
        return None if endpoint is None else Address(endpoint.host, endpoint.port)

    # --- joining and leaving --------------------------------------------------------------------

    async def start(self, identity: BrokerIdentity) -> None:
        """Registers; raises `StoreError` if the store refuses."""
        self._identity = identity
        await self._register()
        loop = asyncio.get_running_loop()
        self._tasks = [
            loop.create_task(self._keep_registered()),
            loop.create_task(self._keep_following()),
        ]

    async def joined(self) -> None:
        """Waits until the metadata has this incarnation of the broker."""
        while not self._is_in_metadata():
            await self._metadata.next_change()

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
                log.error(
                    "cannot register with the metadata store, retrying in %g s",
                    pause_s,
                    extra={"broker": self._node_id, "error": str(error)},
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

    # --- the controller -------------------------------------------------------------------------

    async def _keep_following(self) -> None:
        while True:
            try:
                await self._registered.wait()
                await self._follow_once()
            except AnotherCluster as error:
                log.error(
                    "refusing the metadata store, checking it again in %g s",
                    FOREIGN_STORE_CHECK_S,
                    extra={"broker": self._node_id, "error": str(error)},
                )
                await asyncio.sleep(FOREIGN_STORE_CHECK_S)
            except StoreError as error:
                log.info(
                    "metadata store request failed, retrying in %g s",
                    RETRY_S,
                    extra={"broker": self._node_id, "error": str(error)},
                )
                await asyncio.sleep(RETRY_S)
            except NotController:
                log.info(
                    "lost the controller election before the term began, retrying in %g s",
                    RETRY_S,
                    extra={"broker": self._node_id},
                )
                await asyncio.sleep(RETRY_S)
            except Exception:
                log.exception(
                    "following the controller failed, retrying in %g s",
                    self._failure_pause_s,
                    extra={"broker": self._node_id},
                )
                await asyncio.sleep(self._failure_pause_s)
                self._failure_pause_s = min(2 * self._failure_pause_s, LONGEST_RETRY_S)

    async def _follow_once(self) -> None:
        changed = asyncio.Event()
        try:
            self._holder = await self._store.controller(changed.set)
        except ConnectionSuspended:
            # The last controller may still be active: it can send committed metadata without the
            # store.
            if self._holder is None or self._holder[0] == self._node_id:
                await asyncio.sleep(RETRY_S)
            else:
                await self._follow(self._holder, changed, polls=1)
            return
        holder = self._holder
        if holder is None:
            await self._stand_for_election()
        elif holder[0] != self._node_id:
            await self._follow(holder, changed)
        elif not await self._stand_for_election():
            # An earlier incarnation of this broker is the controller until its session ends.
            await _wait_for_either(changed.wait(), asyncio.sleep(OLD_INCARNATION_CHECK_S))

    async def _stand_for_election(self, instead_of: tuple[int, int] | None = None) -> bool:
        """Stands for election; serves the term if elected. Returns whether it was elected."""
        crashed = None
        if instead_of is not None:
            dead = self._latest_registration(instead_of[0])
            crashed = None if dead is None else (dead.broker_id, dead.epoch)
        await self._check_store()
        elected = await self._store.elect(self._node_id, instead_of=instead_of)
        if elected is None:
            await asyncio.sleep(0)
            return False
        log.info(
            "elected controller",
            extra={"broker": self._node_id, "epoch": elected.controller_epoch},
        )
        active_controller = self._make_active_controller(elected)
        active_controller.polls.on_polls_ended = self.crashes.polls_ended
        try:
            await active_controller.begin_term(crashed)
            self._failure_pause_s = RETRY_S
            self._metadata.active_controller = active_controller
            self.crashes.term_began(active_controller)
            await active_controller.until_term_ends()
        except (Exception, asyncio.CancelledError):
            # Not `finally`: a coroutine that is closed with its loop cannot await.
            await self._resign_as_controller(active_controller)
            raise
        await self._resign_as_controller(active_controller)
        return True

    async def _resign_as_controller(self, active_controller: ActiveController) -> None:
        self._metadata.active_controller = None
        await active_controller.resign()

    def _latest_registration(self, broker_id: int) -> BrokerRegistration | None:
        known = self._metadata.image.brokers.get(broker_id)
        seen = self._registrations_seen.get(broker_id)
        return seen if known is None or (seen is not None and seen.epoch > known.epoch) else known

    async def _follow(
        self, holder: tuple[int, int], changed: asyncio.Event, *, polls: int | None = None
    ) -> None:
        """Polls this controller until another one is elected or this one cannot be reached."""
        await self._find_address(holder[0])
        heard = self._answered_by == holder
        while not changed.is_set() and polls != 0:
            polls = None if polls is None else polls - 1
            try:
                answer = await _first_result(self._poll(holder[0]), changed.wait())
            except ConnectionLost:
                if heard and await self.crashes.is_dead(holder[0], changed.is_set):
                    await self._stand_for_election(instead_of=holder)
                    return
                await _wait_for_either(changed.wait(), asyncio.sleep(RETRY_S))
                return
            except ClientError as error:
                log.info(
                    "controller poll failed, retrying in %g s",
                    RETRY_S,
                    extra={"broker": self._node_id, "controller": holder[0], "error": str(error)},
                )
                await _wait_for_either(changed.wait(), asyncio.sleep(RETRY_S))
                return
            if answer is None:
                return
            if answer.error_code or not self._apply_metadata(answer):
                await _wait_for_either(changed.wait(), asyncio.sleep(RETRY_S))
                return
            heard, self._answered_by = True, holder
            self._failure_pause_s = RETRY_S
            await self._metadata.until_published()

    async def _find_address(self, broker_id: int) -> None:
        """Looks up the controller's address; the image may lack its current incarnation."""
        try:
            registered: Mapping[int, Registration] = await self._store.registered()
        except ConnectionSuspended:
            return
        found = registered.get(broker_id)
        if found is not None:
            self._registrations_seen[broker_id] = found.broker

    async def _poll(self, controller_id: int) -> ClusterMetadataResponse:
        image = self._metadata.image
        request = ClusterMetadataRequest(
            broker_id=self._node_id,
            broker_epoch=self.broker_epoch,
            controller_epoch=image.controller_epoch,
            version=image.version,
            max_wait_ms=POLL_WAIT_MS,
        )
        return await self._peers.request(
            controller_id,
            request,
            ClusterMetadataResponse,
            timeout_s=POLL_TIMEOUT_S,
            channel=METADATA,
        )

    def _apply_metadata(self, answer: ClusterMetadataResponse) -> bool:
        """Applies the controller's changes; returns False if they come from an earlier
        controller."""
        before = self._metadata.image
        if (answer.controller_epoch, answer.version) < (before.controller_epoch, before.version):
            return False
        if answer.version != before.version:
            self._advance_metadata(answer)
        return True

    def _advance_metadata(self, answer: ClusterMetadataResponse) -> None:
        before = self._metadata.image
        records = [decode(each) for each in answer.records]
        if answer.is_snapshot:
            image = MetadataImage().apply(records).at_version(answer.version)
            records = list(records_between(before, image))
        else:
            image = before.apply(records).at_version(answer.version)
        self._metadata.advance(image, records)

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
        self, request: Struct, answer: type[R], *, timeout_s: float, version: int | None = None
    ) -> R:
        """Sends a request to another broker, the active controller; `ClientError` if there is
        none."""
        controller_id = self.controller_id
        if controller_id in (-1, self._node_id):
            raise UnknownBroker("no active controller is known")
        return await self._peers.request(
            controller_id, request, answer, timeout_s=timeout_s, version=version
        )


async def _first_result(wanted: Awaitable[T], interruption: Awaitable[object]) -> T | None:
    """The result of `wanted`, or None if the interruption comes first."""
    work = asyncio.ensure_future(wanted)
    end = asyncio.ensure_future(interruption)
    try:
        await asyncio.wait({work, end}, return_when=asyncio.FIRST_COMPLETED)
        return work.result() if work.done() else None
    finally:
        work.cancel()
        end.cancel()


async def _wait_for_either(one: Awaitable[object], other: Awaitable[object]) -> None:
    await _first_result(one, other)
