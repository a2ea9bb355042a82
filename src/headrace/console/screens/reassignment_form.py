"""The form that plans a reassignment, and the plan that the preview carries. Pure."""

import json
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

from headrace.client.results import TopicPartition
from headrace.console.web.errors import PageError
from headrace.operations.quota_text import read_byte_rate
from headrace.operations.reassignment_plan import (
    CannotPlan,
    Placement,
    Racks,
    Replicas,
    balanced_plan,
    with_replication_factor,
    without_brokers,
)

KINDS: Final = ("empty", "factor", "balance")
MAX_FACTOR: Final = 1000


class ReassignmentForm(NamedTuple):
    """The fields as they were submitted."""

    kind: str
    brokers: Sequence[str]
    topics: str
    factor: str
    throttle: str


def plan_of(
    form: ReassignmentForm, placed: Placement, racks: Racks, known: Sequence[int]
) -> dict[TopicPartition, Replicas]:
    """The planned replicas; raises `PageError` if the form or the cluster does not allow it."""
    chosen = chosen_brokers(form.brokers, known)
    limited = matching(placed, form.topics)
    if not limited:
        raise _bad(f"No topic matches {form.topics!r}")
    try:
        if form.kind == "empty":
            if not chosen:
                raise _bad("Choose at least one broker to empty")
            return without_brokers(limited, racks, chosen)
        if form.kind == "factor":
            text = form.factor.strip()
            if not (text.isascii() and text.isdecimal() and 0 < int(text) <= MAX_FACTOR):
                raise _bad(f"Replicas is a whole number from 1, not {text[:40]!r}")
            return with_replication_factor(limited, racks, int(text))
        if form.kind == "balance":
            targets = {id_: rack for id_, rack in racks.items() if not chosen or id_ in chosen}
            return balanced_plan(limited, targets)
    except CannotPlan as error:
        raise PageError(409, "The plan is impossible", f"{error}. Nothing was moved.") from error
    raise _bad("Choose what to do")


def chosen_brokers(texts: Sequence[str], known: Sequence[int]) -> list[int]:
    found = []
    for text in texts:
        if not text.isdecimal() or int(text) not in known:
            raise _bad(f"There is no broker {text[:20]!r}")
        found.append(int(text))
    return found


def matching(placed: Placement, topics: str) -> dict[TopicPartition, Replicas]:
    """The partitions of topics that match one of the names and patterns; all if there is none."""
    patterns = topics.replace(",", " ").split()
    return {
        each: replicas
        for each, replicas in placed.items()
        if not patterns or any(fnmatchcase(each.topic, pattern) for pattern in patterns)
    }


def throttle_of(text: str) -> int | None:
    """Bytes per second; None if the field is empty."""
    if not text.strip():
        return None
    rate = read_byte_rate(text)
    if rate is None:
        raise _bad(f"The limit is bytes per second such as 50M or 800k, not {text[:40]!r}")
    return rate


def to_text(plan: Mapping[TopicPartition, Replicas]) -> str:
    """The plan for the hidden field of the preview."""
    return json.dumps([[*each, list(replicas)] for each, replicas in plan.items()])


def from_text(text: str) -> dict[TopicPartition, Replicas]:
    """The plan of the hidden field; raises `PageError`."""
    try:
        plan = {
            TopicPartition(str(topic), int(index)): tuple(int(broker) for broker in replicas)
            for topic, index, replicas in json.loads(text)
        }
    except (ValueError, TypeError):
        raise _bad("The preview cannot be read; make a new one") from None
    if not plan:
        raise _bad("There is nothing to move")
    return plan


def _bad(detail: str) -> PageError:
    return PageError(400, "The form is incomplete", f"{detail}. Nothing was moved.")
