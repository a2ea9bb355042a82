"""Plans of `cluster reassign`."""

from collections.abc import Mapping, Sequence

from headrace.cli.cluster.status import Overview
from headrace.cli.error_messages import not_found
from headrace.cli.exit_codes import CommandFailed, ExitCode
from headrace.cli.id_ranges import parse_ids
from headrace.client.admin.reassignments import Move
from headrace.client.results import TopicPartition
from headrace.operations.reassignment_plan import (
    CannotPlan,
    Placement,
    PlannedMove,
    Replicas,
    balanced_plan,
    moves_between,
    placement_of,
)


def balanced(
    overview: Overview, under_way: Mapping[TopicPartition, Move], to: Sequence[int] | None
) -> dict[TopicPartition, Replicas]:
    """A plan that spreads the overview's partitions over brokers; over all live ones if None."""
    live = {broker.id: broker.rack for broker in overview.cluster.live}
    for broker in to or ():
        if broker not in live:
            there_are = ", ".join(map(str, sorted(live))) or "none"
            raise CommandFailed(
                f"broker {broker} is not live (live: {there_are})", ExitCode.NOT_FOUND
            )
    racks = {id_: rack for id_, rack in live.items() if to is None or id_ in to}
    try:
        return balanced_plan(placement_of(overview.topics, under_way), racks)
    except CannotPlan as error:
        raise CommandFailed(str(error)) from error


def changes_of(now: Placement, plan: Placement) -> list[PlannedMove]:
    """The changes of the plan. Raises `CommandFailed` for an unknown partition."""
    for each in plan:
        if each not in now:
            raise not_found("partition", str(each), map(str, now))
    return moves_between(now, plan)


def parse_brokers(text: str | None) -> list[int] | None:
    """`1,2,4-6` as broker ids; None if the option was not given."""
    return parse_ids(text, "brokers")
