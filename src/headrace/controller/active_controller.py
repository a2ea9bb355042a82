"""The controller at work: decisions in turns, committed in batches, told to every broker.

Each decision is taken on the image after the one before it. Decisions that wait while a commit is
under way are committed together. Nothing is told to anybody before it is committed, and every
commit is fenced by the controller epoch: who has lost the office without knowing it changes
nothing.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

from headrace.cluster.features import initial_features
from headrace.cluster.image import MetadataImage
from headrace.cluster.image_diff import records_between
from headrace.cluster.records import ConfigChanged, MetadataRecord
from headrace.cluster.store import (
    AnotherCluster,
    ClusterStore,
    ConnectionSuspended,
    Elected,
    Fenced,
    Registration,
    StoreError,
    TooLarge,
)
from headrace.controller.broker_fencing import (
    Arrival,
    elect_new_leaders,
    fence_broker,
    reconcile_brokers,
)
from headrace.controller.decisions import Decisions
from headrace.controller.epoch_bump import raised_epochs
from headrace.controller.errors import NotController
from headrace.controller.leader_election import (
    Disks,
    Rules,
    initialize_partitions,
    rebalance_preferred_leaders,
    update_eligible_leaders,
)
from headrace.controller.metadata_polls import FollowedMetadata, MetadataPolls
from headrace.controller.result import ControllerResult

T = TypeVar("T")

log = logging.getLogger(__name__)

MAX_TURNS_PER_COMMIT: Final = 256
"""Decisions that share a commit: enough to keep up, and no commit takes long."""

RETRY_S: Final = 0.1
LOOK_S: Final = 5.0
"""How often the store is looked at without being told to: a watch may be lost with its server."""

FIRST_REBALANCE_S: Final = 5.0
"""Kafka's: a new controller looks soon, and then in the rhythm that is set."""

UNCLEAN_ELECTION: Final = "unclean.leader.election.enable"
MIN_IN_SYNC: Final = "min.insync.replicas"


LAST_WORDS_S: Final = 2.0
"""How long a controller that leaves waits for the store, for each of its last two wishes."""


class Decided(NamedTuple, Generic[T]):
    """What came of a decision, and the version of the metadata that holds it."""

    results: Sequence[T]
    version: int


class _PendingDecision(NamedTuple):
    decision: Callable[[Decisions], ControllerResult[Any]]
    done: "asyncio.Future[Decided[Any]]"


class ActiveController:
    """One term of one controller."""

    def __init__(
        self,
        store: ClusterStore,
        elected: Elected,
        controller: Decisions,
        metadata: FollowedMetadata,
        *,
        max_imbalance: float | None = None,
        rebalance_s: float = 300.0,
        after_restore: bool = False,
    ) -> None:
        self.elected = elected
        self.polls = MetadataPolls(metadata, elected)
        self._store = store
        self._controller = controller
        self._metadata = metadata
        self._loop = asyncio.get_running_loop()
        self._over: asyncio.Future[None] = self._loop.create_future()
        self._turns: list[_PendingDecision] = []
        self._working: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._look = asyncio.Event()
        self._abandoned = False
        self._max_imbalance = max_imbalance
        self._rebalance_s = rebalance_s
        self._after_restore = after_restore
        self._rebalancing: asyncio.Task[None] | None = None

    # --- the term -------------------------------------------------------------------------------

    async def enter(self, crashed: tuple[int, int] | None = None) -> None:
        """Takes over what is stored. `crashed` is a predecessor (id, broker epoch) known dead."""
        if crashed is not None:
            await self._store.fence(self.elected, *crashed)
        await self._load()
        registered = await self._store.registered(self._look.set)
        await self.decide(lambda controller: self._first_decisions(controller, registered))
        self._watching = self._loop.create_task(self._watch())
        if self._max_imbalance is not None:
            self._rebalancing = self._loop.create_task(self._rebalance(self._max_imbalance))

    async def until_over(self) -> None:
        await asyncio.shield(self._over)

    @property
    def is_over(self) -> bool:
        return self._over.done()

    def abandon(self) -> None:
        """Ends the term without a word, as a crash does."""
        self._abandoned = True
        self._end("the process ends")

    async def leave(self) -> None:
        """Ends the term; others may be elected at once."""
        self._end("the controller resigns")
        if self._abandoned:
            return
        # A store that is gone answers neither: whoever stops must not wait for it. What was sent
        # may be stored or not; nobody was told.
        if self._working is not None:
            _, waiting = await asyncio.wait({self._working}, timeout=LAST_WORDS_S)
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
        try:
            async with asyncio.timeout(LAST_WORDS_S):
                await self._store.resign(self.elected)
        except (StoreError, TimeoutError) as error:
            log.info("the office ends with the session", extra={"reason": str(error)})

    def look(self) -> None:
        """Somebody has reason to think that the registrations have changed."""
        self._look.set()

    def _end(self, reason: str) -> None:
        if self._over.done():
            return
        log.info(
            "no longer controller",
            extra={"epoch": self.elected.controller_epoch, "reason": reason},
        )
        self._over.set_result(None)
        for task in (self._watching, self._rebalancing):
            if task is not None and task is not asyncio.current_task():
                task.cancel()
        self._fail_turns(self._turns)
        self._turns = []
        self.polls.close()

    async def _load(self) -> None:
        image = await self._store.load()
        if image.controller_epoch != self.elected.controller_epoch:
            raise Fenced(f"controller epoch {image.controller_epoch} is in office")
        known = self._metadata.image
        if known.cluster_id and image.cluster_id != known.cluster_id:
            raise AnotherCluster(f"the store is of cluster {image.cluster_id or '(none)'}")
        if image.version < known.version:
            # To tell everybody would delete what was made since.
            raise AnotherCluster(
                f"the store has version {image.version} of the metadata, this broker "
                f"{known.version}: what was stored since is lost. Restore it"
            )
        self._tell(image, tuple(records_between(self._metadata.image, image)))

    def _tell(self, image: MetadataImage, records: Sequence[MetadataRecord]) -> None:
        self._metadata.advance(image, records)

    # --- who is there ---------------------------------------------------------------------------

    def _first_decisions(
        self, controller: Decisions, registered: Mapping[int, Registration]
    ) -> ControllerResult[None]:
        raised = tuple(raised_epochs(controller.image)) if self._after_restore else ()
        if raised:
            log.warning("the metadata was restored: all leader epochs jump ahead")
            controller.image = controller.image.apply(raised)
        image = controller.image
        records: list[MetadataRecord] = [] if image.features else list(initial_features())
        records += self._reconciled(controller, registered)
        # This broker's file may name another minimum than that of the controller before.
        records += update_eligible_leaders(
            image.apply(records) if records else image, controller.rules
        )
        return ControllerResult((*raised, *records), ())

    def _reconciled(
        self, controller: Decisions, registered: Mapping[int, Registration]
    ) -> tuple[MetadataRecord, ...]:
        image = controller.image
        arrivals = {id_: _arrival(image, each) for id_, each in registered.items()}
        records = reconcile_brokers(image, controller.rules, arrivals)
        return (*records, *initialize_partitions(image.apply(records) if records else image))

    async def _watch(self) -> None:
        """Follows the registrations, and who is in office, until the term is over."""
        try:
            while not self.is_over:
                try:
                    async with asyncio.timeout(LOOK_S):
                        await self._look.wait()
                except TimeoutError:
                    pass
                self._look.clear()
                try:
                    await self._look_now()
                except ConnectionSuspended:
                    await asyncio.sleep(RETRY_S)
                    self._look.set()
                except NotController:
                    return
        except StoreError as error:
            self._end(str(error))
        except Exception:
            # Who stays in office and does not look any more would miss every broker that comes.
            log.exception("the controller failed")
            self._end("an unexpected error")

    async def _look_now(self) -> None:
        holder = await self._store.controller(self._look.set)
        if holder != (self.elected.controller_id, self.elected.controller_epoch):
            self._end("another controller is in office")
            return
        registered = await self._store.registered(self._look.set)
        await self.decide(
            lambda controller: ControllerResult(self._reconciled(controller, registered), ())
        )

    async def fence(self, broker_id: int, broker_epoch: int) -> None:
        """This broker's process is known to be dead, whatever its session says."""
        try:
            # First the registration: as long as it is there, the broker counts as alive.
            if await self._store.fence(self.elected, broker_id, broker_epoch):
                log.warning(
                    "fenced a broker whose process is gone",
                    extra={"broker": broker_id, "epoch": broker_epoch},
                )
            await self.decide(lambda controller: _fenced(controller, broker_id, broker_epoch))
        except ConnectionSuspended:
            self._look.set()  # the session decides
        except NotController:
            pass
        except StoreError as error:
            self._end(str(error))

    async def _rebalance(self, max_imbalance: float) -> None:
        """Gives leadership back to preferred leaders from time to time."""
        pause_s = min(FIRST_REBALANCE_S, self._rebalance_s)
        while not self.is_over:
            await asyncio.sleep(pause_s)
            pause_s = self._rebalance_s
            try:
                await self.decide(
                    lambda controller: ControllerResult(
                        rebalance_preferred_leaders(
                            controller.image, controller.rules, max_imbalance=max_imbalance
                        ),
                        (),
                    )
                )
            except NotController:
                continue  # the store was out of reach, or the term is over

    # --- decisions ------------------------------------------------------------------------------

    async def decide(self, decision: Callable[[Decisions], ControllerResult[T]]) -> Decided[T]:
        """Takes its turn; raises `NotController` if the office is lost before it is committed."""
        if self.is_over:
            raise NotController
        turn = _PendingDecision(decision, self._loop.create_future())
        self._turns.append(turn)
        if self._working is None:
            self._working = self._loop.create_task(self._work())
        # A caller that goes away does not take its decision back.
        decided: Decided[T] = await asyncio.shield(turn.done)
        return decided

    async def spread(self, version: int) -> None:
        """Returns when every live broker has this version, or soon after."""
        await self.polls.spread(version)

    async def _work(self) -> None:
        try:
            while self._turns and not self.is_over:
                turns = self._turns[:MAX_TURNS_PER_COMMIT]
                del self._turns[:MAX_TURNS_PER_COMMIT]
                try:
                    await self._take(turns)
                except TooLarge as error:
                    await self._one_by_one(turns, error)
                except ConnectionSuspended:
                    # Whatever of it is stored: it is not taken back, and not answered.
                    self._fail_turns(turns)
                    await self._recover()
                except BaseException:
                    self._fail_turns(turns)
                    raise
        except StoreError as error:
            self._end(str(error))
        except Exception:
            log.exception("the controller failed")
            self._end("an unexpected error")
        finally:
            self._working = None

    async def _take(self, turns: Sequence[_PendingDecision]) -> None:
        controller = self._controller
        before = controller.image = self._metadata.image
        records: list[MetadataRecord] = []
        answers: list[tuple[_PendingDecision, Sequence[Any]]] = []
        for turn in turns:
            try:
                outcome = turn.decision(controller)
                if outcome.records:
                    controller.image = controller.image.apply(outcome.records)
                    records += outcome.records
            except Exception as error:
                _fail(turn, error)
                continue
            answers.append((turn, outcome.results))
        image = before
        if records:
            await self._store.commit(records, self.elected)
            # One version a commit, however many decisions it holds: the store counts commits.
            image = controller.image.at_version(before.version + 1)
            self._tell(image, records)
            self._follow_up(records)
        for turn, results in answers:
            if not turn.done.done():
                turn.done.set_result(Decided(results, image.version))

    async def _one_by_one(self, turns: Sequence[_PendingDecision], error: TooLarge) -> None:
        """One of them is too large for the store: the others need not suffer for it."""
        await self._load()
        if len(turns) == 1:
            _fail(turns[0], error)
            return
        for turn in turns:
            try:
                await self._take([turn])
            except TooLarge as its_own:
                await self._one_by_one([turn], its_own)

    async def _recover(self) -> None:
        """The store was out of reach: waits for it and looks at what it has."""
        while not self.is_over:
            try:
                await self._load()
                return
            except ConnectionSuspended:
                await asyncio.sleep(RETRY_S)

    def _follow_up(self, records: Sequence[MetadataRecord]) -> None:
        names = {each.name for each in records if isinstance(each, ConfigChanged)}
        if UNCLEAN_ELECTION in names:
            # Partitions that had nobody to lead them may have somebody now.
            self._add_turn(elect_new_leaders)
        if MIN_IN_SYNC in names:
            # Leaders acknowledge again when nobody out of sync may be elected any more.
            self._add_turn(update_eligible_leaders)

    def _add_turn(
        self, decide: Callable[[MetadataImage, Rules], tuple[MetadataRecord, ...]]
    ) -> None:
        self._turns.append(
            _PendingDecision(
                lambda controller: ControllerResult(decide(controller.image, controller.rules), ()),
                self._loop.create_future(),
            )
        )

    def _fail_turns(self, turns: Sequence[_PendingDecision]) -> None:
        for turn in turns:
            _fail(turn, NotController())


def _fail(turn: _PendingDecision, error: Exception) -> None:
    if not turn.done.done():
        turn.done.set_exception(error)
        turn.done.exception()  # its caller may be gone; that is no reason to complain


def _arrival(image: MetadataImage, now: Registration) -> Arrival:
    """Whether the broker's log is known to be what it was (KIP-966)."""
    before = image.brokers.get(now.broker.broker_id)
    if before is None:
        return Arrival(now.broker)
    disks = _disks(set(before.directories), set(now.broker.directories))
    intact = (
        (disks is Disks.KEPT and now.clean_shutdown_epoch == before.epoch)
        # The same process under a new epoch: its session ended, not its memory.
        or now.broker.incarnation_id == before.incarnation_id
    )
    return Arrival(now.broker, intact, disks)


def _disks(before: set[str], now: set[str]) -> Disks:
    if before <= now:
        return Disks.KEPT
    return Disks.LOST if before.isdisjoint(now) else Disks.CHANGED


def _fenced(controller: Decisions, broker_id: int, broker_epoch: int) -> ControllerResult[None]:
    broker = controller.image.brokers.get(broker_id)
    if broker is None or broker.epoch != broker_epoch:
        return ControllerResult((), ())  # it is back already, in another life
    return ControllerResult(fence_broker(controller.image, controller.rules, broker_id), ())
