"""Bugs that are planted on purpose, to show that the checker detects them.

Each bug disables a rule that protects acknowledged records. The bugs are patches of the running
code for the duration of a simulation.
"""
# ruff: noqa: ANN401 - patches take what the original takes

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from inspect import Parameter, signature
from typing import Any, Final
from unittest.mock import patch

from headrace.broker.access.access_control import AccessControl
from headrace.broker.membership.controller_election import ControllerElection
from headrace.broker.replication.fetch_session_at_leader import FollowerFetchSession
from headrace.broker.replication.replica_fetcher import ReplicaFetcher
from headrace.broker.share.share_partition_runner import SharePartitionRunner
from headrace.cluster.image import MetadataImage
from headrace.controller import broker_fencing, isr_changes, leader_election
from headrace.coordinator.group.classic.classic_group import ClassicGroup
from headrace.protocol.errors import ErrorCode
from headrace.replication.follower import Follower
from headrace.replication.leader import Leader
from headrace.replication.replica import Replica
from headrace.replication.sole_leader import SoleLeader
from headrace.storage.log import append_validation
from headrace.storage.log.log import Log
from headrace.storage.state.producers import BatchOrigin

Plant = Callable[[ExitStack], None]


@dataclass(frozen=True, slots=True)
class Planted:
    """The description of a bug, and its patch."""

    title: str
    plant: Plant
    guarded: bool = False
    """Whether only a scenario with ACLs can show it."""


def _replace(target: object, name: str, make: Callable[[Any], object]) -> Plant:
    """A patch that replaces the original with the result of `make`."""

    def plant(stack: ExitStack) -> None:
        original = getattr(target, name)
        replacement = make(original)
        if callable(original) and callable(replacement):
            check_takes_the_same(original, replacement)
        stack.enter_context(patch.object(target, name, replacement))

    return plant


def check_takes_the_same(
    original: Callable[..., object], replacement: Callable[..., object]
) -> None:
    """Raises `TypeError` if the replacement cannot be called like the original.

    A bug that raises an error when it is called is also found, but not by the rule it disables.
    """
    parameters = signature(original).parameters.values()
    for wanted in (parameters, [each for each in parameters if each.default is Parameter.empty]):
        places = [each.name for each in wanted if each.kind is Parameter.POSITIONAL_OR_KEYWORD]
        named = {each.name: None for each in wanted if each.kind is Parameter.KEYWORD_ONLY}
        signature(replacement).bind(*places, **named)


def _all(*plants: Plant) -> Plant:
    def plant(stack: ExitStack) -> None:
        for each in plants:
            each(stack)

    return plant


# --- followers ----------------------------------------------------------------------------------


def _follow_by_watermark(original: Any) -> object:
    def follow(self: Follower, leader_id: int, epoch: int) -> None:
        original(self, leader_id, epoch)
        if self.is_open:
            self.log.truncate_to(self.high_watermark)

    return follow


def _open_by_watermark(original: Any) -> object:
    def opened(self: Follower, log: Log) -> None:
        original(self, log)
        log.truncate_to(self.high_watermark)

    return opened


def _never_truncate(_original: Any) -> object:
    def truncate_to(self: Follower, _epoch: int, _end_offset: int) -> int:
        return self.log.log_end_offset

    return truncate_to


def _count_what_was_sent(original: Any) -> object:
    def read(
        self: FollowerFetchSession, position: Any, leader: Leader, *args: Any, **kw: Any
    ) -> Any:
        data = original(self, position, leader, *args, **kw)
        if data is not None and data.records:
            progress = leader.progress[self.replica_id]
            progress.log_end = leader.log.log_end_offset
            leader._advance_high_watermark()
        return data

    return read


def _append_late_responses(original: Any) -> object:
    """Responses to an earlier fetch are used although the position has changed since."""

    def append_slices(
        self: ReplicaFetcher, link: Any, _number: int, parts: Any, first: int
    ) -> None:
        original(self, link, self._session.number, parts, first)

    return append_slices


def _append_anywhere(original: Any) -> object:
    """Batches from the leader are appended even if they do not continue the log."""

    def replicated(buf: Any, _next_offset: int) -> Any:
        return original(buf, 0)

    return replicated


def _forget_producers(original: Any) -> object:
    """A follower does not store the producer state of the batches it copies."""

    def append(self: Log, *args: Any, **named: Any) -> object:
        result = original(self, *args, **named)
        if named.get("origin") is BatchOrigin.REPLICATION:
            self.local.producers.by_id.clear()
        return result

    return append


# --- leaders ------------------------------------------------------------------------------------


def _shrink_at_once(original: Any) -> object:
    def propose(self: Leader, *args: Any) -> object:
        proposal = original(self, *args)
        if proposal is not None:
            self._maximal_isr = proposal.ids
            self._advance_high_watermark()
        return proposal

    return propose


def _advance_with_too_few(original: Any) -> object:
    def advance(self: Leader) -> None:
        enough, self.enough_in_sync = self.enough_in_sync, True
        try:
            original(self)
        finally:
            self.enough_in_sync = enough

    return advance


def _advance_by_majority(_original: Any) -> object:
    def advance(self: Leader) -> None:
        ends = sorted([self._safe_end, *(each.log_end for each in self.progress.values())])
        end = ends[len(ends) // 2]
        if end > self.high_watermark:
            self.high_watermark = end
            self._notify_waiters(1)
            self._complete_commit_waits()

    return advance


def _acknowledge_at_once(_original: Any) -> object:
    def when_committed(
        self: SoleLeader, _next_offset: int, tell: Callable[[ErrorCode], None]
    ) -> None:
        tell(ErrorCode.NONE)

    return when_committed


def _no_flush(original: Any) -> object:
    def append(self: Log, *args: Any, **named: Any) -> object:
        return original(self, *args, **named)._replace(needs_flush=False)

    return append


def _believe_own_log(original: Any) -> object:
    def opened(self: Leader, log: Log) -> None:
        original(self, log)
        self.high_watermark = log.log_end_offset

    return opened


def _read_unstable(_original: Any) -> object:
    return property(lambda self: self.high_watermark)


def _any_epoch(_original: Any) -> object:
    def check_epoch(_self: Replica, _epoch: int) -> ErrorCode:
        return ErrorCode.NONE

    return check_epoch


def _join_from_any_incarnation(_original: Any) -> object:
    def propose_joining(self: Leader, joining: Iterable[int], live: Mapping[int, int]) -> object:
        if self._pending is not None or not self.is_open:
            return None
        may = {id_ for id_ in joining if id_ in live and self.has_caught_up(id_)}
        return self._propose_isr({*self.partition.isr, *may}, live)

    return propose_joining


# --- the controller -----------------------------------------------------------------------------


def _admit_any_incarnation(_original: Any) -> object:
    return lambda broker, _member: broker is not None and not broker.fenced


def _elect_anyone(_original: Any) -> object:
    def first_live(replicas: tuple[int, ...], live: Collection[int], _among: object) -> int:
        return next((id_ for id_ in reversed(replicas) if id_ in live), -1)

    return first_live


def _trust_everyone(_original: Any) -> object:
    def handle_unclean_shutdown(
        _image: Any, _rules: Any, _broker_id: int, _disks: Any = None
    ) -> tuple[()]:
        return ()

    return handle_unclean_shutdown


def _take_from_anyone(_original: Any) -> object:
    def apply_metadata(self: ControllerElection, answer: Any) -> bool:
        self._advance_metadata(answer)
        return True

    return apply_metadata


def _listen_on(original: Any) -> object:
    """A poll continues when another controller is elected, and its late response is used."""

    async def poll(self: ControllerElection, controller_id: int) -> Any:
        asking = asyncio.ensure_future(original(self, controller_id))
        try:
            return await asyncio.shield(asking)
        except asyncio.CancelledError:
            asking.add_done_callback(partial(_take_late_metadata, self))
            raise

    return poll


def _take_late_metadata(election: ControllerElection, done: "asyncio.Future[Any]") -> None:
    if not done.cancelled() and done.exception() is None and not done.result().error_code:
        election._apply_metadata(done.result())


# --- groups -------------------------------------------------------------------------------------


def _commit_in_any_generation(_original: Any) -> object:
    def check_commit(_self: ClassicGroup, *_args: Any, **_named: Any) -> None:
        return None

    return check_commit


def _store_nothing(_original: Any) -> object:
    def store(self: SharePartitionRunner, write: Any) -> object:
        return self._stored(write, ())

    return store


# --- rights --------------------------------------------------------------------------------------


def _apply_once(original: Any) -> object:
    def apply(self: AccessControl, image: MetadataImage) -> None:
        if self._authorizer.index is None:
            original(self, image)

    return apply


PLANTED: Final[dict[str, Planted]] = {
    "truncate-by-watermark": Planted(
        "A follower truncates its log to its high watermark",
        _all(
            _replace(Follower, "follow", _follow_by_watermark),
            _replace(Follower, "_log_opened", _open_by_watermark),
        ),
    ),
    "never-truncate": Planted(
        "A follower keeps records that its leader does not have",
        _replace(Follower, "truncate_to", _never_truncate),
    ),
    "count-sent": Planted(
        "A leader counts sent records as received",
        _replace(FollowerFetchSession, "_read_position", _count_what_was_sent),
    ),
    "stale-session": Planted(
        "A follower uses late responses of its fetch session, whatever its log end",
        _all(
            _replace(ReplicaFetcher, "_append_slices", _append_late_responses),
            _replace(append_validation, "_validate_replicated", _append_anywhere),
        ),
    ),
    "forget-producers": Planted(
        "A follower does not keep the producers' sequence numbers",
        _replace(Log, "append", _forget_producers),
    ),
    "early-shrink": Planted(
        "A smaller in-sync set applies before it is committed",
        _replace(Leader, "propose", _shrink_at_once),
    ),
    "no-min-isr": Planted(
        "min.insync.replicas is not checked at completion",
        _replace(Leader, "_advance_high_watermark", _advance_with_too_few),
    ),
    "majority": Planted(
        "The high watermark follows a majority, not all in-sync replicas",
        _replace(Leader, "_advance_high_watermark", _advance_by_majority),
    ),
    "ack-on-append": Planted(
        "acks=all is acknowledged when the leader has the records",
        _replace(SoleLeader, "when_committed", _acknowledge_at_once),
    ),
    "ack-before-fsync": Planted(
        "flush.messages=1 does not wait for the fsync", _replace(Log, "append", _no_flush)
    ),
    "believe-own-log": Planted(
        "A new leader treats its whole log as committed",
        _replace(Leader, "_log_opened", _believe_own_log),
    ),
    "read-unstable": Planted(
        "read_committed reads past open transactions",
        _replace(Replica, "last_stable_offset", _read_unstable),
    ),
    "append-anywhere": Planted(
        "A follower appends batches that do not continue its log",
        _replace(append_validation, "_validate_replicated", _append_anywhere),
    ),
    "any-leader-epoch": Planted(
        "Fetches with a stale leader epoch are served",
        _replace(Replica, "check_epoch", _any_epoch),
    ),
    "any-broker-epoch": Planted(
        "The broker epoch of a replica that joins the in-sync set is not checked",
        _all(
            _replace(Leader, "propose_joining", _join_from_any_incarnation),
            _replace(isr_changes, "_may_join", _admit_any_incarnation),
        ),
    ),
    "elect-anyone": Planted(
        "Any live replica is elected, in sync or not",
        _replace(leader_election, "_first_live", _elect_anyone),
    ),
    "trust-everyone": Planted(
        "A broker that lost its page cache stays in sync (no KIP-966)",
        _replace(broker_fencing, "handle_unclean_shutdown", _trust_everyone),
    ),
    "any-controller-epoch": Planted(
        "Metadata of earlier controllers is accepted, also in late responses",
        _all(
            _replace(ControllerElection, "_apply_metadata", _take_from_anyone),
            _replace(ControllerElection, "_poll", _listen_on),
        ),
    ),
    "any-generation": Planted(
        "A commit of an earlier generation of a classic group is accepted",
        _replace(ClassicGroup, "check_commit", _commit_in_any_generation),
    ),
    "forget-shared": Planted(
        "Acknowledgements of share group members are not stored",
        _replace(SharePartitionRunner, "_store", _store_nothing),
    ),
    "keep-acls": Planted(
        "A broker keeps the first ACLs that it knows",
        _replace(AccessControl, "_apply", _apply_once),
        guarded=True,
    ),
}


@contextmanager
def planted(name: str | None) -> Iterator[None]:
    """Plants the bug of that name for the duration of the context; None plants no bug."""
    with ExitStack() as stack:
        if name is not None:
            PLANTED[name].plant(stack)
        yield
