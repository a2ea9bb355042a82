"""All settings by resource type, and the lookup of a setting by its name."""

import re
from typing import Final

from headrace.cluster.configs.config_def import ConfigDef
from headrace.cluster.configs.settings_table import index, read_table
from headrace.cluster.configs.tables import (
    broker_coordinators,
    broker_inert,
    broker_log,
    broker_network,
    broker_replication,
    broker_security,
    client_metrics,
    group,
    topic,
)
from headrace.cluster.resources import ConfigResourceType

BROKER: Final = index(
    read_table(broker_network.TABLE),
    read_table(broker_log.TABLE),
    read_table(broker_replication.TABLE),
    read_table(broker_coordinators.TABLE),
    read_table(broker_security.TABLE),
    read_table(broker_inert.TABLE, meaningful_here=False),
)
TOPIC: Final = index(read_table(topic.TABLE), read_table(topic.INERT, meaningful_here=False))
GROUP: Final = index(read_table(group.TABLE))
CLIENT_METRICS: Final = index(read_table(client_metrics.TABLE))

BY_RESOURCE: Final = {
    ConfigResourceType.BROKER: BROKER,
    ConfigResourceType.TOPIC: TOPIC,
    ConfigResourceType.GROUP: GROUP,
    ConfigResourceType.CLIENT_METRICS: CLIENT_METRICS,
}

PLUGIN_PREFIXES: Final = (
    "rsm.config.",
    "rlmm.config.",
    "remote.log.metadata.",
    "config.providers.",
)
"""Names with these prefixes belong to Kafka's Java plugins: accepted, but without effect here."""

_LISTENER: Final = re.compile(r"listener\.name\.([^.]+)\.(.+)")
_PER_MECHANISM: Final = (
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.server.callback.handler.class",
    "connections.max.reauth.ms",
)


def base_name(name: str) -> str:
    """The setting that `listener.name.<listener>.[<mechanism>.]<setting>` overrides."""
    match = _LISTENER.fullmatch(name)
    if match is None:
        return name
    base = match[2]
    for setting in _PER_MECHANISM:
        if base.endswith("." + setting):
            return setting
    return base


def broker_definition(name: str) -> ConfigDef | None:
    """The definition of a broker setting, also with a listener's prefix."""
    return BROKER.get(base_name(name))
