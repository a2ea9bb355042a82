"""AlterClientQuotas (key 49), versions 0-1: sets and removes client quotas.

* v1: flexible.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.broker.network.dispatch import Context
from headrace.controller.quota_changes import AlteredQuota, QuotaAlteration, QuotaOp
from headrace.protocol.api import ApiKey
from headrace.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntityData,
    AlterClientQuotasResponseEntryData,
)

if TYPE_CHECKING:
    from headrace.broker.node import Broker


async def handle(
    broker: Broker, context: Context, request: AlterClientQuotasRequest
) -> AlterClientQuotasResponse:
    alterations = [
        QuotaAlteration(
            [(part.entity_type, part.entity_name) for part in entry.entity],
            [QuotaOp(op.key, None if op.remove else op.value) for op in entry.ops],
        )
        for entry in request.entries
    ]
    results = await broker.metadata.decide(
        lambda controller: controller.alter_client_quotas(
            alterations, validate_only=request.validate_only
        )
    )
    if not request.validate_only:
        _log_changes(broker, context, results)
    return AlterClientQuotasResponse(entries=[_entry(altered) for altered in results])


def _log_changes(broker: Broker, context: Context, results: Sequence[AlteredQuota]) -> None:
    for change in (each for altered in results for each in altered.changed):
        what: dict[str, object] = {"entity": change.entity, "quota": change.key}
        if change.value is not None:
            what["value"] = change.value
        broker.access.audit.log_change(
            context.session,
            ApiKey.ALTER_CLIENT_QUOTAS,
            "removed a quota" if change.value is None else "set a quota",
            **what,
        )


def _entry(altered: AlteredQuota) -> AlterClientQuotasResponseEntryData:
    return AlterClientQuotasResponseEntryData(
        error_code=altered.error.code,
        error_message=altered.error.message,
        entity=[
            AlterClientQuotasResponseEntityData(entity_type=type_, entity_name=name)
            for type_, name in altered.entity
        ],
    )
