"""Filters of ACLs, as DescribeAcls and DeleteAcls send them (Kafka's AclBindingFilter). Pure."""

from typing import Final, NamedTuple

from headrace.security.authorization.acl import (
    Acl,
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
    ResourcePattern,
)


class AclFilter(NamedTuple):
    """A text of None and a code of ANY match everything.

    With MATCH, `name` is the name of a resource, and the filter finds the ACLs for it: also those
    with a prefix of the name, or `*`. With every other pattern type, names must be equal.
    """

    resource_type: AclResourceType = AclResourceType.ANY
    name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission: AclPermission = AclPermission.ANY

    @property
    def unknown_part(self) -> str | None:
        """The part of the filter that has an unknown code, by Kafka's name."""
        if not (self.resource_type and self.pattern_type):
            return "patternFilter"
        if not (self.operation and self.permission):
            return "entryFilter"
        return None

    def exact_acl(self) -> Acl | None:
        """The only ACL that can match; None if several can."""
        if (
            self.name is None
            or self.principal is None
            or self.host is None
            or self.resource_type is AclResourceType.ANY
            or self.pattern_type in (PatternType.ANY, PatternType.MATCH)
            or self.operation is AclOperation.ANY
            or self.permission is AclPermission.ANY
        ):
            return None
        pattern = ResourcePattern(self.resource_type, self.name, self.pattern_type)
        return Acl(pattern, self.principal, self.host, self.operation, self.permission)

    def matches(self, acl: Acl) -> bool:
        pattern, principal, host, operation, permission = acl
        # In the order in which they exclude most: a listing compares thousands of ACLs.
        return (
            self._matches_pattern(pattern)
            and (self.principal is None or self.principal == principal)
            and (self.host is None or self.host == host)
            and (self.operation is _ANY_OPERATION or self.operation is operation)
            and (self.permission is _ANY_PERMISSION or self.permission is permission)
        )

    def _matches_pattern(self, pattern: ResourcePattern) -> bool:
        type_, name, pattern_type = pattern
        if self.resource_type is not _ANY_TYPE and self.resource_type is not type_:
            return False
        if self.pattern_type is PatternType.MATCH:
            return self.name is None or pattern.matches(self.name)
        return (self.name is None or self.name == name) and (
            self.pattern_type is PatternType.ANY or self.pattern_type is pattern_type
        )


_ANY_TYPE: Final = AclResourceType.ANY
_ANY_OPERATION: Final = AclOperation.ANY
_ANY_PERMISSION: Final = AclPermission.ANY
ANY_ACL: Final = AclFilter()
"""Matches every ACL."""
