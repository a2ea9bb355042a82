"""The fields of a struct, resolved from its declaration for the compiler."""

from collections.abc import Callable
from types import NoneType, UnionType
from typing import Any, Final, NamedTuple, get_args, get_origin

from headrace.protocol.struct import MISSING, FieldOptions, Struct, frozen
from headrace.protocol.types import Wire

_ZERO: Final = {"string": "", "bytes": b"", "records": b""}
"""The defaults of fields with a length; the default of a fixed-size field is 0."""


class Field(NamedTuple):
    """One field. Exactly one of `wire` and `struct` is set; either may be an array's element."""

    name: str
    wire: Wire | None
    struct: type[Struct] | None
    array: bool
    nullable: bool
    default: Any
    """The value, or a shared read-only struct; with `fresh_list` an empty list to compare to."""
    fresh_list: bool
    options: FieldOptions

    def is_in(self, version: int) -> bool:
        """Whether this version has the field."""
        return self.options.since <= version <= self.options.until

    def is_nullable_in(self, version: int) -> bool:
        """Whether the field may be null in this version."""
        return self.nullable and version >= self.options.nullable_since


def fields_of(cls: type[Struct]) -> tuple[Field, ...]:
    """The declared fields in wire order."""
    found = cls.__dict__.get("_fields")
    if found is None:
        found = tuple(
            _resolve(name, annotation, default)
            for name, (annotation, default) in cls._declared.items()
        )
        cls._fields = found  # type: ignore[attr-defined]
    fields: tuple[Field, ...] = found
    return fields


def _resolve(name: str, annotation: Any, declared: object) -> Field:  # noqa: ANN401
    options = declared if isinstance(declared, FieldOptions) else FieldOptions(default=declared)
    nullable = array = False
    if isinstance(annotation, UnionType):
        (annotation,) = (arm for arm in get_args(annotation) if arm is not NoneType)
        nullable = True
    if get_origin(annotation) is list:
        (annotation,) = get_args(annotation)
        array = True
    if isinstance(annotation, type):
        wire, struct = None, annotation
    else:
        wire, struct = annotation.__metadata__[0], None
        nullable = nullable or wire.nullable
    default = _default(options, wire)
    return Field(name, wire, struct, array, nullable, default, default == [], options)


def _default(options: FieldOptions, wire: Wire | None) -> object:
    if options.default_factory is not None:
        made = options.default_factory()
        return frozen(made) if isinstance(made, Struct) else made
    if options.default is not MISSING:
        return options.default
    return _ZERO[wire.kind] if wire and wire.kind in _ZERO else 0


def least_size(cls: type[Struct], version: int, flexible: bool) -> int:
    """The minimum encoded size of the struct, to check a claimed count against."""
    total = 1 if flexible else 0
    for field in fields_of(cls):
        if field.is_in(version) and field.options.tag is None:
            total += _least_field_size(field, version, flexible)
    return total


def _least_field_size(field: Field, version: int, flexible: bool) -> int:
    flexible = flexible and field.options.compact
    if field.array:
        return 1 if flexible else 4
    if field.struct is not None:
        if field.is_nullable_in(version):
            return 1
        return least_size(field.struct, version, flexible)
    assert field.wire is not None
    if field.wire.kind == "fixed":
        return field.wire.size
    if flexible:
        return 1
    return 2 if field.wire.kind == "string" else 4


class Source:
    """Python source under construction, with the objects that it refers to by name."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {}
        self._lines: list[str] = []
        self._depth = 0
        self._counter = 0
        self._bound: dict[int, str] = {}

    def line(self, text: str) -> None:
        """Adds one line at the current indentation."""
        self._lines.append("    " * self._depth + text)

    def indent(self) -> None:
        """Enters a block."""
        self._depth += 1

    def dedent(self) -> None:
        """Leaves a block."""
        self._depth -= 1

    def fresh(self, prefix: str) -> str:
        """An unused name for a local variable."""
        self._counter += 1
        return f"{prefix}{self._counter}"

    def bind(self, prefix: str, value: object) -> str:
        """The name by which the source refers to `value`."""
        name = self._bound.get(id(value))
        if name is None:
            name = self._bound[id(value)] = self.fresh(prefix)
            self.names[name] = value
        return name

    def literal(self, value: object) -> str:
        """An expression for a default value."""
        if value is None or isinstance(value, int | float | str | bytes):
            return repr(value)
        return self.bind("DEFAULT", value)

    def build(self, function: str, title: str) -> Callable[..., Any]:
        """Compiles the source and returns the function that it defines."""
        code = compile("\n".join(self._lines), f"<headrace {title}>", "exec")
        exec(code, self.names)  # noqa: S102  # the source comes only from declarations
        built: Callable[..., Any] = self.names[function]
        return built
