"""Messages declared once, as data: `Struct`, its fields and their version ranges.

A subclass lists its fields as annotations with Kafka's default values. It gets `__slots__`, a
keyword-only constructor, equality by value and a `repr`. A subclass with `versions` is a whole
message and can be read and written. The reader and the writer of a version are compiled on first
use and kept on the class, so declaring a message is cheap.
"""

from collections.abc import Callable
from typing import (
    Any,
    ClassVar,
    Final,
    NoReturn,
    Self,
    TypeVar,
    cast,
    dataclass_transform,
    overload,
)

from headrace.protocol.errors import MalformedMessage, UnsupportedVersion
from headrace.protocol.types import Buffer

T = TypeVar("T")

Reader = Callable[[Buffer, int, int], tuple[Any, int]]
Writer = Callable[[Any, list[Buffer]], None]

MAX_VERSION: Final = 0x7FFF
"""Versions are int16 on the wire."""


class _Missing:
    """The type of the marker for a missing argument."""


MISSING: Final = _Missing()


class FieldOptions:
    """The options of a field declaration besides its type."""

    __slots__ = (
        "compact",
        "default",
        "default_factory",
        "ignorable",
        "nullable_since",
        "since",
        "tag",
        "until",
    )

    def __init__(
        self,
        default: object = MISSING,
        default_factory: Callable[[], object] | None = None,
        since: int = 0,
        until: int = MAX_VERSION,
        tag: int | None = None,
        nullable_since: int = 0,
        ignorable: bool = False,
        compact: bool = True,
    ) -> None:
        self.default = default
        self.default_factory = default_factory
        self.since = since
        self.until = until
        self.tag = tag
        self.nullable_since = nullable_since
        self.ignorable = ignorable
        self.compact = compact


@overload
def field(
    *,
    default: T,
    since: int = 0,
    until: int = MAX_VERSION,
    tag: int | None = None,
    nullable_since: int = 0,
    ignorable: bool = False,
    compact: bool = True,
) -> T: ...
@overload
def field(
    *,
    default_factory: Callable[[], T],
    since: int = 0,
    until: int = MAX_VERSION,
    tag: int | None = None,
    nullable_since: int = 0,
    ignorable: bool = False,
    compact: bool = True,
) -> T: ...
def field(**options: Any) -> Any:
    """Declares a field that not every version has, or whose default is an array or a struct.

    since, until     the versions that have the field; in others it reads as its default
    tag              makes it a tagged field, which is not written if it has its default
    nullable_since   the first version in which it may be null
    ignorable        silently dropped by versions without the field; otherwise writing a value other
                     than the default in such a version raises `UnsupportedVersion`
    compact          false for the one string that keeps its old encoding in flexible versions
    default_factory  `list`: a new empty list each time; a Struct: one shared, read-only instance,
                     to be replaced by assignment and never changed in place
    """
    return FieldOptions(**options)


@dataclass_transform(kw_only_default=True, eq_default=True, field_specifiers=(field,))
class StructMeta(type):
    """Turns the annotated names of a class body into slots and stores their options."""

    def __new__(
        mcls, name: str, bases: tuple[type, ...], body: dict[str, Any], **keywords: object
    ) -> "StructMeta":
        annotations = body.get("__annotations__", {})
        if bases:
            names = tuple(annotations)
            body["__slots__"] = names
            body["_declared"] = {
                field_name: (annotations[field_name], body.pop(field_name, MISSING))
                for field_name in names
            }
            body["_readers"] = {}
            body["_writers"] = {}
        return super().__new__(mcls, name, bases, body, **keywords)


class Struct(metaclass=StructMeta):
    """The base class of every message and of every structure inside one."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]  # mutable

    versions: ClassVar[tuple[int, int] | None] = None
    """The first and last version of a whole message; None for a structure inside one."""
    flexible_since: ClassVar[int] = MAX_VERSION + 1
    """The first version with compact lengths and tagged fields."""
    _declared: ClassVar[dict[str, tuple[Any, object]]] = {}
    _readers: ClassVar[dict[int, Reader]] = {}
    _writers: ClassVar[dict[int, Writer]] = {}

    def __init_subclass__(
        cls, versions: tuple[int, int] | None = None, flexible_since: int = MAX_VERSION + 1
    ) -> None:
        cls.versions = versions
        cls.flexible_since = flexible_since

    def __init__(self, **values: object) -> None:
        # The real constructor of a class is compiled on first use and replaces this one.
        from headrace.protocol.compiler import compile_init

        cls = type(self)
        cls.__init__ = compile_init(cls)  # type: ignore[method-assign]
        cls.__init__(self, **values)

    @classmethod
    def decode(cls, buf: Buffer, version: int) -> Self:
        """The message in `buf`; anything else, including trailing bytes, is malformed."""
        end = len(buf)
        message, pos = (cls._readers.get(version) or cls._compiled_reader(version))(buf, 0, end)
        if pos != end:
            raise MalformedMessage(
                f"{cls.__name__} v{version} ends at byte {pos}, but {end - pos} more follow"
            )
        return cast("Self", message)

    @classmethod
    def read(cls, buf: Buffer, pos: int, end: int, version: int) -> tuple[Self, int]:
        """The message at `pos` and the position after it; does not read at or past `end`."""
        return (cls._readers.get(version) or cls._compiled_reader(version))(buf, pos, end)

    @classmethod
    def reader(cls, version: int) -> Reader:
        """The compiled reader of one version, `(buf, pos, end) -> (message, pos)`, to keep."""
        return cls._readers.get(version) or cls._compiled_reader(version)

    def encode(self, version: int) -> bytes:
        """The message as one bytes object."""
        out: list[Buffer] = []
        (self._writers.get(version) or self._compiled_writer(version))(self, out)
        return b"".join(out)

    def write(self, version: int, out: list[Buffer]) -> None:
        """Appends the message in chunks; record sets are appended without a copy."""
        (self._writers.get(version) or self._compiled_writer(version))(self, out)

    @classmethod
    def _compiled_reader(cls, version: int) -> Reader:
        from headrace.protocol.compiler import compile_reader

        cls._check_version(version)
        reader = cls._readers[version] = compile_reader(cls, version)
        return reader

    @classmethod
    def _compiled_writer(cls, version: int) -> Writer:
        from headrace.protocol.compiler import compile_writer

        cls._check_version(version)
        writer = cls._writers[version] = compile_writer(cls, version)
        return writer

    @classmethod
    def _check_version(cls, version: int) -> None:
        if cls.versions is None:
            raise TypeError(f"{cls.__name__} is part of a message and has no versions")
        first, last = cls.versions
        if not first <= version <= last:
            raise UnsupportedVersion(
                f"{cls.__name__} has versions {first} to {last}, not {version}"
            )

    def __eq__(self, other: object) -> bool:
        if not (isinstance(other, type(self)) or isinstance(self, type(other))):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self._declared)

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in self._declared)
        return f"{type(self).__name__}({values})"


def _refuse_change(self: Struct, name: str, value: object = None) -> NoReturn:
    raise AttributeError(
        f"{type(self).__name__}.{name} belongs to a shared default; assign a new "
        f"{type(self).__name__} to the field that holds it"
    )


def frozen(instance: Struct) -> Struct:
    """A read-only copy of `instance` that many messages may share as a default."""
    cls = type(instance)
    body = {"__slots__": (), "__setattr__": _refuse_change, "__delattr__": _refuse_change}
    frozen_class = type.__new__(StructMeta, cls.__name__, (cls,), body)
    copy: Struct = object.__new__(cast("type[Struct]", frozen_class))
    for name in cls._declared:
        object.__setattr__(copy, name, getattr(instance, name))
    return copy
