"""Client quotas: lists and changes the limits of users, client ids and addresses."""

from collections.abc import Mapping, Sequence

from headrace.client.client import ClusterClient, ToController
from headrace.client.errors import RequestRefused, code_of_number
from headrace.client.results import Refusal, moved, refusal
from headrace.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasResponse,
    OpData,
)
from headrace.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from headrace.security.quotas.client_quota import QuotaEntity
from headrace.security.quotas.quota_filter import Component

Limits = Mapping[str, float]


async def list_quotas(
    client: ClusterClient, wanted: Sequence[Component] = (), *, timeout_s: float
) -> dict[QuotaEntity, Limits]:
    """The entities that match all components, sorted, with their limits; a default entity is the
    first of its kind."""
    request = DescribeClientQuotasRequest(
        components=[
            ComponentData(
                entity_type=each.entity_type, match_type=each.match_type, match=each.match
            )
            for each in wanted
        ]
    )
    answer = await client.send(request, DescribeClientQuotasResponse, timeout_s=timeout_s)
    if answer.error_code:
        code = code_of_number(answer.error_code)
        raise RequestRefused(code, answer.error_message or "cannot list quotas")
    found = {
        QuotaEntity(tuple(sorted((part.entity_type, part.entity_name) for part in entry.entity))): {
            each.key: each.value for each in entry.values
        }
        for entry in answer.entries or ()
    }
    return {entity: found[entity] for entity in sorted(found, key=_order)}


async def alter_quota(
    client: ClusterClient,
    entity: QuotaEntity,
    changes: Mapping[str, float | None],
    *,
    timeout_s: float,
    validate_only: bool = False,
) -> Refusal | None:
    """Sets limits of one entity and removes those that are None: all changes, or none."""
    entry = AlterClientQuotasRequestEntryData(
        entity=[
            AlterClientQuotasRequestEntityData(entity_type=type_, entity_name=name)
            for type_, name in entity.parts
        ],
        ops=[
            OpData(key=key, value=value or 0.0, remove=value is None)
            for key, value in changes.items()
        ],
    )
    answer = await client.send(
        AlterClientQuotasRequest(entries=[entry], validate_only=validate_only),
        AlterClientQuotasResponse,
        to=ToController(),
        timeout_s=timeout_s,
        code_of=lambda got: moved(each.error_code for each in got.entries),
    )
    (result,) = answer.entries
    return refusal(result.error_code, result.error_message)


def _order(entity: QuotaEntity) -> tuple[tuple[str, bool, str], ...]:
    return tuple((type_, name is not None, name or "") for type_, name in entity.parts)
