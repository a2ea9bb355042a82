"""Settings as tests write them: numbers and booleans as well as Kafka's texts."""

from collections.abc import Mapping

SettingValue = str | int | float | bool


def setting_texts(settings: Mapping[str, SettingValue] | None) -> dict[str, str]:
    """Each value as text for Kafka's properties; raises TypeError with the setting's name."""
    return {name: _text(name, value) for name, value in (settings or {}).items()}


def _text(name: str, value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    msg = f"setting {name}: {value!r} is a {type(value).__name__}; pass a str, int, float or bool"
    raise TypeError(msg)
