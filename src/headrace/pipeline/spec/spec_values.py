"""The basic values of a spec: durations, sizes, locations, and settings with secrets."""

import os
import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Annotated, Final

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    RootModel,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
)
from pydantic_core import PydanticCustomError

_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)")
_SECONDS: Final = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(b|kb|mb|gb|kib|mib|gib)?", re.IGNORECASE)
_BYTES: Final = {
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
}
VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_SECRET_NAME: Final = re.compile(
    r"password|secret|token(?!auth|.*(?:url|uri|endpoint|type))|jaas\.config|private.?key"
    r"|credential(?!s\.client\.id)|ssl\.key\.pem|ssl\.keystore\.key|account_key|sas_key",
    re.IGNORECASE,
)


class TemplatePart(BaseModel):
    """A section of a spec: immutable, and unknown keys are errors."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        populate_by_name=True,
        hide_input_in_errors=True,
        use_attribute_docstrings=True,
    )


def seconds_of(value: object) -> float:
    """The seconds of `500ms`, `10s`, `5m`, `1h` or `7d`."""
    match = _DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None or float(match[1]) == 0:
        if isinstance(value, float) and value > 0:
            return value  # Python code may pass seconds
        raise PydanticCustomError(
            "duration",
            "{value} is not a duration",
            {"value": repr(value), "fix": "write, for example, 10s or 5m"},
        )
    return float(match[1]) * _SECONDS[match[2]]


def bytes_of(value: object) -> int:
    """The bytes of `64MB`, `1GiB`, or of a number of bytes."""
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    match = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None or float(match[1]) == 0:
        raise PydanticCustomError(
            "size",
            "{value} is not a size",
            {"value": repr(value), "fix": "write, for example, 64MB or 1GiB"},
        )
    return int(float(match[1]) * _BYTES[(match[2] or "b").lower()])


def _valid_trigger(value: object) -> str:
    if value == "once":
        return "once"
    if not isinstance(value, str):
        raise PydanticCustomError(
            "trigger",
            "{value} is not a trigger",
            {"value": repr(value), "fix": "write, for example, 10s, or once"},
        )
    seconds_of(value)
    return value


_NOT_IN_PATHS: Final = re.compile(r"[\x00-\x1f\ud800-\udfff]")


def _absolute_location(value: str, info: ValidationInfo) -> str:
    """A relative path starts at the directory of the spec, not at the current directory."""
    if not value.strip() or _NOT_IN_PATHS.search(value):
        raise PydanticCustomError("location", "{value} is not a path", {"value": repr(value)})
    base = (info.context or {}).get("base")
    if base is None or "://" in value or Path(value).is_absolute():
        return value
    return str(Path(base) / Path(value).expanduser())


def is_schema_file(text: str) -> bool:
    """Whether the text is a path and not DDL. DDL of a column contains a space."""
    return bool(Path(text).suffix) and " " not in text.strip() and "<" not in text


def _absolute_schema(value: str, info: ValidationInfo) -> str:
    return _absolute_location(value, info) if is_schema_file(value) else value


def _absolute_python_name(value: str, info: ValidationInfo) -> str:
    module, _, function = value.rpartition(":")
    return f"{_absolute_location(module, info)}:{function}" if module.endswith(".py") else value


_SIZE_SCHEMA: Final = {
    "anyOf": [
        {"type": "integer", "minimum": 1},
        {"type": "string", "pattern": r"^\d+(\.\d+)? *\w*$"},
    ]
}
Duration = Annotated[
    float,
    BeforeValidator(seconds_of),
    WithJsonSchema({"type": "string", "pattern": r"^\d+(\.\d+)? *(ms|s|m|h|d)$"}),
]
Size = Annotated[int, BeforeValidator(bytes_of), WithJsonSchema(_SIZE_SCHEMA)]
Trigger = Annotated[
    str,
    BeforeValidator(_valid_trigger),
    WithJsonSchema({"type": "string", "pattern": r"^(once|\d+(\.\d+)? *(ms|s|m|h|d))$"}),
]
Location = Annotated[str, AfterValidator(_absolute_location)]
"""A path, relative to the spec's file, or a URL."""


SchemaText = Annotated[str, AfterValidator(_absolute_schema)]
"""A schema file, or DDL."""
PythonName = Annotated[str, AfterValidator(_absolute_python_name)]


class UnsetVariable(ValueError):
    """A setting refers to an environment variable that is not set."""


def expanded(text: str, environment: Mapping[str, str] | None = None) -> str:
    """The text with every `${NAME}` replaced by the value of the variable."""
    env = os.environ if environment is None else environment

    def value(match: re.Match[str]) -> str:
        if match[1] not in env:
            raise UnsetVariable(f"the environment variable {match[1]} is not set")
        return env[match[1]]

    return VARIABLE.sub(value, text)


def is_secret(name: str) -> bool:
    return _SECRET_NAME.search(name) is not None


class Settings(RootModel[dict[str, str]]):
    """Settings of another system by its own names.

    A secret is written as `${NAME}` and looked up when it is used, so that a spec, its printed form
    and its errors never contain it.
    """

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)
    root: dict[str, str] = {}

    @field_validator("root", mode="before")
    @classmethod
    def _numbers_to_text(cls, value: object) -> object:
        if not isinstance(value, Mapping):
            return value
        return {
            key: str(each).lower()
            if isinstance(each, bool)
            else str(each)
            if isinstance(each, int | float)
            else each
            for key, each in value.items()
        }

    @field_validator("root")
    @classmethod
    def _no_secret_in_plain_text(cls, value: dict[str, str]) -> dict[str, str]:
        for name, text in value.items():
            if is_secret(name) and text and VARIABLE.search(text) is None:
                raise PydanticCustomError(
                    "open_secret",
                    "{name} must not be in plain text; use {variable}",
                    {
                        "name": name,
                        "key": name,
                        "variable": (variable := _variable_for(name)),
                        "fix": f"{name}: {variable}, and set that variable",
                    },
                )
        return value

    def resolved(self, environment: Mapping[str, str] | None = None) -> dict[str, str]:
        """The values with their variables replaced; raises `UnsetVariable`."""
        return {name: expanded(text, environment) for name, text in self.root.items()}

    def __bool__(self) -> bool:
        return bool(self.root)


def _variable_for(setting: str) -> str:
    """A reference to an environment variable that is named after the setting."""
    return f"${{{re.sub(r'[^A-Z0-9]+', '_', setting.upper())}}}"


def format_tagger(known: Collection[str]) -> Callable[[object], str | None]:
    """For a `Discriminator`: the tag of a section by its `format`; None if it is not known."""

    def tag_of(value: object) -> str | None:
        name = value.get("format") if isinstance(value, dict) else getattr(value, "format", None)
        return f"<{name}>" if name in known else None

    return tag_of
