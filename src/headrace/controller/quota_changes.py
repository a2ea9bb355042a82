"""AlterClientQuotas: Kafka's checks in Kafka's order, records out. Pure.

The entities of a request are independent: those without an error change. Stricter than in Kafka: an
entity that the request names twice does not change at all, an address must be an IP address and not
a host name, which each broker might resolve differently, and a limit must be a finite number.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, NoReturn

from headrace.cluster.image import MetadataImage
from headrace.cluster.metadata_records import ClientQuotaChanged, MetadataRecord
from headrace.cluster.topology import SECURITY_LEVEL
from headrace.controller.metadata_level import require_metadata_level
from headrace.controller.result import NO_ERROR, ApiError, ControllerResult, Refused
from headrace.protocol.errors import ErrorCode
from headrace.security.quotas.client_quota import (
    CLIENT_ID,
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    IP,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    USER,
    QuotaEntity,
)
from headrace.security.quotas.quota_limits import canonical_address

_MAX_LONG: Final = 2**63 - 1
_MAX_INT: Final = 2**31 - 1
_FRACTION: Final = 1e-6
"""Kafka's tolerance for whole numbers, which are doubles on the wire."""

_TYPES: Final = (USER, CLIENT_ID, IP)
_UNLIMITED: Final = math.inf


class _Key(NamedTuple):
    """The allowed values of one key: the largest whole number, or any number up to infinity."""

    maximum: float
    type_name: str


_USER_CLIENT_KEYS: Final[Mapping[str, _Key]] = {
    PRODUCER_BYTE_RATE: _Key(_MAX_LONG, "a LONG"),
    CONSUMER_BYTE_RATE: _Key(_MAX_LONG, "a LONG"),
    REQUEST_PERCENTAGE: _Key(_UNLIMITED, "a DOUBLE"),
    CONTROLLER_MUTATION_RATE: _Key(_UNLIMITED, "a DOUBLE"),
}
_IP_KEYS: Final[Mapping[str, _Key]] = {CONNECTION_CREATION_RATE: _Key(_MAX_INT, "an INT")}


class QuotaOp(NamedTuple):
    """A new limit for a key; None removes the limit."""

    key: str
    value: float | None


class QuotaAlteration(NamedTuple):
    """The changes of one entity, whose (type, name) parts are as in the request."""

    entity: Sequence[tuple[str, str | None]]
    ops: Sequence[QuotaOp]


class AlteredQuota(NamedTuple):
    """The result for one entity: an error, or the limits that changed."""

    entity: Sequence[tuple[str, str | None]]
    error: ApiError = NO_ERROR
    changed: Sequence[ClientQuotaChanged] = ()


def alter_client_quotas(
    image: MetadataImage, alterations: Sequence[QuotaAlteration]
) -> ControllerResult[AlteredQuota]:
    """Sets and removes limits. One result for each distinct entity, in the order of the request."""
    counts = Counter(_identity(each.entity) for each in alterations)
    records: list[MetadataRecord] = []
    results: dict[tuple[tuple[str, str | None], ...], AlteredQuota] = {}
    for alteration in alterations:
        identity = _identity(alteration.entity)
        try:
            if counts[identity] > 1:
                _refuse(f"Duplicate entity {_shown(alteration.entity)}")
            changed = _changed_limits(image, alteration)
        except Refused as refused:
            results[identity] = AlteredQuota(alteration.entity, error=refused.error)
            continue
        records += changed
        results[identity] = AlteredQuota(alteration.entity, changed=changed)
    return ControllerResult(tuple(records), list(results.values()))


def _changed_limits(image: MetadataImage, alteration: QuotaAlteration) -> list[ClientQuotaChanged]:
    """The records of one entity; a limit that stays the same has none."""
    _check_keys_are_distinct(alteration)
    entity = _checked_entity(alteration.entity)
    keys = _IP_KEYS if entity.parts[0][0] == IP else _USER_CLIENT_KEYS
    current = image.quotas.get(entity, {})
    changed = []
    for key, value in alteration.ops:
        if value is not None:
            _check_value(keys, key, value)
            require_metadata_level(image, SECURITY_LEVEL, "client quotas")
        if current.get(key) != value:
            changed.append(ClientQuotaChanged(entity, key, value))
    return changed


def _check_keys_are_distinct(alteration: QuotaAlteration) -> None:
    seen: set[str] = set()
    for op in alteration.ops:
        if op.key in seen:
            _refuse(
                f"Duplicate quota key {op.key} not updating quota for this entity "
                f"{_shown(alteration.entity)}"
            )
        seen.add(op.key)


def _checked_entity(parts: Sequence[tuple[str, str | None]]) -> QuotaEntity:
    names: dict[str, str | None] = {}
    for type_, name in parts:
        if type_ in names:
            _refuse(f"Invalid client quota entity, duplicate entity entry {type_}")
        if type_ not in _TYPES:
            _refuse(f"Unhandled client quota entity type: {type_}")
        if name == "":
            _refuse(f"Empty {type_} not supported")
        names[type_] = name
    if not names:
        _refuse("Invalid empty client quota entity")
    if IP in names:
        if len(names) > 1:
            _refuse(
                "Invalid quota entity combination, IP entity should not be combined with User or "
                "ClientId"
            )
        names[IP] = _checked_address(names[IP])
    return QuotaEntity(tuple(sorted(names.items())))


def _checked_address(name: str | None) -> str | None:
    if name is None:
        return None
    address = canonical_address(name)
    if address is None:
        _refuse(f"{name} is not a valid IP address.")
    return address


def _check_value(keys: Mapping[str, _Key], key: str, value: float) -> None:
    allowed = keys.get(key)
    if allowed is None:
        _refuse(f"Invalid configuration key {key}")
    if not value > 0:  # NaN is not larger than anything
        _refuse(f"Quota {key} must be greater than 0")
    if value > allowed.maximum or math.isinf(value):
        _refuse(f"Proposed value for {key} is too large for {allowed.type_name}.")
    if allowed.maximum is not _UNLIMITED and value % 1.0 > _FRACTION:
        _refuse(f"{key} cannot be a fractional value.")


def _identity(parts: Sequence[tuple[str, str | None]]) -> tuple[tuple[str, str | None], ...]:
    """Equal for the same entity, whatever the order of its parts and the form of its address."""
    canonical = (
        (type_, (name and canonical_address(name)) or name) if type_ == IP else (type_, name)
        for type_, name in parts
    )
    return tuple(sorted(canonical, key=lambda part: (part[0], part[1] or "", part[1] is None)))


def _shown(parts: Sequence[tuple[str, str | None]]) -> str:
    names = ", ".join(f"{type_}={name}" for type_, name in parts)
    return f"ClientQuotaEntity(entries={{{names}}})"


def _refuse(message: str) -> NoReturn:
    raise Refused(ErrorCode.INVALID_REQUEST, message)
