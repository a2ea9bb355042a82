"""ACLs: who may or may not do what with which resource, with Kafka's codes."""

from enum import IntEnum
from typing import Final, NamedTuple, TypeVar

WILDCARD_NAME: Final = "*"
"""As a literal name: every resource of the type."""
ANY_HOST: Final = "*"
CLUSTER_NAME: Final = "kafka-cluster"
"""The only name of a resource of the type CLUSTER."""


class Code(IntEnum):
    """A code on the wire."""

    # An enum's own hash is a Python function, and each decision hashes several codes.
    __hash__ = int.__hash__


class AclResourceType(Code):
    """The types of resources that ACLs protect."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(Code):
    """How the name of an ACL matches the names of resources. MATCH and ANY are for filters."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(Code):
    """The operations that an ACL allows or denies."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class AclPermission(Code):
    """Whether an ACL allows or denies."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class ResourcePattern(NamedTuple):
    """The resources that an ACL is for."""

    type: AclResourceType
    name: str
    pattern_type: PatternType = PatternType.LITERAL

    def matches(self, name: str) -> bool:
        """Whether the pattern covers the resource with this name, which has the same type."""
        if self.pattern_type is PatternType.PREFIXED:
            return name.startswith(self.name)
        return self.name in (name, WILDCARD_NAME)


class Acl(NamedTuple):
    """One rule. `principal` is a text such as `User:alice`, or `User:*` for everyone."""

    pattern: ResourcePattern
    principal: str
    host: str
    operation: AclOperation
    permission: AclPermission

    def __str__(self) -> str:
        """`ALLOW User:alice READ TOPIC:PREFIXED:orders- from *`, for logs and messages."""
        type_, name, pattern_type = self.pattern
        resource = f"{type_.name}:{pattern_type.name}:{name}"
        rule = f"{self.permission.name} {self.principal} {self.operation.name}"
        return f"{rule} {resource} from {self.host}"


CodeT = TypeVar("CodeT", bound=Code)


def code_of(kind: type[CodeT], number: int) -> CodeT:
    """The member with this code; UNKNOWN (0) if there is none."""
    try:
        return kind(number)
    except ValueError:
        return kind(0)


SUPPORTED_OPERATIONS: Final = {
    AclResourceType.TOPIC: frozenset(
        {
            AclOperation.READ,
            AclOperation.WRITE,
            AclOperation.CREATE,
            AclOperation.DELETE,
            AclOperation.ALTER,
            AclOperation.DESCRIBE,
            AclOperation.DESCRIBE_CONFIGS,
            AclOperation.ALTER_CONFIGS,
        }
    ),
    AclResourceType.GROUP: frozenset(
        {
            AclOperation.READ,
            AclOperation.DELETE,
            AclOperation.DESCRIBE,
            AclOperation.DESCRIBE_CONFIGS,
            AclOperation.ALTER_CONFIGS,
        }
    ),
    AclResourceType.CLUSTER: frozenset(
        {
            AclOperation.CREATE,
            AclOperation.ALTER,
            AclOperation.DESCRIBE,
            AclOperation.CLUSTER_ACTION,
            AclOperation.DESCRIBE_CONFIGS,
            AclOperation.ALTER_CONFIGS,
            AclOperation.IDEMPOTENT_WRITE,
        }
    ),
    AclResourceType.TRANSACTIONAL_ID: frozenset(
        {AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.TWO_PHASE_COMMIT}
    ),
    AclResourceType.DELEGATION_TOKEN: frozenset({AclOperation.DESCRIBE}),
    AclResourceType.USER: frozenset({AclOperation.CREATE_TOKENS, AclOperation.DESCRIBE_TOKENS}),
}
"""The operations of each type of resource, as Kafka's AclEntry lists them."""
