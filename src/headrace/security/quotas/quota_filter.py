"""Which client quotas DescribeClientQuotas lists, as Kafka filters them. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from headrace.security.quotas.client_quota import CLIENT_ID, IP, USER, QuotaEntity

_TYPES: Final = (USER, CLIENT_ID, IP)


class MatchType(IntEnum):
    """How a component matches the name of its entity type."""

    EXACT = 0
    DEFAULT = 1
    SPECIFIED = 2
    """Any name, or the default."""


class Component(NamedTuple):
    """The part of a filter for one entity type; `match` is set for EXACT only."""

    entity_type: str
    match_type: int
    match: str | None = None


class InvalidFilter(ValueError):
    """A filter that Kafka refuses as an invalid request."""


class UnsupportedEntityType(ValueError):
    """An entity type that brokers do not know."""


class QuotaFilter:
    """Every component must match; if `strict`, the entity may not have further types."""

    def __init__(self, components: Sequence[Component], *, strict: bool) -> None:
        """Raises `InvalidFilter` or `UnsupportedEntityType`."""
        self._strict = strict
        self._names: dict[str, str | None] = {}
        self._specified: set[str] = set()
        for component in components:
            self._add(component)
        types = {*self._names, *self._specified}
        if IP in types and len(types) > 1:
            raise InvalidFilter(
                "Invalid entity filter component combination. IP filter component should not be "
                "used with user or clientId filter component."
            )

    def _add(self, component: Component) -> None:
        type_, match_type, match = component
        if not type_:
            raise InvalidFilter("Invalid empty entity type.")
        if type_ in self._names or type_ in self._specified:
            raise InvalidFilter(f"Entity type {type_} cannot appear more than once in the filter.")
        if type_ not in _TYPES:
            raise UnsupportedEntityType(f"Unsupported entity type {type_}")
        if match_type not in MatchType.__members__.values():
            raise InvalidFilter(f"Unknown match type {match_type}")
        if match_type == MatchType.EXACT and match is None:
            raise InvalidFilter("Request specified MATCH_TYPE_EXACT, but set match string to null.")
        if match_type != MatchType.EXACT and match is not None:
            name = MatchType(match_type).name
            raise InvalidFilter(
                f"Request specified MATCH_TYPE_{name}, but also specified a match string."
            )
        if match_type == MatchType.SPECIFIED:
            self._specified.add(type_)
        else:
            self._names[type_] = match

    def matches(self, entity: QuotaEntity) -> bool:
        names = dict(entity.parts)
        if self._strict and len(names) != len(self._names) + len(self._specified):
            return False
        return self._specified <= names.keys() and all(
            type_ in names and names[type_] == name for type_, name in self._names.items()
        )

    def matching(
        self, quotas: Mapping[QuotaEntity, Mapping[str, float]]
    ) -> Iterator[tuple[QuotaEntity, Mapping[str, float]]]:
        """The entities that match, with their limits."""
        return (each for each in quotas.items() if self.matches(each[0]))
