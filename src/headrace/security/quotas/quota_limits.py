"""Which limit applies to a user and a client id: Kafka's order of precedence. Pure.

The first quota that exists applies, and no other:

1. the user and the client id
2. the user and the default client id
3. the user
4. the default user and the client id
5. the default user and the default client id
6. the default user
7. the client id
8. the default client id

A quota with a user and a client id is measured for each pair, one with only a user for all clients
of that user, and one with only a client id for all users of that client id. Stricter than in Kafka:
a client without a client id has the default client's quota, so that it cannot escape by that.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from headrace.security.quotas.client_quota import (
    CLIENT_ID,
    CONNECTION_CREATION_RATE,
    IP,
    USER,
    QuotaEntity,
)


class _Part(Enum):
    """What an entity says about its user or its client id."""

    NAMED = "a name"
    DEFAULT = "the default"
    ABSENT = "nothing"


_PRECEDENCE: Final = (
    (_Part.NAMED, _Part.NAMED),
    (_Part.NAMED, _Part.DEFAULT),
    (_Part.NAMED, _Part.ABSENT),
    (_Part.DEFAULT, _Part.NAMED),
    (_Part.DEFAULT, _Part.DEFAULT),
    (_Part.DEFAULT, _Part.ABSENT),
    (_Part.ABSENT, _Part.NAMED),
    (_Part.ABSENT, _Part.DEFAULT),
)
"""The user and the client id of entities, the first level first."""

SMALLEST_BOUND: Final = 0.001
"""For a limit of zero or less: the controller refuses those, but ZooKeeper may hold them."""
LARGEST_BOUND: Final = 1e18
"""For an infinite limit, in the same way: bytes are whole numbers."""

LONGEST_SCOPE_NAME: Final = 256
"""Longer client ids that begin alike share one measurement: clients choose them, and each
measurement keeps its name."""

Scope = tuple[str | None, str | None]
"""The user and the client id that share one measurement; None stands for all of them."""


class Limit(NamedTuple):
    """A quota's limit, and whose use counts against it."""

    bound: float
    scope: Scope


@dataclass(frozen=True, slots=True)
class _Level:
    """The limits of one level of precedence, by the names that its entities have."""

    user: _Part
    client: _Part
    bounds: dict[tuple[str, str], float]

    def find(self, user: str, client_id: str) -> Limit | None:
        names = (
            user if self.user is _Part.NAMED else "",
            client_id if self.client is _Part.NAMED else "",
        )
        bound = self.bounds.get(names)
        if bound is None:
            return None
        scope = (
            None if self.user is _Part.ABSENT else user,
            None if self.client is _Part.ABSENT else client_id[:LONGEST_SCOPE_NAME],
        )
        return Limit(bound, scope)


class QuotaLimits:
    """The limits of one key, such as `producer_byte_rate`, from all quotas of the cluster."""

    def __init__(self, quotas: Mapping[QuotaEntity, Mapping[str, float]], key: str) -> None:
        bounds: dict[tuple[_Part, _Part], dict[tuple[str, str], float]] = {}
        for entity, limits in quotas.items():
            names = dict(entity.parts)
            if key not in limits or IP in names:
                continue
            level = (_part_of(names, USER), _part_of(names, CLIENT_ID))
            found = bounds.setdefault(level, {})
            found[names.get(USER) or "", names.get(CLIENT_ID) or ""] = _finite(limits[key])
        self._levels = tuple(
            _Level(*level, bounds[level]) for level in _PRECEDENCE if level in bounds
        )

    def __bool__(self) -> bool:
        """Whether there is any limit."""
        return bool(self._levels)

    def find(self, user: str, client_id: str) -> Limit | None:
        """The limit that applies to this user and client id; None if there is none."""
        for level in self._levels:
            limit = level.find(user, client_id)
            if limit is not None:
                return limit
        return None


def applying_entity(
    quotas: Mapping[QuotaEntity, Mapping[str, float]], key: str, user: str, client_id: str
) -> QuotaEntity | None:
    """The entity whose limit applies to a user and a client id. An empty name stands for one
    without an own quota."""
    for user_part, client_part in _PRECEDENCE:
        parts = ((CLIENT_ID, client_part, client_id), (USER, user_part, user))
        entity = QuotaEntity(
            tuple(
                (type_, name if part is _Part.NAMED else None)
                for type_, part, name in parts
                if part is not _Part.ABSENT
            )
        )
        if key in quotas.get(entity, {}):
            return entity
    return None


class AddressLimits:
    """The connection creation rates: of an address, or the default of all other addresses."""

    def __init__(self, quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> None:
        self._default: float | None = None
        self._by_address: dict[str, float] = {}
        for entity, limits in quotas.items():
            names = dict(entity.parts)
            if IP not in names or CONNECTION_CREATION_RATE not in limits:
                continue
            name, bound = names[IP], _finite(limits[CONNECTION_CREATION_RATE])
            if name is None:
                self._default = bound
            else:
                self._by_address[canonical_address(name) or name] = bound

    def __bool__(self) -> bool:
        return self._default is not None or bool(self._by_address)

    def find(self, address: str) -> float | None:
        """The limit of this address; None if there is none."""
        return self._by_address.get(address, self._default)


def canonical_address(text: str) -> str | None:
    """An IP address as a connection shows it, e.g. `::1`; None if the text is not an address."""
    from ipaddress import IPv6Address, ip_address  # a broker without quotas does not need it

    try:
        address = ip_address(text)
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return str(address)


def _finite(bound: float) -> float:
    return min(bound, LARGEST_BOUND) if bound > 0 else SMALLEST_BOUND


def _part_of(names: Mapping[str, str | None], type_: str) -> _Part:
    if type_ not in names:
        return _Part.ABSENT
    return _Part.DEFAULT if names[type_] is None else _Part.NAMED
