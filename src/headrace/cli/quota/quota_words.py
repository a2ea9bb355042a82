"""Quotas in the words of the command line: entities, limits and their rows. Pure."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from headrace.cli.error_messages import usage
from headrace.name_suggestion import nearest_name
from headrace.operations.quota_text import show_entity, show_limit
from headrace.security.quotas.client_quota import (
    CLIENT_ID,
    CONNECTION_CREATION_RATE,
    IP,
    USER,
    USER_CLIENT_KEYS,
    QuotaEntity,
)
from headrace.security.quotas.quota_filter import Component, MatchType
from headrace.security.quotas.quota_limits import canonical_address

ALL_KEYS: Final = (*USER_CLIENT_KEYS, CONNECTION_CREATION_RATE)
HEADERS: Final = ("ENTITY", "QUOTA", "LIMIT")


class EntityOptions(NamedTuple):
    """The options of a command that name an entity."""

    user: str | None
    user_default: bool
    client_id: str | None
    client_default: bool
    ip: str | None
    ip_default: bool

    def parts(self) -> dict[str, str | None]:
        """The named types; None is the default entity of a type."""
        given = (
            (USER, self.user, self.user_default),
            (CLIENT_ID, self.client_id, self.client_default),
            (IP, self.ip, self.ip_default),
        )
        parts: dict[str, str | None] = {}
        for type_, name, is_default in given:
            if name is not None and is_default:
                option = "client" if type_ == CLIENT_ID else type_
                raise usage(f"give either --{type_} or --{option}-default")
            if name == "":
                raise usage(f"--{type_} takes a name, not an empty text")
            if name is not None or is_default:
                parts[type_] = name
        if IP in parts and len(parts) > 1:
            raise usage("the quota of an address has no user and no client id")
        address = parts.get(IP)
        if address is not None:
            parts[IP] = canonical_address(address) or address
        return parts

    def entity(self) -> QuotaEntity:
        parts = self.parts()
        if not parts:
            raise usage("say whose quota, for example with --user, --client-id or --ip")
        return QuotaEntity(tuple(sorted(parts.items())))

    def filter(self) -> list[Component]:
        """The components that match exactly these names."""
        return [
            Component(type_, MatchType.DEFAULT if name is None else MatchType.EXACT, name)
            for type_, name in self.parts().items()
        ]


def key_of(word: str) -> str:
    """The key of a quota, with underscores as in Kafka, or with hyphens as in options."""
    key = word.strip().lower().replace("-", "_")
    if key in ALL_KEYS:
        return key
    near = nearest_name(key, ALL_KEYS)
    hint = f"the quotas are {', '.join(ALL_KEYS)}" if near is None else f"did you mean {near!r}?"
    raise usage(f"no quota {word!r}; {hint}")


def facts_of(entity: QuotaEntity, limits: Mapping[str, float]) -> dict[str, object]:
    return {"entity": dict(entity.parts), "limits": dict(limits)}


def rows_of(entity: QuotaEntity, limits: Mapping[str, float]) -> list[tuple[str, str, str]]:
    return [(show_entity(entity), key, show_limit(key, value)) for key, value in limits.items()]
