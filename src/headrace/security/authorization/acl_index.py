"""All ACLs of a cluster, indexed for decisions. Pure.

The index keeps the ACLs by resource type, then by name or prefix, then by principal. A lookup for
one principal and one resource therefore costs the same with ten ACLs and with ten thousand: a few
dictionary accesses, plus one for each length that prefixes of the type have.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from headrace.security.authorization.acl import (
    ANY_HOST,
    WILDCARD_NAME,
    Acl,
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
)

Hosts = dict[Acl, str]
"""ACLs, each with its host in the form in which the addresses of clients are written."""
ByPrincipal = dict[str, Hosts]

_NO_ACLS: Final[Mapping[Acl, str]] = {}
_STRIDE: Final = 256  # ACLs that are compared at once


class TypeIndex:
    """The ACLs of one resource type."""

    __slots__ = ("_allows", "_prefix_lengths", "_prefixed", "literal")

    def __init__(self) -> None:
        self.literal: dict[str, ByPrincipal] = {}
        self._prefixed: dict[str, ByPrincipal] = {}
        self._prefix_lengths: dict[int, int] = {}  # the number of prefixes of each length
        self._allows: dict[tuple[str, AclOperation], Hosts] = {}

    def add(self, acl: Acl) -> None:
        name = acl.pattern.name
        host = comparable_host(acl.host)
        if acl.pattern.pattern_type is PatternType.PREFIXED:
            if name not in self._prefixed:
                self._prefix_lengths[len(name)] = self._prefix_lengths.get(len(name), 0) + 1
            table = self._prefixed
        else:
            table = self.literal
        table.setdefault(name, {}).setdefault(acl.principal, {})[acl] = host
        if acl.permission is AclPermission.ALLOW:
            self._allows.setdefault((acl.principal, acl.operation), {})[acl] = host

    def remove(self, acl: Acl) -> None:
        """Does nothing if the ACL is not in the index."""
        name = acl.pattern.name
        is_prefixed = acl.pattern.pattern_type is PatternType.PREFIXED
        table = self._prefixed if is_prefixed else self.literal
        by_principal = table.get(name, {})
        hosts = by_principal.get(acl.principal, {})
        if acl not in hosts:
            return
        del hosts[acl]
        if not hosts:
            del by_principal[acl.principal]
        if not by_principal:
            del table[name]
            if is_prefixed:
                self._forget_prefix(len(name))
        if acl.permission is AclPermission.ALLOW:
            key = (acl.principal, acl.operation)
            del self._allows[key][acl]
            if not self._allows[key]:
                del self._allows[key]

    def _forget_prefix(self, length: int) -> None:
        self._prefix_lengths[length] -= 1
        if not self._prefix_lengths[length]:
            del self._prefix_lengths[length]

    def covering(self, name: str) -> Iterator[ByPrincipal]:
        """The ACLs for the resource with this name, in a group for each pattern."""
        literal = self.literal.get(name)
        if literal is not None:
            yield literal
        if name != WILDCARD_NAME:
            literal = self.literal.get(WILDCARD_NAME)
            if literal is not None:
                yield literal
        yield from self.prefixes_of(name)

    def prefixes_of(self, name: str) -> Iterator[ByPrincipal]:
        """The ACLs whose prefix begins this name, in a group for each prefix."""
        size = len(name)
        prefixed = self._prefixed
        for length in self._prefix_lengths:
            if length <= size:
                found = prefixed.get(name[:length])
                if found is not None:
                    yield found

    def allows(self, principal: str, operation: AclOperation) -> Mapping[Acl, str]:
        """The ALLOW ACLs of a principal for exactly this operation."""
        return self._allows.get((principal, operation), _NO_ACLS)

    def __bool__(self) -> bool:
        return bool(self.literal or self._prefixed)


class AclIndex:
    """All ACLs of a cluster, by resource type."""

    def __init__(self, acls: Iterable[Acl] = ()) -> None:
        self._by_type: dict[AclResourceType, TypeIndex] = {}
        for acl in acls:
            self.add(acl)

    def add(self, acl: Acl) -> None:
        index = self._by_type.get(acl.pattern.type)
        if index is None:
            index = self._by_type[acl.pattern.type] = TypeIndex()
        index.add(acl)

    def remove(self, acl: Acl) -> None:
        """Does nothing if the ACL is not in the index."""
        index = self._by_type.get(acl.pattern.type)
        if index is None:
            return
        index.remove(acl)
        if not index:
            del self._by_type[acl.pattern.type]

    def of_type(self, type_: AclResourceType) -> TypeIndex | None:
        """The ACLs of a resource type; None if there are none."""
        return self._by_type.get(type_)

    def apply_difference(self, before: Iterable[Acl], after: Iterable[Acl]) -> None:
        """Replaces the ACLs of one metadata image with those of a later one.

        An image keeps the objects and the order of the image before it, and adds at the end. To
        compare them takes a fraction of a millisecond for 10,000 ACLs; to hash them all would take
        several.
        """
        removed, added = _difference(before, after)
        for acl in removed:
            self.remove(acl)
        for acl in added:
            self.add(acl)


def _difference(before: Iterable[Acl], after: Iterable[Acl]) -> tuple[list[Acl], list[Acl]]:
    """What to remove and what to add."""
    old, new = list(before), list(after)
    removed: list[Acl] = []
    at = 0
    start = 0
    while start < len(old):
        stride = old[start : start + _STRIDE]
        start += _STRIDE
        if stride == new[at : at + _STRIDE]:  # identical objects are not compared any further
            at += _STRIDE
            continue
        for acl in stride:
            if at < len(new) and acl == new[at]:
                at += 1
            else:
                removed.append(acl)
    added = new[at:]
    if removed and added:
        # An image that was loaded from a store may have another order.
        kept = set(removed).intersection(added)
        if kept:
            removed = [acl for acl in removed if acl not in kept]
            added = [acl for acl in added if acl not in kept]
    return removed, added


def comparable_host(host: str) -> str:
    """An IP address as the kernel writes it, which is how the address of a client is written.

    An ACL may have it in Java's form (`0:0:0:0:0:0:0:1`), with capital letters, or as an IPv4
    address in IPv6 form. A DENY must not be lost over that.
    """
    if host == ANY_HOST or ":" not in host:
        return host
    from ipaddress import IPv6Address  # imported late: most ACLs have no IPv6 address

    try:
        address = IPv6Address(host)
    except ValueError:
        return host
    return str(address.ipv4_mapped or address)
