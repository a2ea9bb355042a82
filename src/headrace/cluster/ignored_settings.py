"""The sentences that a starting broker logs about Kafka settings without effect. Pure."""

from collections.abc import Sequence
from typing import Final

from headrace.cluster.configs.config_def import ConfigDef

_NO_QUORUM: Final = "there is no KRaft quorum here"
_REASONS: Final = (
    (("process.roles",), "every node is a broker here"),
    (
        (
            "broker.heartbeat.", "broker.session.timeout.", "controller.listener.",
            "controller.performance.", "controller.quorum.", "early.start.", "internal.metadata.",
            "metadata.log.", "metadata.max.",
        ),
        _NO_QUORUM,
    ),
    (("remote.",), "there is no tiered storage here"),
)  # fmt: skip
"""By the beginning of the name. Other settings are explained by their documentation."""


def ignored_plugin(name: str) -> str:
    """The sentence about a setting of a Java plugin."""
    return f"ignoring {name}: it belongs to a Java plugin"


def ignored_setting(name: str, definition: ConfigDef, *, is_planned: bool) -> str:
    """The sentence about a setting of Kafka; `is_planned` if a later version may support it."""
    for prefixes, reason in _REASONS:
        if definition.name.startswith(prefixes):
            return f"ignoring {name}: {reason}"
    purpose = definition.documentation.rstrip(".")
    state = "not supported yet" if is_planned else "it has no effect here"
    return f"ignoring {name}: {state} ({purpose})"


def ignored_listeners(names: Sequence[str]) -> str:
    """The sentence about listeners that are not bound because KRaft controllers would use them."""
    what = f"{names[0]} is" if len(names) == 1 else f"{', '.join(names)} are"
    return f"ignoring controller.listener.names: {_NO_QUORUM}, so {what} not bound"
