"""The active controller: it makes decisions one at a time, commits them, and publishes the result.

Each decision sees the image after the previous one. Decisions that arrive during a commit share the
next commit. The controller publishes nothing before it is committed. Every commit carries the
controller epoch, so a controller that lost the election without noticing cannot change anything.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

from headrace.cluster.features import initial_features
from headrace.cluster.image import MetadataImage
from headrace.cluster.image_diff import records_between
from headrace.cluster.metadata_records import ConfigChanged, MetadataRecord
from headrace.cluster.metadata_store import (
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
from headrace.controller.election_triggers import (
    Disks,
    initialize_partitions,
    rebalance_preferred_leaders,
    update_eligible_leaders,
)
from headrace.controller.epoch_bump import raised_epochs
from headrace.controller.errors import NotController
from headrace.controller.leader_election import Rules
from headrace.controller.metadata_controller import MetadataController
from headrace.controller.metadata_polls import FollowedMetadata, MetadataPolls
from headrace.controller.result import ControllerResult

T = TypeVar("T")

log = logging.getLogger(__package__)

MAX_DECISIONS_PER_COMMIT: Final = 256
"""Decisions that share a commit: enough to keep up, few enough for a short commit."""

RETRY_S: Final = 0.1
STORE_CHECK_S: Final = 5.0
"""How often registrations are read without a watch event: a watch can be lost with its server."""

FIRST_REBALANCE_S: Final = 5.0
"""As in Kafka: a new controller rebalances soon, then at the configured interval."""

UNCLEAN_ELECTION: Final = "unclean.leader.election.enable"
MIN_IN_SYNC: Final = "min.insync.replicas"


RESIGN_TIMEOUT_S: Final = 2.0
"""How long a resigning controller waits for the store: once for its commit, once to resign."""


class Decided(NamedTuple, Generic[T]):
    """The results of a decision, and the metadata version that contains it."""

    results: Sequence[T]
    version: int


class _PendingDecision(NamedTuple):
    decision: Callable[[MetadataController], ControllerResult[Any]]
    done: "asyncio.Future[Decided[Any]]"


class ActiveController:
    """One term of one controller, from its election to its resignation."""

    def __init__(
        self,
        store: ClusterStore,
        elected: Elected,
        controller: MetadataController,
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
        self._pending: list[_PendingDecision] = []
        self._committing: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._store_changed = asyncio.Event()
        self._abandoned = False
        self.is_store_reachable = True
        """False while no decision can be committed. Another controller may be elected meanwhile,
        and this one does not notice before it reaches the store again."""
        self._max_imbalance = max_imbalance
        self._rebalance_s = rebalance_s
        self._after_restore = after_restore
        self._rebalancing: asyncio.Task[None] | None = None
        self._found_dead: dict[int, int] = {}  # epochs by broker id

    # --- the term -------------------------------------------------------------------------------

    async def begin_term(self, crashed: tuple[int, int] | None = None) -> None:
        """Loads the store. `crashed` is a predecessor (id, broker epoch) known to be dead."""
        if crashed is not None:
            self._found_dead[crashed[0]] = crashed[1]
            await self._store.fence(self.elected, *crashed)
        await self._load_image()
        registered = await self._store.registered(self._store_changed.set)
        await self.decide(lambda controller: self._initial_records(controller, registered))
        self._watching = self._loop.create_task(self._watch_store())
        if self._max_imbalance is not None:
            self._rebalancing = self._loop.create_task(
                self._rebalance_periodically(self._max_imbalance)
            )

    async def until_term_ends(self) -> None:
        await asyncio.shield(self._over)

    @property
    def is_over(self) -> bool:
        return self._over.done()

    def abandon(self) -> None:
        """Ends the term without resigning, as a crash would."""
        self._abandoned = True
        self._end_term("the process is exiting")

    async def resign(self) -> None:
        """Ends the term and resigns, so that another controller can be elected at once."""
        self._end_term("the controller resigns")
        if self._abandoned:
            return
        # If the store is unreachable, a stop must not wait for it. A commit that was sent may be
        # stored or not; it was never published.
        if self._committing is not None:
            _, waiting = await asyncio.wait({self._committing}, timeout=RESIGN_TIMEOUT_S)
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
        try:
            async with asyncio.timeout(RESIGN_TIMEOUT_S):
                await self._store.resign(self.elected)
        except (StoreError, TimeoutError) as error:
            log.info(
                "could not resign as controller; the role ends with the ZooKeeper session",
                extra={"error": str(error)},
            )

    def recheck_registrations(self) -> None:
        """Reads the registrations again soon: they may have changed."""
        self._store_changed.set()

    def _end_term(self, reason: str) -> None:
        if self._over.done():
            return
        log.info(
            "this broker is no longer the controller",
            extra={"epoch": self.elected.controller_epoch, "reason": reason},
        )
        self._over.set_result(None)
        for task in (self._watching, self._rebalancing):
            if task is not None and task is not asyncio.current_task():
                task.cancel()
        self._fail_pending(self._pending)
        self._pending = []
        self.polls.close()

    async def _load_image(self) -> None:
        image = await self._store.load()
        if image.controller_epoch != self.elected.controller_epoch:
            raise Fenced(f"a controller with epoch {image.controller_epoch} is active")
        known = self._metadata.image
        if known.cluster_id and image.cluster_id != known.cluster_id:
            raise AnotherCluster(f"the store belongs to cluster {image.cluster_id or '(none)'}")
        if image.version < known.version:
            # Publishing it would delete topics that were created since.
            raise AnotherCluster(
                f"the store has metadata version {image.version}, but this broker has version "
                f"{known.version}: the newer changes are missing from the store. Restore the store"
            )
        self._metadata.advance(image, tuple(records_between(self._metadata.image, image)))

    # --- registered brokers ---------------------------------------------------------------------

    def _initial_records(
        self, controller: MetadataController, registered: Mapping[int, Registration]
    ) -> ControllerResult[None]:
        raised = tuple(raised_epochs(controller.image)) if self._after_restore else ()
        if raised:
            log.warning("metadata was restored from a backup: raising all leader epochs")
            controller.image = controller.image.apply(raised)
        image = controller.image
        records: list[MetadataRecord] = [] if image.features else list(initial_features())
        records += self._reconcile_records(controller, registered)
        # This broker's min.insync.replicas may differ from that of the previous controller.
        records += update_eligible_leaders(
            image.apply(records) if records else image, controller.rules
        )
        return ControllerResult((*raised, *records), ())

    def _reconcile_records(
        self, controller: MetadataController, registered: Mapping[int, Registration]
    ) -> tuple[MetadataRecord, ...]:
        image = controller.image
        arrivals = {id_: _arrival(image, each) for id_, each in registered.items()}
        records = reconcile_brokers(image, controller.rules, arrivals, self._found_dead)
        return (*records, *initialize_partitions(image.apply(records) if records else image))

    async def _watch_store(self) -> None:
        """Follows the registrations and the controller znode until the term is over."""
        try:
            while not self.is_over:
                try:
                    async with asyncio.timeout(STORE_CHECK_S):
                        await self._store_changed.wait()
                except TimeoutError:
                    pass
                self._store_changed.clear()
                try:
                    await self._check_store()
                except ConnectionSuspended:
                    await asyncio.sleep(RETRY_S)
                    self._store_changed.set()
                except NotController:
                    return
        except StoreError as error:
            self._end_term(str(error))
        except Exception:
            # A controller that no longer reads registrations would miss every new broker.
            log.exception("unexpected error in the controller; its term ends")
            self._end_term("an unexpected error")

    async def _check_store(self) -> None:
        holder = await self._store.controller(self._store_changed.set)
        if holder != (self.elected.controller_id, self.elected.controller_epoch):
            self._end_term("another controller was elected")
            return
        registered = await self._store.registered(self._store_changed.set)
        await self.decide(
            lambda controller: ControllerResult(self._reconcile_records(controller, registered), ())
        )

    async def fence(self, broker_id: int, broker_epoch: int) -> None:
        """Fences a broker whose process is known to be dead, even if its session is still open."""
        self._found_dead[broker_id] = broker_epoch
        try:
            # Delete the registration first: while it exists, the broker counts as alive.
            await self._store.fence(self.elected, broker_id, broker_epoch)
            await self.decide(
                lambda controller: _fence_records(controller, broker_id, broker_epoch)
            )
        except ConnectionSuspended:
            self._store_changed.set()  # its session will expire
        except NotController:
            pass
        except StoreError as error:
            self._end_term(str(error))

    async def _rebalance_periodically(self, max_imbalance: float) -> None:
        """Moves leadership back to preferred leaders at the configured interval."""
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
                continue  # the store was unreachable, or the term is over

    # --- decisions ------------------------------------------------------------------------------

    async def decide(
        self, decision: Callable[[MetadataController], ControllerResult[T]]
    ) -> Decided[T]:
        """Decides and commits; raises `NotController` if the term ends before the commit."""
        if self.is_over:
            raise NotController
        pending = _PendingDecision(decision, self._loop.create_future())
        self._pending.append(pending)
        if self._committing is None:
            self._committing = self._loop.create_task(self._commit_pending())
        # A caller that is cancelled does not cancel its decision.
        decided: Decided[T] = await asyncio.shield(pending.done)
        return decided

    async def until_propagated(self, version: int) -> None:
        """Returns when every live broker has this version, or after `MAX_PROPAGATION_S`."""
        await self.polls.until_propagated(version)

    async def _commit_pending(self) -> None:
        try:
            while self._pending and not self.is_over:
                decisions = self._pending[:MAX_DECISIONS_PER_COMMIT]
                del self._pending[:MAX_DECISIONS_PER_COMMIT]
                try:
                    await self._commit_together(decisions)
                except TooLarge as error:
                    await self._commit_separately(decisions, error)
                except ConnectionSuspended:
                    # The commit may be stored or not: its callers get an error and ask again.
                    self._fail_pending(decisions)
                    await self._reload_when_reachable()
                except BaseException:
                    self._fail_pending(decisions)
                    raise
        except StoreError as error:
            self._end_term(str(error))
        except Exception:
            log.exception("unexpected error in the controller; its term ends")
            self._end_term("an unexpected error")
        finally:
            self._committing = None

    async def _commit_together(self, decisions: Sequence[_PendingDecision]) -> None:
        controller = self._controller
        began = self._loop.time()
        before = controller.image = self._metadata.image
        records: list[MetadataRecord] = []
        answers: list[tuple[_PendingDecision, Sequence[Any]]] = []
        for pending in decisions:
            try:
                outcome = pending.decision(controller)
                if outcome.records:
                    controller.image = controller.image.apply(outcome.records)
                    records += outcome.records
            except Exception as error:
                _fail_decision(pending, error)
                continue
            answers.append((pending, outcome.results))
        image = before
        if records:
            await self._store.commit(records, self.elected)
            # One version per commit, not per decision: the store counts commits.
            image = controller.image.at_version(before.version + 1)
            took_ms = round((self._loop.time() - began) * 1000)
            self._metadata.advance(image, records, took_ms=took_ms)
            self._add_follow_up_decisions(records)
        for pending, results in answers:
            if not pending.done.done():
                pending.done.set_result(Decided(results, image.version))

    async def _commit_separately(
        self, decisions: Sequence[_PendingDecision], error: TooLarge
    ) -> None:
        """Commits one by one, so that only the decision that is too large for the store fails."""
        await self._load_image()
        if len(decisions) == 1:
            _fail_decision(decisions[0], error)
            return
        for pending in decisions:
            try:
                await self._commit_together([pending])
            except TooLarge as its_own:
                await self._commit_separately([pending], its_own)

    async def _reload_when_reachable(self) -> None:
        """Waits until the store is reachable again, and loads it."""
        self.is_store_reachable = False
        while not self.is_over:
            try:
                await self._load_image()
                self.is_store_reachable = True
                return
            except ConnectionSuspended:
                await asyncio.sleep(RETRY_S)

    def _add_follow_up_decisions(self, records: Sequence[MetadataRecord]) -> None:
        names = {each.name for each in records if isinstance(each, ConfigChanged)}
        if UNCLEAN_ELECTION in names:
            # Partitions without a leader may get one by an unclean election.
            self._add_decision(elect_new_leaders)
        if MIN_IN_SYNC in names:
            # With a large enough ISR, replicas out of sync are no longer eligible leaders.
            self._add_decision(update_eligible_leaders)

    def _add_decision(
        self, decide: Callable[[MetadataImage, Rules], tuple[MetadataRecord, ...]]
    ) -> None:
        self._pending.append(
            _PendingDecision(
                lambda controller: ControllerResult(decide(controller.image, controller.rules), ()),
                self._loop.create_future(),
            )
        )

    def _fail_pending(self, decisions: Sequence[_PendingDecision]) -> None:
        for pending in decisions:
            _fail_decision(pending, NotController())


def _fail_decision(pending: _PendingDecision, error: Exception) -> None:
    if not pending.done.done():
        pending.done.set_exception(error)
        pending.done.exception()  # marks it as retrieved: the caller may be gone


def _arrival(image: MetadataImage, now: Registration) -> Arrival:
    """Whether the broker still has every record that it acknowledged (KIP-966)."""
    before = image.brokers.get(now.broker.broker_id)
    if before is None:
        return Arrival(now.broker)
    disks = _compare_disks(set(before.directories), set(now.broker.directories))
    intact = (
        (disks is Disks.KEPT and now.clean_shutdown_epoch == before.epoch)
        # The same process with a new broker epoch: its session expired, its memory is intact.
        or now.broker.incarnation_id == before.incarnation_id
    )
    return Arrival(now.broker, intact, disks)


def _compare_disks(before: set[str], now: set[str]) -> Disks:
    if before <= now:
        return Disks.KEPT
    return Disks.LOST if before.isdisjoint(now) else Disks.CHANGED


def _fence_records(
    controller: MetadataController, broker_id: int, broker_epoch: int
) -> ControllerResult[None]:
    broker = controller.image.brokers.get(broker_id)
    if broker is None or broker.epoch != broker_epoch:
        return ControllerResult((), ())  # a newer incarnation has registered already
    return ControllerResult(fence_broker(controller.image, controller.rules, broker_id), ())
