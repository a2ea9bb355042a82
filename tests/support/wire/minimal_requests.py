"""The smallest requests of every API and version: they crash handlers that expect content."""

from collections.abc import Iterator
from typing import Any

from headrace.protocol.api import ApiSpec
from headrace.protocol.layout import Field, fields_of
from headrace.protocol.struct import Struct

VARIANTS = ("empty", "null", "zero", "negative", "huge")


def requests(spec: ApiSpec, version: int) -> Iterator[tuple[str, Struct]]:
    """One request per variant: empty arrays, nulls, one element of zeros, of -1, of maxima."""
    for variant in VARIANTS:
        yield variant, _build(spec.request, version, variant)


def _build(cls: type[Struct], version: int, variant: str) -> Struct:
    values = {
        field.name: _value(field, version, variant)
        for field in fields_of(cls)
        if field.is_in(version) and field.options.tag is None
    }
    return cls(**values)


def _value(field: Field, version: int, variant: str) -> Any:
    if field.is_nullable_in(version) and variant == "null":
        return None
    if field.array:
        if variant in ("empty", "null"):
            return []
        return [_element(field, version, variant)]
    return _element(field, version, variant)


def _element(field: Field, version: int, variant: str) -> Any:
    if field.struct is not None:
        return _build(field.struct, version, variant)
    assert field.wire is not None
    if field.wire.kind == "string":
        return {"huge": "x" * 20_000, "negative": "no such thing"}.get(variant, "")
    if field.wire.kind in ("bytes", "records"):
        return b"\xff" * 200 if variant == "huge" else b""
    return _number(field.wire.code, variant)


def _number(code: str, variant: str) -> Any:
    if code == "16s":
        return b"\xff" * 16 if variant in ("negative", "huge") else bytes(16)
    if code == "?":
        return variant == "huge"
    bits = {"b": 8, "h": 16, "H": 16, "i": 32, "I": 32, "q": 64, "d": 0}[code]
    if variant == "negative":
        return 0 if code in "HI" else -1
    if variant == "huge" and bits:
        return 2**bits - 1 if code in "HI" else 2 ** (bits - 1) - 1
    return 0
