"""The cost of one decision and of one change, in this process.

Each figure is CPU time, and the best of several rounds.
"""

import timeit
from collections.abc import Callable
from time import process_time
from typing import Final

from bench.authorizer.acls import READ, TOPIC, WRITE, acls, rule
from headrace.broker.access.access_control import AccessControl
from headrace.clock import SystemClock
from headrace.cluster.image import MetadataImage
from headrace.cluster.metadata_records import AclCreated, AclDeleted, ClusterNamed
from headrace.security.authorization.acl import AclOperation
from headrace.security.authorization.acl_index import AclIndex
from headrace.security.authorization.authorizer import Authorizer
from headrace.security.principal import user
from headrace.security.session import Session

ROUNDS: Final = 5
CALLS_PER_ROUND: Final = 20_000
CLIENT: Final = Session(user("app-1"), "10.0.0.1", "CLIENTS")


def report(count: int) -> str:
    """The figures with this number of ACLs, one line each."""
    image = MetadataImage().apply([ClusterNamed("bench"), *map(AclCreated, acls(count))])
    lines = [f"{len(image.acls):,} ACLs"]
    for what, figure, unit in (*decisions(image), *changes(image)):
        lines.append(f"  {what:<52} {figure:>9.2f} {unit}")
    return "\n".join(lines)


def decisions(image: MetadataImage) -> list[tuple[str, float, str]]:
    authorizer = Authorizer(AclIndex(image.acls))
    access = AccessControl(lambda: image, SystemClock(), is_enforced=True)
    principal, host = CLIENT.principal, CLIENT.host

    def first(name: str, operation: AclOperation) -> Callable[[], object]:
        return lambda: authorizer.decide(principal, host, operation, TOPIC, name)

    return [
        ("first decision, allowed by a literal ACL", micros(first("orders-1", READ)), "us"),
        ("first decision, allowed by a prefixed ACL", micros(first("team-a", WRITE)), "us"),
        ("first decision, no ACL allows it", micros(first("accounting", WRITE)), "us"),
        (
            "the same decision again, as for each request",
            micros(lambda: access.allows(CLIENT, READ, TOPIC, "orders-1")),
            "us",
        ),
        (
            "whether any topic may be written",
            micros(lambda: authorizer.decide_for_any(principal, host, WRITE, TOPIC)),
            "us",
        ),
    ]


def changes(image: MetadataImage) -> list[tuple[str, float, str]]:
    created = rule("new", "User:new", READ)
    more = image.apply([AclCreated(created)])
    middle = list(image.acls)[len(image.acls) // 2]
    less = image.apply([AclDeleted(middle)])
    return [
        ("index after one ACL is created", update_ms(image, more), "ms"),
        ("index after one ACL is deleted", update_ms(image, less), "ms"),
        ("metadata image after one ACL is created", millis(
            lambda: image.apply([AclCreated(created)])), "ms"),
        ("new index of all ACLs, once at the start", millis(lambda: AclIndex(image.acls)), "ms"),
    ]  # fmt: skip


def update_ms(before: MetadataImage, after: MetadataImage) -> float:
    """The time to follow one change; each round begins with a new index."""
    best = float("inf")
    for _ in range(ROUNDS):
        index = AclIndex(before.acls)
        started = process_time()
        index.apply_difference(before.acls, after.acls)
        best = min(best, process_time() - started)
    return best * 1e3


def micros(call: Callable[[], object]) -> float:
    return (
        min(timeit.repeat(call, timer=process_time, number=CALLS_PER_ROUND, repeat=ROUNDS))
        / CALLS_PER_ROUND
        * 1e6
    )


def millis(call: Callable[[], object]) -> float:
    return min(timeit.repeat(call, timer=process_time, number=1, repeat=ROUNDS)) * 1e3
