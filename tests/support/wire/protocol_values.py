"""Random messages: any declared struct, any version, with difficult values for codecs."""

import random
from typing import Any

from headrace.protocol.api import APIS
from headrace.protocol.layout import Field, fields_of
from headrace.protocol.messages import consumer_protocol
from headrace.protocol.struct import Struct

INT_BITS = {"b": 8, "h": 16, "i": 32, "q": 64}
UNSIGNED_BITS = {"H": 16, "I": 32}
TEXTS = ("", "a", "topic-1", "ä€😀", "x" * 126, "y" * 127, "é" * 64, "z" * 300)


def every_message() -> list[type[Struct]]:
    """All requests and responses, and the consumers' messages in the group protocol."""
    found: list[type[Struct]] = []
    for spec in APIS.values():
        found += [spec.request, spec.response]
    return [
        *found,
        consumer_protocol.ConsumerProtocolSubscription,
        consumer_protocol.ConsumerProtocolAssignment,
    ]


def every_version() -> list[tuple[type[Struct], int]]:
    """All messages in all their versions."""
    pairs = []
    for cls in every_message():
        assert cls.versions is not None
        pairs += [(cls, version) for version in range(cls.versions[0], cls.versions[1] + 1)]
    return pairs


def label(value: object) -> str:
    """The name of a message or a version in a test's id."""
    return value.__name__ if isinstance(value, type) else f"v{value}"


class Maker:
    """Generates random values for one version; a subclass may restrict them."""

    def __init__(self, rng: random.Random, version: int) -> None:
        self.rng = rng
        self.version = version

    def struct(self, cls: type[Struct], twin: Any = None) -> Struct:
        """A struct with random values in the fields that the version has."""
        made = cls()
        present = self.fields(cls)
        for field, twin_field in zip(present, self.twin_fields(twin, present), strict=True):
            if field.options.tag is not None and self.rng.random() < 0.4:
                continue
            setattr(made, field.name, self.value(field, twin_field))
        return made

    def fields(self, cls: type[Struct]) -> list[Field]:
        """The fields that get values."""
        return [field for field in fields_of(cls) if field.is_in(self.version)]

    def twin_fields(self, twin: Any, present: list[Field]) -> list[Any]:
        """Another implementation's definitions of the same fields; none here."""
        return [None] * len(present)

    def twin_struct(self, twin_field: Any) -> Any:
        """Another implementation's class for a nested struct."""
        return None

    def value(self, field: Field, twin_field: Any) -> Any:
        """A random value for a field: null, a list or a single value."""
        rng = self.rng
        if field.is_nullable_in(self.version) and rng.random() < 0.25:
            return None
        if not field.array:
            return self.single(field, twin_field)
        count = rng.choice((0, 1, 1, 2, 3))
        if field.struct is None and rng.random() < 0.05:
            count = 130
        return [self.single(field, twin_field) for _ in range(count)]

    def single(self, field: Field, twin_field: Any) -> Any:
        """A random element."""
        if field.struct is not None:
            return self.struct(field.struct, self.twin_struct(twin_field))
        assert field.wire is not None
        rng = self.rng
        if field.wire.kind == "string":
            return rng.choice(TEXTS)
        if field.wire.kind in ("bytes", "records"):
            return rng.randbytes(rng.choice((0, 1, 5, 127, 128, 300)))
        return self.fixed(field.wire.code, twin_field)

    def fixed(self, code: str, twin_field: Any) -> Any:
        """A random value of a fixed-size type."""
        rng = self.rng
        if code == "?":
            return rng.random() < 0.5
        if code == "d":
            return rng.choice((0.0, -1.5, rng.uniform(-1e9, 1e9)))
        if code == "16s":
            return rng.choice((bytes(16), rng.randbytes(16)))
        if code in UNSIGNED_BITS:
            bits = UNSIGNED_BITS[code]
            return rng.choice((0, 1, (1 << bits) - 1, rng.getrandbits(bits)))
        half = 1 << (INT_BITS[code] - 1)
        return rng.choice((0, 1, -1, half - 1, -half, rng.randrange(-half, half)))
