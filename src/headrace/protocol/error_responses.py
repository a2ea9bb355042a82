"""The response to a failed request, with the error code in the fields where Kafka puts it.

The fields are found in the message declarations. The code goes into the outermost field for it. If
there is none, it goes into each item: each partition of a Produce, each group of a DescribeGroups.
Fetch and ShareFetch responses have both; there only a session error goes into the outer field.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from headrace.protocol.api import ApiKey, ApiSpec
from headrace.protocol.errors import ErrorCode
from headrace.protocol.layout import Field, fields_of
from headrace.protocol.struct import Struct

_CODES: Final = ("error_code", "partition_error_code")
_BY_PARTITION: Final = (ApiKey.FETCH, ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE, ApiKey.METADATA)
_SESSION_ERRORS: Final = (
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    ErrorCode.SHARE_SESSION_NOT_FOUND,
    ErrorCode.INVALID_SHARE_SESSION_EPOCH,
    ErrorCode.SHARE_SESSION_LIMIT_REACHED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.REBOOTSTRAP_REQUIRED,
)

# Response fields that identify a part of the request, and their names in requests.
_IDENTITIES: Final[dict[str, tuple[str, ...]]] = {
    "name": ("name", "topic"),
    "topic": ("topic", "name"),
    "topic_name": ("topic_name", "name"),
    "topic_id": ("topic_id",),
    "group_id": ("group_id",),
    "key": ("key",),
    "transactional_id": ("transactional_id",),
    "resource_type": ("resource_type",),
    "resource_name": ("resource_name",),
    "producer_id": ("producer_id",),
    "partition_index": ("partition_index", "partition", "index"),
    "partition": ("partition", "partition_index"),
    "index": ("index", "partition_index"),
}
# Response arrays that repeat those of the request.
_REPEATED: Final = ("entity",)
# Fields whose value for "none" in Kafka is not the field's default.
_NONE_VALUES: Final[dict[str, object]] = {
    "base_offset": -1,
    "high_watermark": -1,
    "low_watermark": -1,
    "producer_id": -1,
    "producer_epoch": -1,
    "records": b"",
}

Part = Struct | str | int
"""A part of a request: a topic with partitions, or just a name or an index."""


class _Failure(NamedTuple):
    code: ErrorCode
    message: str | None


def error_response(
    spec: ApiSpec, request: Struct, version: int, code: ErrorCode, message: str | None = None
) -> Struct | None:
    """The response; None if the request has no item that could fail with a code."""
    failure = _Failure(code, message)
    inside = _array_for_codes(spec.response, version) is not None
    by_part = spec.key in _BY_PARTITION and code not in _SESSION_ERRORS and inside
    if by_part and (_request_parts(request, version, "") or spec.key is ApiKey.METADATA):
        return _failed_parts(spec.response, request, version, failure, {})
    return _failed_part(spec.response, request, version, failure, top=True)


def failed_parts(
    spec: ApiSpec, request: Struct, version: int, code: ErrorCode, message: str | None = None
) -> tuple[str, list[Struct]]:
    """The name of the response's array with the error codes, and its elements for the request."""
    array = _array_for_codes(spec.response, version)
    assert array is not None
    found = _failed_parts(spec.response, request, version, _Failure(code, message), {})
    return array.name, [] if found is None else getattr(found, array.name)


def can_carry_error(spec: ApiSpec) -> bool:
    """Whether the response has any field for an error code."""
    return _carries_code(spec.response, spec.max_version)


def _failed_part(
    cls: type[Struct], part: Part, version: int, failure: _Failure, *, top: bool = False
) -> Struct | None:
    fields = [field for field in fields_of(cls) if field.is_in(version)]
    names = {field.name for field in fields}
    values = {name: value for name, value in _NONE_VALUES.items() if name in names}
    if not top:
        values |= _identity(fields, part) | _repeated_arrays(fields, part)
    coded = [name for name in _CODES if name in names]
    if not coded:
        return _failed_parts(cls, part, version, failure, values)
    values |= dict.fromkeys(coded, failure.code)
    if "error_message" in names:
        values["error_message"] = failure.message
    return cls(**values)


def _failed_parts(
    cls: type[Struct], part: Part, version: int, failure: _Failure, values: dict[str, object]
) -> Struct | None:
    array = _array_for_codes(cls, version)
    if array is None or not isinstance(part, Struct):
        return None
    assert array.struct is not None
    answers = [
        _failed_part(array.struct, each, version, failure)
        for each in _request_parts(part, version, array.name)
    ]
    failed = [answer for answer in answers if answer is not None]
    return cls(**values, **{array.name: failed}) if failed else None


def _array_for_codes(cls: type[Struct], version: int) -> Field | None:
    """The array whose elements contain the code, directly or nested."""
    for field in fields_of(cls):
        if (
            field.array
            and field.struct is not None
            and field.is_in(version)
            and _carries_code(field.struct, version)
        ):
            return field
    return None


def _carries_code(cls: type[Struct], version: int) -> bool:
    return (
        any(field.name in _CODES and field.is_in(version) for field in fields_of(cls))
        or _array_for_codes(cls, version) is not None
    )


def _request_parts(part: Struct, version: int, name: str) -> Sequence[Part]:
    """The elements of the array with that name, or of the first array."""
    arrays = [field.name for field in fields_of(type(part)) if field.array and field.is_in(version)]
    if not arrays:
        return ()
    parts: Sequence[Part] | None = getattr(part, name if name in arrays else arrays[0])
    return parts or ()


def _repeated_arrays(fields: Sequence[Field], part: Part) -> dict[str, object]:
    """The arrays that identify the part, such as the entity of a quota."""
    repeated: dict[str, object] = {}
    for field in fields:
        if field.name in _REPEATED and field.struct is not None and hasattr(part, field.name):
            names = [inner.name for inner in fields_of(field.struct)]
            repeated[field.name] = [
                field.struct(**{name: getattr(each, name) for name in names})
                for each in getattr(part, field.name)
            ]
    return repeated


def _identity(fields: Sequence[Field], part: Part) -> dict[str, object]:
    """The names, ids and indexes that identify the part for the client."""
    known = [field for field in fields if field.name in _IDENTITIES]
    if isinstance(part, Struct):
        found: dict[str, object] = {}
        for field in known:
            for source in _IDENTITIES[field.name]:
                if hasattr(part, source):
                    found.setdefault(field.name, getattr(part, source))
        return found
    kind = "string" if isinstance(part, str) else "fixed"
    for field in known:
        if field.wire is not None and field.wire.kind == kind and field.wire.code != "16s":
            return {field.name: part}
    return {}
