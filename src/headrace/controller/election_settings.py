"""The topic settings that affect leader election, as of one image. Pure."""

from collections.abc import Mapping
from typing import Final

from headrace.cluster.configs.config_def import ConfigValue
from headrace.cluster.effective_config import EffectiveConfig
from headrace.controller.leader_election import Rules, TopicRules

_EACH_MESSAGE: Final = 1


def rules_of(effective: EffectiveConfig) -> Rules:
    """Rules by topic; topics without topic-level settings share one object."""
    shared = _topic_rules(effective.topic_defaults)

    def rules_of_topic(topic: str) -> TopicRules:
        values = effective.topic_values(topic)
        return shared if values is effective.topic_defaults else _topic_rules(values)

    return rules_of_topic


def _topic_rules(values: Mapping[str, ConfigValue]) -> TopicRules:
    min_isr = values["min.insync.replicas"]
    assert isinstance(min_isr, int)
    return TopicRules(
        min_isr=min_isr,
        unclean=values["unclean.leader.election.enable"] is True,
        flushes_each_ack=values["flush.messages"] == _EACH_MESSAGE,
    )
