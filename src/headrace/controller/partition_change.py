"""How one partition changes: leader, in-sync replicas, eligible leaders, reassignment. Pure.

A `PartitionChange` collects what has happened to a partition and settles what follows from it. It
guarantees that a leader is live and in sync; that the leader epoch grows when the leader changes or
a replica is removed, and only then; that the partition epoch grows with every change; that brokers
that are gone are not in sync, unless all are gone; and that whoever left the in-sync set while it
was too small to acknowledge anything may lead again (KIP-966), because it misses nothing that was
acknowledged.
"""

from collections.abc import Collection, Iterable
from enum import Enum
from typing import NamedTuple

from headrace.cluster.topology import NO_LEADER, Partition


class Election(Enum):
    """Who may become the leader."""

    ONLINE = "only a partition without a leader gets a new one"
    PREFERRED = "the first replica, if it is live and in sync"
    UNCLEAN = "any live replica, also one that misses acknowledged records"


class ElectionContext(NamedTuple):
    """What decides beside the partition's own state."""

    live: Collection[int]  # brokers that may lead: registered, and not about to leave
    min_isr: int = 1
    unclean: bool = False  # the topic's owner prefers lost records to an offline partition


class PartitionChange:
    """One change under construction. Set what has happened, then take the `result`."""

    def __init__(self, before: Partition, context: ElectionContext) -> None:
        self._before = before
        self._context = context
        self._replicas = before.replicas
        self._isr = before.isr
        self._eligible = before.eligible_leaders
        self._adding = before.adding
        self._removing = before.removing
        self._leader = before.leader
        self._distrusted = NO_LEADER
        self._was_unclean = False

    # --- what has happened ----------------------------------------------------------------------

    def mark_unclean(self, broker_id: int, *, empty: bool = False) -> None:
        """This broker came back without what its page cache held: it may miss what it acked.

        Where nobody else could ever lead, it still may: its log is the best that is left. Unless
        it has none any more (`empty`): then any other replica's is better, though it be older.
        """
        isr = tuple(id_ for id_ in self._isr if id_ != broker_id)
        eligible = tuple(id_ for id_ in self._eligible if id_ != broker_id)
        if empty and not (isr or eligible):
            eligible = tuple(
                id_ for id_ in self._replicas if id_ != broker_id and id_ not in self._adding
            )
        if isr or eligible:
            self._isr, self._eligible = isr, eligible
            self._distrusted = broker_id

    def set_isr(self, isr: Iterable[int]) -> None:
        """The leader's own word on who is in sync."""
        self._isr = tuple(isr)

    def reassign(self, target: tuple[int, ...]) -> None:
        """Replicas shall be these: all hold the partition until the new ones are in sync."""
        origin = tuple(id_ for id_ in self._replicas if id_ not in self._adding)
        self._adding = tuple(id_ for id_ in target if id_ not in origin)
        self._removing = tuple(id_ for id_ in origin if id_ not in target)
        self._replicas = target + self._removing
        self._isr = tuple(id_ for id_ in self._isr if id_ in self._replicas)

    def cancel_reassignment(self) -> None:
        """Back to the replicas of before; who was being added goes."""
        origin = tuple(id_ for id_ in self._replicas if id_ not in self._adding)
        self._replicas, self._adding, self._removing = origin, (), ()
        self._isr = tuple(id_ for id_ in self._isr if id_ in origin)

    @property
    def leaves_nobody(self) -> bool:
        """Whether what has happened takes away the last ones that have all that is acknowledged."""
        before = self._before
        if before.isr:
            return not self._isr
        return bool(before.eligible_leaders) and not any(
            id_ in self._replicas for id_ in self._eligible
        )

    # --- what follows ---------------------------------------------------------------------------

    def result(self, election: Election = Election.ONLINE) -> Partition | None:
        """The partition as it is now, with new epochs; None where nothing has changed."""
        before = self._before
        self._complete_reassignment()
        self._elect(election)
        self._choose_eligible()
        after = before._replace(
            replicas=self._replicas,
            isr=self._isr,
            leader=self._leader,
            eligible_leaders=self._eligible,
            adding=self._adding,
            removing=self._removing,
        )
        if after == before:
            return None
        lost_replica = not set(before.replicas) <= set(after.replicas)
        anew = after.leader != before.leader or lost_replica
        return after._replace(
            leader_epoch=before.leader_epoch + (1 if anew else 0),
            partition_epoch=before.partition_epoch + 1,
        )

    @property
    def was_unclean(self) -> bool:
        """Whether the new leader may miss acknowledged records."""
        return self._was_unclean

    def _complete_reassignment(self) -> None:
        if not (self._adding or self._removing):
            return
        target = tuple(id_ for id_ in self._replicas if id_ not in self._removing)
        isr = tuple(id_ for id_ in self._isr if id_ in target)
        if target and isr and set(self._adding) <= set(isr):
            self._replicas, self._isr = target, isr
            self._adding = self._removing = ()

    def _elect(self, election: Election) -> None:
        live = self._context.live
        # Who is gone is out of sync; if all are gone, whoever returns first still has everything.
        self._isr = tuple(id_ for id_ in self._isr if id_ in live) or self._isr
        first = self._replicas[0]
        if election is Election.PREFERRED and first in live and first in self._isr:
            self._leader = first
        if self._leader not in live or self._leader not in self._isr:
            self._leader = self._first_live(self._isr)
        if self._leader != NO_LEADER:
            return
        chosen = self._first_live(self._eligible)
        if chosen == NO_LEADER and (election is Election.UNCLEAN or self._context.unclean):
            chosen = self._first_live(self._replicas)
            self._was_unclean = chosen != NO_LEADER
        if chosen != NO_LEADER:
            self._leader, self._isr = chosen, (chosen,)

    def _first_live(self, among: Collection[int]) -> int:
        live = self._context.live
        return next((id_ for id_ in self._replicas if id_ in live and id_ in among), NO_LEADER)

    def _choose_eligible(self) -> None:
        enough = min(self._context.min_isr, len(self._replicas))
        if len(self._isr) >= enough or self._was_unclean:
            self._eligible = ()
            return
        # While the set is too small nothing is acknowledged, so who leaves it now misses nothing.
        known = {*self._eligible, *self._before.isr} - {*self._isr, self._distrusted}
        self._eligible = tuple(id_ for id_ in self._replicas if id_ in known)
