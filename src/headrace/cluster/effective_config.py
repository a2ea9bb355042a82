"""Effective settings: the value of each setting and the layer it comes from, as clients see them.

A topic's own value wins, then this broker's dynamic value, the cluster's dynamic default, the
broker's static value, and the default. `EffectiveConfig` is a view of one image: build a new one
for each image. It computes nothing until it is used.
"""

from collections.abc import Collection, Iterator, Mapping
from enum import IntEnum
from functools import cached_property
from typing import Final, NamedTuple

from headrace.cluster.configs.catalog import (
    BROKER,
    CLIENT_METRICS,
    GROUP,
    TOPIC,
    broker_definition,
)
from headrace.cluster.configs.config_def import ConfigDef, ConfigType, ConfigValue, UpdateMode
from headrace.cluster.image import MetadataImage
from headrace.cluster.listener_settings import ListenerSettings
from headrace.cluster.resources import (
    CLUSTER_DEFAULT,
    ConfigResource,
    ConfigResourceType,
    broker_resource,
    topic_resource,
)
from headrace.cluster.stored_passwords import with_clear_passwords


class EffectiveSource(IntEnum):
    """Kafka's codes for the source of a value."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8


class SynonymEntry(NamedTuple):
    """One of the values that a setting could have, with the name under which it was set."""

    name: str
    value: str | None
    source: EffectiveSource


class EffectiveEntry(NamedTuple):
    """A setting as DescribeConfigs shows it; a sensitive value is always None."""

    name: str
    value: str | None
    source: EffectiveSource
    type: ConfigType
    read_only: bool
    is_sensitive: bool
    synonyms: tuple[SynonymEntry, ...]
    documentation: str


_UNLIMITED: Final = -1

_ALTERNATIVES: Final[Mapping[str, tuple[str, ...]]] = {
    name: names
    for names in (
        ("log.roll.ms", "log.roll.hours"),
        ("log.roll.jitter.ms", "log.roll.jitter.hours"),
        ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    )
    for name in names
} | {"log.flush.interval.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms")}
"""Broker settings with the same meaning, highest precedence first."""


class EffectiveConfig:
    """The settings as one broker sees them: its static ones and those in the image."""

    def __init__(self, static: Mapping[str, str], node_id: int, image: MetadataImage) -> None:
        self._node_id = node_id
        self._image = image
        self._layers: tuple[tuple[EffectiveSource, Mapping[str, str]], ...] = (
            (EffectiveSource.DYNAMIC_BROKER_CONFIG, image.config(broker_resource(node_id))),
            (EffectiveSource.DYNAMIC_DEFAULT_BROKER_CONFIG, image.config(CLUSTER_DEFAULT)),
            (EffectiveSource.STATIC_BROKER_CONFIG, static),
        )

    # -- values ---------------------------------------------------------------------------------

    @cached_property
    def clear_layers(self) -> tuple[Mapping[str, str], ...]:
        """The values of each layer, highest precedence first, with decrypted passwords: for the
        code that uses the settings, never for a description."""
        own, *others = (values for _, values in self._layers)
        return (with_clear_passwords(own, others[-1]), *others)

    def broker_value(self, name: str) -> ConfigValue | None:
        """The effective value on this broker, dynamic changes included."""
        for values in self.clear_layers:
            if name in values:
                return BROKER[name].parse(values[name])
        default = BROKER[name].default
        return None if default is None else BROKER[name].parse(default)

    def listener(self, name: str) -> ListenerSettings:
        """The effective settings of one listener of this broker."""
        return ListenerSettings(name, self.clear_layers)

    def topic_values(self, topic: str) -> Mapping[str, ConfigValue]:
        """Every topic setting that has a value. Topics without own values share one mapping."""
        own = self._image.config(topic_resource(topic))
        if not own:
            return self.topic_defaults
        return {**self.topic_defaults, **{name: TOPIC[name].parse(own[name]) for name in own}}

    @cached_property
    def topic_defaults(self) -> Mapping[str, ConfigValue]:
        """The settings of a topic without topic-level values."""
        texts = {name: self._inherited_value(definition) for name, definition in TOPIC.items()}
        return {name: TOPIC[name].parse(text) for name, text in texts.items() if text is not None}

    def _inherited_value(self, definition: ConfigDef) -> str | None:
        for synonym in self._inherited_synonyms(definition):
            return _in_topic_unit(definition, synonym)
        return definition.default

    # -- descriptions ---------------------------------------------------------------------------

    def describe_topic(
        self, own: Mapping[str, str], names: Collection[str] | None = None
    ) -> list[EffectiveEntry]:
        """Describes a topic with these topic-level values; the topic need not exist yet."""
        source = EffectiveSource.DYNAMIC_TOPIC_CONFIG
        return [
            self._resource_entry(definition, own.get(definition.name), source)
            for definition in _described_definitions(TOPIC, names, own)
        ]

    def describe_group(
        self, group: str, names: Collection[str] | None = None
    ) -> list[EffectiveEntry]:
        own = self._image.config(ConfigResource(ConfigResourceType.GROUP, group))
        source = EffectiveSource.DYNAMIC_GROUP_CONFIG
        return [
            self._resource_entry(definition, own.get(definition.name), source)
            for definition in _described_definitions(GROUP, names, own)
        ]

    def describe_client_metrics(
        self, subscription: str, names: Collection[str] | None = None
    ) -> list[EffectiveEntry]:
        own = self._image.config(ConfigResource(ConfigResourceType.CLIENT_METRICS, subscription))
        source = EffectiveSource.DYNAMIC_CLIENT_METRICS_CONFIG
        return [
            self._resource_entry(definition, own.get(definition.name), source)
            for definition in _described_definitions(CLIENT_METRICS, names, own)
        ]

    def describe_broker(self, names: Collection[str] | None = None) -> list[EffectiveEntry]:
        """Describes all settings of this broker, including names that are not in the catalog."""
        set_names = {name for _, values in self._layers for name in values}
        known = [
            self._broker_entry(item) for item in _described_definitions(BROKER, names, set_names)
        ]
        return known + [
            self._uncatalogued_entry(name)
            for name in sorted(set_names)
            if name not in BROKER and (names is None or name in names)
        ]

    def describe_cluster_default(
        self, names: Collection[str] | None = None
    ) -> list[EffectiveEntry]:
        """Describes only the settings that were set for the whole cluster."""
        source, own = self._layers[1]
        entries = []
        for name in sorted(own):
            if names is not None and name not in names:
                continue
            definition = broker_definition(name)
            sensitive = definition is None or definition.sensitive
            value = None if sensitive else own[name]
            entries.append(
                EffectiveEntry(
                    name,
                    value,
                    source,
                    ConfigType.UNKNOWN if definition is None else definition.type,
                    definition is None or definition.update_mode is UpdateMode.READ_ONLY,
                    sensitive,
                    (SynonymEntry(name, value, source),),
                    "" if definition is None else definition.documentation,
                )
            )
        return entries

    def _resource_entry(
        self, definition: ConfigDef, own: str | None, source: EffectiveSource
    ) -> EffectiveEntry:
        """The entry of a topic, a group or a subscription: its own value or the inherited one."""
        inherited = tuple(self._inherited_synonyms(definition))
        synonyms = inherited
        if source is EffectiveSource.DYNAMIC_GROUP_CONFIG and not inherited:
            # As in Kafka: if no broker setting matches a group setting, its default is listed too.
            default = definition.default
            synonyms = (SynonymEntry(definition.name, default, EffectiveSource.DEFAULT_CONFIG),)
        if own is not None:
            own = definition.canonical(own)
            synonyms = (SynonymEntry(definition.name, own, source), *synonyms)
            value: str | None = own
        elif inherited:
            value, source = _in_topic_unit(definition, inherited[0]), inherited[0].source
        else:
            value, source = definition.default, EffectiveSource.DEFAULT_CONFIG
        return EffectiveEntry(
            definition.name,
            value,
            source,
            definition.type,
            False,
            definition.sensitive,
            synonyms,
            definition.documentation,
        )

    def _broker_entry(self, definition: ConfigDef) -> EffectiveEntry:
        name, hide = definition.name, definition.sensitive
        candidates = list(self._synonyms(_ALTERNATIVES.get(name, (name,))))
        # An unset name must not show the value of an alternative with lower precedence.
        while candidates and candidates[0].name != name:
            candidates.pop(0)
        synonyms = tuple(item._replace(value=None) if hide else item for item in candidates)
        return EffectiveEntry(
            name,
            synonyms[0].value if synonyms else None,
            synonyms[0].source if synonyms else EffectiveSource.DEFAULT_CONFIG,
            definition.type,
            definition.update_mode is UpdateMode.READ_ONLY,
            hide,
            synonyms,
            definition.documentation,
        )

    def _uncatalogued_entry(self, name: str) -> EffectiveEntry:
        """A listener's override or an unknown name. An unknown name may hold a secret."""
        definition = broker_definition(name)
        hide = definition is None or definition.sensitive
        synonyms = tuple(
            item._replace(value=None) if hide else item for item in self._synonyms((name,))
        )
        return EffectiveEntry(
            name,
            synonyms[0].value,
            synonyms[0].source,
            ConfigType.UNKNOWN if definition is None else definition.type,
            definition is None or definition.update_mode is UpdateMode.READ_ONLY,
            hide,
            synonyms,
            "" if definition is None else definition.documentation,
        )

    def _synonyms(self, names: Collection[str]) -> Iterator[SynonymEntry]:
        """Each value that one of the names has, the effective one first."""
        for source, values in self._layers:
            for name in names:
                if name in values:
                    yield SynonymEntry(name, values[name], source)
        for name in names:
            definition = BROKER.get(name)
            if definition is not None and definition.default is not None:
                yield SynonymEntry(name, definition.default, EffectiveSource.DEFAULT_CONFIG)

    def _inherited_synonyms(self, definition: ConfigDef) -> Iterator[SynonymEntry]:
        return self._synonyms([synonym.name for synonym in definition.synonyms])


def _in_topic_unit(definition: ConfigDef, entry: SynonymEntry) -> str | None:
    """A broker's value in the unit of the topic's setting; any negative time means unlimited."""
    factor = next(item.factor for item in definition.synonyms if item.name == entry.name)
    if factor == 1 or entry.value is None:
        return entry.value
    number = int(entry.value)
    return str(number * factor if number >= 0 else _UNLIMITED)


def _described_definitions(
    table: Mapping[str, ConfigDef], names: Collection[str] | None, own: Collection[str]
) -> Iterator[ConfigDef]:
    """The definitions to describe: the named ones, or all except those hidden and unset."""
    for name, definition in table.items():
        if names is not None:
            if name in names:
                yield definition
        elif not definition.hidden or name in own:
            yield definition
