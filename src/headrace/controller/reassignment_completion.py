"""The end of a partition's reassignment: the old replicas go when the new ones are in sync. Pure.

A reassignment can be interrupted at any point: old and new replicas hold the partition together
until then.
"""

from typing import NamedTuple


class CompletedReassignment(NamedTuple):
    """The replicas and the in-sync replicas of a partition after its reassignment."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]


def complete_reassignment(
    replicas: tuple[int, ...],
    isr: tuple[int, ...],
    adding: tuple[int, ...],
    removing: tuple[int, ...],
) -> CompletedReassignment | None:
    """The partition without the old replicas, if all new ones are in sync; else None."""
    if not (adding or removing):
        return None
    target = tuple(id_ for id_ in replicas if id_ not in removing)
    target_isr = tuple(id_ for id_ in isr if id_ in target)
    if target and target_isr and set(adding) <= set(target_isr):
        return CompletedReassignment(target, target_isr)
    return None
