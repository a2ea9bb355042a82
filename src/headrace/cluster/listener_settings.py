"""The settings as one listener sees them: its own values hide those of the whole broker. Pure.

A listener's value is set as `listener.name.<listener>.<setting>`, or for one SASL mechanism as
`listener.name.<listener>.<mechanism>.<setting>`, with the names in lower case. As in Kafka, a
listener's static value hides even a dynamic value of the whole broker.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from headrace.cluster.configs.catalog import BROKER
from headrace.cluster.configs.config_def import ConfigValue

PREFIX: Final = "listener.name."


def listener_prefix(listener: str) -> str:
    """The beginning of the names of a listener's own settings."""
    return f"{PREFIX}{listener.lower()}."


@dataclass(frozen=True, slots=True)
class ListenerSettings:
    """`layers` hold texts by the full names of settings, the layer with precedence first."""

    listener: str
    layers: Sequence[Mapping[str, str]] = field(repr=False)  # may hold secrets

    def own(self, name: str, *, mechanism: str | None = None) -> str | None:
        """The text that was set for this listener, or only for one of its mechanisms."""
        infix = f"{mechanism.lower()}." if mechanism else ""
        return self._first(f"{listener_prefix(self.listener)}{infix}{name}")

    def raw(self, name: str, *, mechanism: str | None = None) -> str | None:
        """The text of a setting: the mechanism's, the listener's, the broker's, the default."""
        candidates = [self.own(name, mechanism=mechanism)] if mechanism else []
        candidates += [self.own(name), self._first(name), BROKER[name].default]
        return next((text for text in candidates if text is not None), None)

    def value(self, name: str, *, mechanism: str | None = None) -> ConfigValue | None:
        text = self.raw(name, mechanism=mechanism)
        return None if text is None else BROKER[name].parse(text)

    def string(self, name: str, *, mechanism: str | None = None) -> str | None:
        value = self.value(name, mechanism=mechanism)
        assert value is None or isinstance(value, str)
        return value

    def words(self, name: str, *, mechanism: str | None = None) -> tuple[str, ...]:
        value = self.value(name, mechanism=mechanism)
        assert value is None or isinstance(value, tuple)
        return value or ()

    def integer(self, name: str, *, mechanism: str | None = None) -> int:
        value = self.value(name, mechanism=mechanism)
        assert isinstance(value, int)
        return value

    def boolean(self, name: str, *, mechanism: str | None = None) -> bool:
        value = self.value(name, mechanism=mechanism)
        assert isinstance(value, bool)
        return value

    def _first(self, full_name: str) -> str | None:
        return next((layer[full_name] for layer in self.layers if full_name in layer), None)
