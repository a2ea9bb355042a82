"""The states of a classic group and the one table of transitions between them.

        Empty --a member joins--> PreparingRebalance --all joined, or timeout--> CompletingRebalance
          ^                         |   ^       ^                                    |        |
          +------none joined--------+   |       +------a member joins, leaves--------+        |
                                        |              or fails                               |
                                        |                                      the leader's   |
                                        +--a member joins, leaves or fails-- Stable <---------+
                                                                             assignment is written

        any state --the group is deleted or upgraded, or its shard is unloaded--> Dead

The states, their names and the table are Kafka's (`ClassicGroupState.validPreviousStates`). What
each state means to requests:

* Empty: the group has no members. It exists for its offsets, and any client may commit.
* PreparingRebalance, the join phase: JoinGroup waits for the other members. Heartbeats and
  SyncGroup get REBALANCE_IN_PROGRESS, so that every member joins again. Commits are accepted.
* CompletingRebalance, the sync phase: the generation has begun, and SyncGroup waits for the
  leader's assignment. Commits get REBALANCE_IN_PROGRESS.
* Stable: the assignment is in the log, and SyncGroup returns it at once.
* Dead: the object is no longer in the shard's table of groups. This state is final.

A group that is loaded from its record begins Stable, or Empty if the record has no members. That is
not a transition: a new coordinator does not know of a rebalance that was in progress.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final


class ClassicState(Enum):
    """The values are the names that clients see."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


VALID_PREVIOUS_STATES: Final[Mapping[ClassicState, frozenset[ClassicState]]] = {
    ClassicState.EMPTY: frozenset({ClassicState.PREPARING_REBALANCE}),
    ClassicState.PREPARING_REBALANCE: frozenset(
        {ClassicState.EMPTY, ClassicState.COMPLETING_REBALANCE, ClassicState.STABLE}
    ),
    ClassicState.COMPLETING_REBALANCE: frozenset({ClassicState.PREPARING_REBALANCE}),
    ClassicState.STABLE: frozenset({ClassicState.COMPLETING_REBALANCE}),
    ClassicState.DEAD: frozenset(ClassicState),
}


class IllegalGroupTransition(Exception):
    """A transition that is not in the table: a bug in the coordinator."""


def can_become(state: ClassicState, target: ClassicState) -> bool:
    """Whether the table has a transition from `state` to `target`."""
    return state in VALID_PREVIOUS_STATES[target]


def check_transition(group_id: str, state: ClassicState, target: ClassicState) -> None:
    """Raises `IllegalGroupTransition` if the table does not have it."""
    if not can_become(state, target):
        valid = ", ".join(sorted(each.value for each in VALID_PREVIOUS_STATES[target]))
        msg = f"group {group_id} cannot go from {state.value} to {target.value}, only from {valid}"
        raise IllegalGroupTransition(msg)
