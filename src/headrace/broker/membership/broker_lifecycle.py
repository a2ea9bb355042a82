"""This broker as a member of its cluster: registered, following the controller, or being it.

Guarantees: while the session with the store lasts, the broker is registered under one epoch; after
its end it registers again, under a new one. Metadata comes from the controller by long polls, in
order, and never from one with an earlier epoch than heard of before. While there is no controller,
the broker stands for election. Without the store serving goes on, and the broker polls the last
controller.
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
from headrace.cluster.record_format import decode
from headrace.cluster.store import (
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
"""After failures that nobody expected: each attempt may be an election, and load all metadata."""

OLD_LIFE_LOOK_S: Final = 1.0
FOREIGN_LOOK_S: Final = 5.0
"""How often a store of another cluster is looked at: only a person can mend that."""

UNTIL_RESTORED: Final = (
    "Restore what it had. Until then this broker serves what it knows, and takes no part in "
    "anything new"
)


class BrokerIdentity(NamedTuple):
    """What a process registers of itself; `last_epoch` is that of a life that ended cleanly."""

    broker: BrokerRegistration
    storage_id: str = ""
    last_epoch: int | None = None
    cluster_id: str = ""


class BrokerLifecycle:
    """Runs until it is stopped; `start` returns when the broker is registered."""

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
        self._heard_from: tuple[int, int] | None = None  # a controller that has answered
        self._seen: dict[int, BrokerRegistration] = {}
        self._failure_pause_s = RETRY_S
        self._registered = asyncio.Event()
        self._lost = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        store.on_lost(self._lost.set)
        peers.on_lost = self.crashes.connection_lost

    # --- what others ask ------------------------------------------------------------------------

    @property
    def active_controller(self) -> ActiveController | None:
        return self._metadata.active_controller

    @property
    def controller_id(self) -> int:
        """The id of the active controller, as far as this broker knows; -1 while there is none."""
        if self.active_controller is not None:
            return self._node_id
        return self._holder[0] if self._holder is not None else -1

    def address_of(self, broker_id: int) -> Address | None:
        """Where a broker listens for its peers, by its latest life that is known."""
        known = self._latest(broker_id)
        return None if known is None else self._address(known)

    def life_of(self, broker_id: int) -> bytes | None:
        """The latest life of a broker that is known."""
        known = self._latest(broker_id)
        return None if known is None else known.incarnation_id

    def _address(self, broker: BrokerRegistration) -> Address | None:
        endpoint = broker.endpoint(self._listener) if self._listener else None
        if endpoint is None and broker.endpoints and not self._listener:
            endpoint = broker.endpoints[0]
        return None if endpoint is None else Address(endpoint.host, endpoint.port)

    # --- joining and leaving --------------------------------------------------------------------

    async def start(self, identity: BrokerIdentity) -> None:
        """Registers; raises `StoreError` if that cannot be."""
        self._identity = identity
        await self._register()
        loop = asyncio.get_running_loop()
        self._tasks = [
            loop.create_task(self._keep_registered()),
            loop.create_task(self._keep_following()),
        ]

    async def joined(self) -> None:
        """Returns when the metadata knows this life of the broker."""
        while not self._is_known():
            await self._metadata.next_news()

    def _is_known(self) -> bool:
        known = self._metadata.image.brokers.get(self._node_id)
        return known is not None and known.epoch == self.broker_epoch and not known.fenced

    async def stop(self) -> None:
        """Resigns if this broker is the active controller, and stops following another."""
        self._cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def crash(self) -> None:
        """Stops at once and says nothing to anybody."""
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
        # Should it register again, this life's log is what it was.
        self._identity = identity._replace(last_epoch=self.broker_epoch)
        self._registered.set()
        log.info("registered", extra={"broker": self._node_id, "epoch": self.broker_epoch})

    async def _keep_registered(self) -> None:
        while True:
            await self._lost.wait()
            self._registered.clear()
            if self.active_controller is not None:
                self.active_controller.look()
            try:
                await self._check_store()
                await self._register()
            except (ConnectionSuspended, SessionExpired):
                await asyncio.sleep(RETRY_S)
                self._lost.set()
            except StoreError as error:
                log.error("not registered", extra={"error": str(error)})
                foreign = isinstance(error, AnotherCluster)
                await asyncio.sleep(FOREIGN_LOOK_S if foreign else RETRY_S)
                self._lost.set()

    async def _check_store(self) -> None:
        """A store that lost its data, or another's, has no topics of ours: they would be given up.

        What it needs to be trusted again is what was there before.
        """
        assert self._identity is not None
        ours, found = self._identity.cluster_id, await self._store.stored_cluster_id()
        if found != ours:
            raise AnotherCluster(
                f"what is stored belongs to {f'cluster {found}' if found else 'no cluster'}, this "
                f"broker to {ours}: has ZooKeeper lost its data? {UNTIL_RESTORED}"
            )
        # Before an election: that counts as a version, and hides what is missing.
        known, stored = self._metadata.image.version, await self._store.stored_version()
        if stored < known:
            raise AnotherCluster(
                f"version {stored} of the metadata is stored, this broker knows {known}: was "
                f"ZooKeeper restored from an old backup? {UNTIL_RESTORED}"
            )

    # --- the controller -------------------------------------------------------------------------

    async def _keep_following(self) -> None:
        while True:
            try:
                await self._registered.wait()
                await self._follow_once()
            except AnotherCluster as error:
                log.error("the store is not to be trusted", extra={"error": str(error)})
                await asyncio.sleep(FOREIGN_LOOK_S)
            except StoreError as error:
                log.info("the store has trouble", extra={"error": str(error)})
                await asyncio.sleep(RETRY_S)
            except NotController:
                log.info("the controller election was lost before the term began")
                await asyncio.sleep(RETRY_S)
            except Exception:
                log.exception("following the controller failed")
                await asyncio.sleep(self._failure_pause_s)
                self._failure_pause_s = min(2 * self._failure_pause_s, LONGEST_RETRY_S)

    async def _follow_once(self) -> None:
        changed = asyncio.Event()
        try:
            self._holder = await self._store.controller(changed.set)
        except ConnectionSuspended:
            # The last controller may still be active: it publishes its commits without a store.
            if self._holder is None or self._holder[0] == self._node_id:
                await asyncio.sleep(RETRY_S)
            else:
                await self._follow(self._holder, changed, polls=1)
            return
        holder = self._holder
        if holder is None:
            await self._stand()
        elif holder[0] != self._node_id:
            await self._follow(holder, changed)
        elif not await self._stand():
            # An earlier incarnation of this broker is the controller until its session ends.
            await _either(changed.wait(), asyncio.sleep(OLD_LIFE_LOOK_S))

    async def _stand(self, instead_of: tuple[int, int] | None = None) -> bool:
        """Stands for election; serves the term if it wins, and says whether it did."""
        crashed = None
        if instead_of is not None:
            dead = self._latest(instead_of[0])
            crashed = None if dead is None else (dead.broker_id, dead.epoch)
        await self._check_store()
        elected = await self._store.elect(self._node_id, instead_of=instead_of)
        if elected is None:
            await asyncio.sleep(0)
            return False
        log.info("elected controller", extra={"epoch": elected.controller_epoch})
        active_controller = self._make_active_controller(elected)
        active_controller.polls.on_gone = self.crashes.polls_ended
        try:
            await active_controller.enter(crashed)
            self._failure_pause_s = RETRY_S
            self._metadata.active_controller = active_controller
            self.crashes.term_began(active_controller)
            await active_controller.until_over()
        except (Exception, asyncio.CancelledError):
            # Not for a coroutine that is thrown away with its loop: it can wait for nothing.
            await self._leave(active_controller)
            raise
        await self._leave(active_controller)
        return True

    async def _leave(self, active_controller: ActiveController) -> None:
        self._metadata.active_controller = None
        await active_controller.leave()

    def _latest(self, broker_id: int) -> BrokerRegistration | None:
        known = self._metadata.image.brokers.get(broker_id)
        seen = self._seen.get(broker_id)
        return seen if known is None or (seen is not None and seen.epoch > known.epoch) else known

    async def _follow(
        self, holder: tuple[int, int], changed: asyncio.Event, *, polls: int | None = None
    ) -> None:
        """Polls this controller until another is elected or it cannot be reached."""
        await self._find(holder[0])
        heard = self._heard_from == holder
        while not changed.is_set() and polls != 0:
            polls = None if polls is None else polls - 1
            try:
                answer = await _first(self._poll(holder[0]), changed.wait())
            except ConnectionLost:
                if heard and await self.crashes.is_dead(holder[0], changed.is_set):
                    await self._stand(instead_of=holder)
                    return
                await _either(changed.wait(), asyncio.sleep(RETRY_S))
                return
            except ClientError as error:
                log.info("no metadata", extra={"controller": holder[0], "error": str(error)})
                await _either(changed.wait(), asyncio.sleep(RETRY_S))
                return
            if answer is None:
                return
            if answer.error_code or not self._take(answer):
                await _either(changed.wait(), asyncio.sleep(RETRY_S))
                return
            heard, self._heard_from = True, holder
            self._failure_pause_s = RETRY_S
            await self._metadata.until_published()

    async def _find(self, broker_id: int) -> None:
        """Where the controller listens; the image may not know its present life."""
        try:
            registered: Mapping[int, Registration] = await self._store.registered()
        except ConnectionSuspended:
            return
        found = registered.get(broker_id)
        if found is not None:
            self._seen[broker_id] = found.broker

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

    def _take(self, answer: ClusterMetadataResponse) -> bool:
        """Goes on to what the controller says, unless it comes from an earlier one."""
        before = self._metadata.image
        if (answer.controller_epoch, answer.version) < (before.controller_epoch, before.version):
            return False
        if answer.version == before.version:
            return True
        records = [decode(each) for each in answer.records]
        if answer.is_snapshot:
            image = MetadataImage().apply(records).at_version(answer.version)
            records = list(records_between(before, image))
        else:
            image = before.apply(records).at_version(answer.version)
        self._metadata.advance(image, records)
        return True

    # --- questions to the controller ------------------------------------------------------------

    async def ask_controller(self, request: Struct, answer: type[R], *, timeout_s: float) -> R:
        """One question to whoever is controller now, this broker included.

        Raises `ClientError`, or answers NOT_CONTROLLER; the caller tries again.
        """
        if self.active_controller is None:
            return await self.ask(request, answer, timeout_s=timeout_s)
        try:
            async with asyncio.timeout(timeout_s):
                return cast("R", await self._answer_here(request))
        except TimeoutError:
            raise RequestTimedOut(f"no decision within {timeout_s:g} s") from None

    async def ask(
        self, request: Struct, answer: type[R], *, timeout_s: float, version: int | None = None
    ) -> R:
        """Sends a request to the active controller, another broker; else raises `ClientError`."""
        controller_id = self.controller_id
        if controller_id in (-1, self._node_id):
            raise UnknownBroker("no active controller is known")
        return await self._peers.request(
            controller_id, request, answer, timeout_s=timeout_s, version=version
        )


async def _first(wanted: Awaitable[T], interruption: Awaitable[object]) -> T | None:
    """What is wanted, or None if the interruption comes first."""
    work = asyncio.ensure_future(wanted)
    end = asyncio.ensure_future(interruption)
    try:
        await asyncio.wait({work, end}, return_when=asyncio.FIRST_COMPLETED)
        return work.result() if work.done() else None
    finally:
        work.cancel()
        end.cancel()


async def _either(one: Awaitable[object], other: Awaitable[object]) -> None:
    await _first(one, other)
