"""Filters of ACLs, as DescribeAcls and DeleteAcls send them (Kafka's AclBindingFilter). Pure."""

from typing import Final, NamedTuple

from headrace.security.acl import (
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
        return (
            self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (AclOperation.ANY, acl.operation)
            and self.permission in (AclPermission.ANY, acl.permission)
            and self._matches_pattern(acl.pattern)
        )

    def _matches_pattern(self, pattern: ResourcePattern) -> bool:
        if self.resource_type not in (AclResourceType.ANY, pattern.type):
            return False
        if self.pattern_type is PatternType.MATCH:
            return self.name is None or pattern.matches(self.name)
        return self.pattern_type in (PatternType.ANY, pattern.pattern_type) and (
            self.name in (None, pattern.name)
        )


ANY_ACL: Final = AclFilter()
"""Matches every ACL."""
