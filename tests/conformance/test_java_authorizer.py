"""Thousands of decisions of Kafka's own StandardAuthorizer, and the same questions to ours."""

import shutil
import subprocess
from pathlib import Path
from random import Random

import pytest

from headrace.security.authorization.acl import (
    Acl,
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
    ResourcePattern,
)
from headrace.security.authorization.acl_index import AclIndex
from headrace.security.authorization.authorizer import Authorizer
from headrace.security.principal import parse_principal, user
from support.clients.java import java

PROGRAM = Path(__file__).parent / "authorizer" / "Decisions.java"
TIMEOUT_S = 120
AUTHORIZERS = 2_000
QUESTIONS = 10
TOPIC = AclResourceType.TOPIC
TYPES = [TOPIC, AclResourceType.GROUP]
NAMES = ["a", "ab", "abc", "abd", "b", "*"]
PRINCIPALS = ["User:alice", "User:bob", "Group:alice"]
HOSTS = ["10.0.0.1", "10.0.0.2"]
PATTERNS = [PatternType.LITERAL, PatternType.PREFIXED]
PERMISSIONS = [AclPermission.ALLOW, AclPermission.ALLOW, AclPermission.DENY]
OPERATIONS = [
    AclOperation.READ, AclOperation.WRITE, AclOperation.CREATE, AclOperation.DELETE,
    AclOperation.ALTER, AclOperation.DESCRIBE, AclOperation.ALTER_CONFIGS,
    AclOperation.DESCRIBE_CONFIGS,
]  # fmt: skip

pytestmark = pytest.mark.skipif(shutil.which("javac") is None, reason="needs a JDK")


def random_acl(random: Random) -> Acl:
    pattern = ResourcePattern(random.choice(TYPES), random.choice(NAMES), random.choice(PATTERNS))
    return Acl(
        pattern,
        random.choice([*PRINCIPALS, "User:*"]),
        random.choice([*HOSTS, "*"]),
        random.choice([*OPERATIONS, AclOperation.ALL]),
        random.choice(PERMISSIONS),
    )


def line_of(acl: Acl) -> str:
    type_, name, pattern_type = acl.pattern
    codes = (int(type_), name, int(pattern_type))
    fields = (*codes, acl.principal, acl.host, int(acl.operation), int(acl.permission))
    return "\t".join(["acl", *map(str, fields)])


def answers_of_kafka(lines: list[str]) -> list[bool]:
    done = subprocess.run(
        java(str(PROGRAM)),
        input="\n".join(lines),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [answer == "1" for answer in done.stdout]


def test_each_decision_is_kafkas() -> None:
    random = Random(1)
    lines: list[str] = []
    ours: list[bool] = []
    questions: list[str] = []
    for _ in range(AUTHORIZERS):
        is_open = random.random() < 0.3
        acls = dict.fromkeys(random_acl(random) for _ in range(random.randrange(9)))
        authorizer = Authorizer(AclIndex(acls), frozenset({user("root")}), allow_if_no_acl=is_open)
        lines += [f"new\t{str(is_open).lower()}", *map(line_of, acls)]
        for _ in range(QUESTIONS):
            who = random.choice([*PRINCIPALS, "User:root"])
            host, operation = random.choice(HOSTS), random.choice(OPERATIONS)
            name = random.choice([*NAMES, "abcd", "zz"])
            questions.append(f"ask\t{who}\t{host}\t{int(operation)}\t{int(TOPIC)}\t{name}")
            principal = parse_principal(who)
            ours.append(authorizer.decide(principal, host, operation, TOPIC, name).allowed)
            lines.append(questions[-1])
        if is_open:
            continue  # Kafka then decides by a topic named "hardcode": see docs/compatibility.md
        for who in (*PRINCIPALS, "User:root"):
            questions.append(f"any\t{who}\t{HOSTS[0]}\t{int(AclOperation.WRITE)}\t{int(TOPIC)}")
            principal = parse_principal(who)
            ours.append(authorizer.decide_for_any(principal, HOSTS[0], AclOperation.WRITE, TOPIC))
            lines.append(questions[-1])
    theirs = answers_of_kafka(lines)
    assert len(theirs) == len(ours)
    differing = [
        each for each, our, their in zip(questions, ours, theirs, strict=True) if our != their
    ]
    assert differing == []
    assert 0.1 < sum(ours) / len(ours) < 0.9
