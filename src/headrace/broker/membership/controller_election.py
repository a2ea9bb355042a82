"""Election of the controller: a broker follows the active controller, or stands for election.

Guarantees: metadata comes from the controller by long polls, in order, and never from a controller
with an earlier epoch than the last. While there is no controller, the broker stands for election;
if it is elected, it is the active controller until its term ends. While the store is unreachable,
the broker keeps polling the last controller.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeVar

from headrace.broker.membership.fast_failure_detection import FastFailureDetection
from headrace.broker.membership.peers import METADATA, Peers
from headrace.broker.metadata.member_metadata import MemberMetadata
from headrace.client.errors import ClientError, ConnectionLost
from headrace.cluster.image import MetadataImage
from headrace.cluster.image_diff import records_between
from headrace.cluster.metadata_record_format import decode
from headrace.cluster.metadata_store import (
    AnotherCluster,
    ClusterStore,
    ConnectionSuspended,
    Elected,
    Registration,
    StoreError,
)
from headrace.cluster.topology import BrokerRegistration
from headrace.controller.active_controller import ActiveController
from headrace.controller.errors import NotController
from headrace.failure_log import FailureLog
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.cluster_metadata import (
    ClusterMetadataRequest,
    ClusterMetadataResponse,
)

T = TypeVar("T")

log = logging.getLogger(__package__)

POLL_WAIT_MS: Final = 2_000
POLL_TIMEOUT_S: Final = 10.0
RETRY_S: Final = 0.05
LONGEST_RETRY_S: Final = 5.0
"""After unexpected failures: each attempt may run an election and load all metadata."""

OLD_INCARNATION_CHECK_S: Final = 1.0
FOREIGN_STORE_CHECK_S: Final = 5.0
"""How often a store of another cluster is checked: only an operator can fix that."""

_DENIED: Final = (
    "the controller denies CLUSTER_ACTION to the principal of this broker; add the principal to "
    "super.users of every broker, or allow it CLUSTER_ACTION on the cluster"
)


class ControllerElection:
    """One broker in the elections of its cluster: a follower, a candidate or the controller."""

    def __init__(
        self,
        store: ClusterStore,
        metadata: MemberMetadata,
        peers: Peers,
        crashes: FastFailureDetection,
        make_active_controller: Callable[[Elected], ActiveController],
        *,
        node_id: int,
        broker_epoch: Callable[[], int],
        registered: asyncio.Event,
        check_store: Callable[[], Awaitable[None]],
    ) -> None:
        self._store = store
        self._metadata = metadata
        self._peers = peers
        self._crashes = crashes
        self._make_active_controller = make_active_controller
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._registered = registered  # set while this broker is registered
        self._check_store = check_store  # raises `AnotherCluster` if the store must not be used
        # The controller (its id and epoch) that the store named last.
        self._controller: tuple[int, int] | None = None
        self._answered_by: tuple[int, int] | None = None  # the last controller that answered
        self._registrations_seen: dict[int, BrokerRegistration] = {}
        self._failure_pause_s = RETRY_S
        self._poll_failures = FailureLog(log)
        self._store_failures = FailureLog(log)
        self.last_failure: str | None = None
        """Why the last poll of the controller failed; None after a poll that did not."""

    @property
    def controller_id(self) -> int:
        """The active controller as far as this broker knows; -1 if there is none."""
        if self._metadata.active_controller is not None:
            return self._node_id
        return self._controller[0] if self._controller is not None else -1

    def latest_registration(self, broker_id: int) -> BrokerRegistration | None:
        """The registration with the highest epoch: of the image, or read from the store since."""
        known = self._metadata.image.brokers.get(broker_id)
        seen = self._registrations_seen.get(broker_id)
        return seen if known is None or (seen is not None and seen.epoch > known.epoch) else known

    # --- standing for election ------------------------------------------------------------------

    async def run(self) -> None:
        """Follows the active controller, or stands for election, until it is cancelled."""
        while True:
            try:
                await self._registered.wait()
                await self._follow_or_stand_for_election()
            except AnotherCluster as error:
                self._store_failures.failed(
                    logging.ERROR,
                    "refusing the metadata store, checking it again in %g s",
                    FOREIGN_STORE_CHECK_S,
                    reason=str(error),
                    fields={"broker": self._node_id},
                )
                await asyncio.sleep(FOREIGN_STORE_CHECK_S)
            except StoreError as error:
                self._store_failures.failed(
                    logging.INFO,
                    "metadata store request failed, retrying in %g s",
                    RETRY_S,
                    reason=str(error),
                    fields={"broker": self._node_id},
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

    async def _follow_or_stand_for_election(self) -> None:
        changed = asyncio.Event()
        try:
            self._controller = await self._store.controller(changed.set)
        except ConnectionSuspended:
            # The last controller may still be active: it can send committed metadata without the
            # store.
            if self._controller is None or self._controller[0] == self._node_id:
                await asyncio.sleep(RETRY_S)
            else:
                await self._follow(self._controller, changed, polls=1)
            return
        self._store_failures.reset()
        controller = self._controller
        if controller is None:
            await self._stand_for_election()
        elif controller[0] != self._node_id:
            await self._follow(controller, changed)
        elif not await self._stand_for_election():
            # An earlier incarnation of this broker is the controller until its session ends.
            await _wait_for_either(changed.wait(), asyncio.sleep(OLD_INCARNATION_CHECK_S))

    async def _stand_for_election(self, instead_of: tuple[int, int] | None = None) -> bool:
        """Stands for election; serves the term if elected. Returns whether it was elected."""
        crashed = None
        if instead_of is not None:
            dead = self.latest_registration(instead_of[0])
            crashed = None if dead is None else (dead.broker_id, dead.epoch)
        await self._check_store()
        elected = await self._store.elect(self._node_id, instead_of=instead_of)
        if elected is None:
            await asyncio.sleep(0)
            return False
        log.info(
            "elected controller",
            extra={
                "broker": self._node_id,
                "epoch": elected.controller_epoch,
                "previous": self._metadata.image.controller_id,
                "cause": self._cause_of_election(instead_of),
            },
        )
        self._poll_failures.reset()
        active_controller = self._make_active_controller(elected)
        active_controller.polls.on_polls_ended = self._crashes.polls_ended
        try:
            await active_controller.begin_term(crashed)
            self._failure_pause_s = RETRY_S
            self._metadata.active_controller = active_controller
            self._crashes.term_began(active_controller)
            await active_controller.until_term_ends()
        except (Exception, asyncio.CancelledError):
            # Not `finally`: a coroutine that is closed with its loop cannot await.
            await self._resign_as_controller(active_controller)
            raise
        await self._resign_as_controller(active_controller)
        return True

    def _cause_of_election(self, instead_of: tuple[int, int] | None) -> str:
        if instead_of is not None:
            return "the controller's process died (fast failure detection)"
        if self._metadata.image.controller_epoch == 0:
            return "this broker knows no controller yet"
        return "the last controller resigned or its ZooKeeper session ended"

    async def _resign_as_controller(self, active_controller: ActiveController) -> None:
        self._metadata.active_controller = None
        await active_controller.resign()

    # --- following the active controller --------------------------------------------------------

    async def _follow(
        self, controller: tuple[int, int], changed: asyncio.Event, *, polls: int | None = None
    ) -> None:
        """Polls this controller until another one is elected or this one cannot be reached."""
        await self._find_address(controller[0])
        heard = self._answered_by == controller
        while not changed.is_set() and polls != 0:
            polls = None if polls is None else polls - 1
            try:
                answer = await _first_result(self._poll(controller[0]), changed.wait())
            except ConnectionLost as error:
                self._log_poll_failure(controller[0], str(error))
                if heard and await self._crashes.is_dead(controller[0], changed.is_set):
                    log.warning(
                        "the controller's process died; standing for election",
                        extra={"broker": self._node_id, "controller": controller[0]},
                    )
                    await self._stand_for_election(instead_of=controller)
                    return
                await _wait_for_either(changed.wait(), asyncio.sleep(RETRY_S))
                return
            except ClientError as error:
                self._log_poll_failure(controller[0], str(error))
                await _wait_for_either(changed.wait(), asyncio.sleep(RETRY_S))
                return
            if answer is None:
                return
            if answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
                self._report_denied(controller[0])
            if answer.error_code or not self._apply_metadata(answer):
                await _wait_for_either(changed.wait(), asyncio.sleep(RETRY_S))
                return
            heard, self._answered_by = True, controller
            self._failure_pause_s = RETRY_S
            self.last_failure = None
            self._poll_failures.succeeded(
                "the controller answers again", broker=self._node_id, controller=controller[0]
            )
            await self._metadata.until_published()

    def _log_poll_failure(self, controller_id: int, error: str) -> None:
        self.last_failure = error
        self._poll_failures.failed(
            logging.WARNING,
            "controller poll failed, retrying in %g s",
            RETRY_S,
            reason=error,
            fields={"broker": self._node_id, "controller": controller_id},
        )

    def _report_denied(self, controller_id: int) -> None:
        if self.last_failure != _DENIED:
            extra = {"broker": self._node_id, "controller": controller_id}
            log.error("cannot follow the controller, retrying: %s", _DENIED, extra=extra)
        self.last_failure = _DENIED

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
            broker_epoch=self._broker_epoch(),
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
