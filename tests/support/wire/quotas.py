"""Sets client quotas over the raw wire."""

from collections.abc import Sequence

from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasResponse,
    OpData,
)
from support.wire.connection import Wire

Entity = Sequence[tuple[str, str | None]]

ANY_USER: Entity = [("user", None)]


def alteration(entity: Entity, **limits: float | None) -> AlterClientQuotasRequestEntryData:
    """Sets the limits of one entity; None removes one."""
    return AlterClientQuotasRequestEntryData(
        entity=[
            AlterClientQuotasRequestEntityData(entity_type=type_, entity_name=name)
            for type_, name in entity
        ],
        ops=[
            OpData(key=key, value=value or 0.0, remove=value is None)
            for key, value in limits.items()
        ],
    )


def alter_quotas(
    wire: Wire,
    *alterations: AlterClientQuotasRequestEntryData,
    validate_only: bool = False,
    version: int | None = None,
) -> AlterClientQuotasResponse:
    request = AlterClientQuotasRequest(entries=list(alterations), validate_only=validate_only)
    return wire.call(request, AlterClientQuotasResponse, version)


def set_quota(wire: Wire, entity: Entity, **limits: float | None) -> None:
    """Sets and removes limits of one entity, and checks that they were accepted."""
    (altered,) = alter_quotas(wire, alteration(entity, **limits)).entries
    assert altered.error_code == ErrorCode.NONE, altered.error_message
