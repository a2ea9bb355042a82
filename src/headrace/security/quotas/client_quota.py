"""Client quotas: the entities that have quotas, and the keys of their limits."""

from typing import Final, NamedTuple

DEFAULT: Final = None
"""The name of a default entity: every user, client or address without an own quota."""

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"

USER_CLIENT_KEYS: Final = (
    PRODUCER_BYTE_RATE,
    CONSUMER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    CONTROLLER_MUTATION_RATE,
)
"""The keys of users and clients; an address has only a connection creation rate."""


class QuotaEntity(NamedTuple):
    """(type, name) pairs, sorted by type; a name of None is the default entity of that type."""

    parts: tuple[tuple[str, str | None], ...]

    def __str__(self) -> str:
        return ",".join(
            f"{type_}:{'(default)' if name is None else name}" for type_, name in self.parts
        )
