"""Settings: where they come from, and those that a visitor types as lines. Pure."""

from collections.abc import Mapping
from typing import Final

from headrace.client.admin.configs import ConfigSource
from headrace.console.web.errors import PageError

_SOURCES: Final[Mapping[ConfigSource, str]] = {
    ConfigSource.TOPIC: "topic",
    ConfigSource.DYNAMIC_BROKER: "dynamic, this broker",
    ConfigSource.DYNAMIC_DEFAULT_BROKER: "dynamic, all brokers",
    ConfigSource.STATIC_BROKER: "configuration file",
    ConfigSource.DEFAULT: "default",
}


def source_name(source: ConfigSource) -> str:
    return _SOURCES.get(source, source.name.lower().replace("_", " "))


def settings_of(text: str) -> dict[str, str]:
    """The settings; raises `PageError` for a line that is none."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        name, equals, value = stripped.partition("=")
        if not equals or not name.strip():
            raise PageError(
                400,
                "Not a setting",
                f"{stripped[:80]!r} is not NAME=VALUE, one on each line. Nothing was changed.",
            )
        found[name.strip()] = value.strip()
    return found
