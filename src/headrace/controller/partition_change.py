"""One change of a partition: leader, in-sync replicas, eligible leaders, reassignment. Pure.

A `PartitionChange` collects the events of a partition and computes its next state;
`leader_election` chooses the leader. Guarantees:

- the leader is live and in sync;
- the leader epoch grows when the leader changes or a replica is removed, and only then;
- the partition epoch grows with every change;
- a dead broker is not in sync, unless all replicas are dead;
- a broker that left the in-sync set while the set was too small to acknowledge writes may lead
  again (KIP-966), because it has every acknowledged record.
"""

from collections.abc import Iterable

from headrace.cluster.topology import NO_LEADER, Partition
from headrace.controller.leader_election import Election, ElectionContext, elect_leader
from headrace.controller.reassignment_completion import complete_reassignment


class PartitionChange:
    """One change under construction. Report the events, then call `result`."""

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

    # --- events ---------------------------------------------------------------------------------

    def mark_unclean(self, broker_id: int, *, empty: bool = False) -> None:
        """The broker lost its page cache, so it may lack records that it acknowledged.

        If no other replica could lead, it stays eligible: its log is the best one left. If its log
        is gone too (`empty`), any other replica is better, even with an older log.
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
        """The leader reports which replicas are in sync."""
        self._isr = tuple(isr)

    def reassign(self, target: tuple[int, ...]) -> None:
        """Moves the partition to `target`; old replicas stay until the new ones are in sync."""
        origin = tuple(id_ for id_ in self._replicas if id_ not in self._adding)
        self._adding = tuple(id_ for id_ in target if id_ not in origin)
        self._removing = tuple(id_ for id_ in origin if id_ not in target)
        self._replicas = target + self._removing
        self._isr = tuple(id_ for id_ in self._isr if id_ in self._replicas)

    def cancel_reassignment(self) -> None:
        """Restores the original replicas and removes those that were being added."""
        origin = tuple(id_ for id_ in self._replicas if id_ not in self._adding)
        self._replicas, self._adding, self._removing = origin, (), ()
        self._isr = tuple(id_ for id_ in self._isr if id_ in origin)

    @property
    def loses_every_complete_replica(self) -> bool:
        """Whether the events remove the last replicas that have every acknowledged record."""
        before = self._before
        if before.isr:
            return not self._isr
        return bool(before.eligible_leaders) and not any(
            id_ in self._replicas for id_ in self._eligible
        )

    # --- the next state -------------------------------------------------------------------------

    def result(self, election: Election = Election.ONLINE) -> Partition | None:
        """The next state of the partition, with new epochs; None if nothing changes."""
        before = self._before
        completed = complete_reassignment(self._replicas, self._isr, self._adding, self._removing)
        if completed is not None:
            self._replicas, self._isr = completed
            self._adding = self._removing = ()
        self._leader, self._isr, self._was_unclean = elect_leader(
            self._replicas, self._isr, self._eligible, self._leader, self._context, election
        )
        self._update_eligible_leaders()
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
        new_epoch = after.leader != before.leader or lost_replica
        return after._replace(
            leader_epoch=before.leader_epoch + (1 if new_epoch else 0),
            partition_epoch=before.partition_epoch + 1,
        )

    @property
    def was_unclean(self) -> bool:
        """Whether the new leader may lack acknowledged records."""
        return self._was_unclean

    def _update_eligible_leaders(self) -> None:
        enough = min(self._context.min_isr, len(self._replicas))
        if len(self._isr) >= enough or self._was_unclean:
            self._eligible = ()
            return
        # While the set is too small nothing is acknowledged: a replica that leaves it now still
        # has every acknowledged record.
        complete = {*self._eligible, *self._before.isr} - {*self._isr, self._distrusted}
        self._eligible = tuple(id_ for id_ in self._replicas if id_ in complete)
