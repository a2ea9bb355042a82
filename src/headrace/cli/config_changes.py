"""Changes of settings: from --set and --unset to requests, and hints for unknown settings."""

from collections.abc import Iterable, Sequence

from headrace.cli.error_messages import missing, usage
from headrace.cli.name_value_pairs import parse_name_value_pairs
from headrace.cli.output import remark
from headrace.client.admin.configs import ConfigChange, Operation
from headrace.client.results import Refusal
from headrace.name_suggestion import nearest_name
from headrace.protocol.errors import ErrorCode


def suggest_settings(names: Sequence[str], outcomes: Iterable[Refusal | None]) -> None:
    """Suggests a similar setting for each unknown one, if the broker refused the settings."""
    if not any(why is not None and why.code is ErrorCode.INVALID_CONFIG for why in outcomes):
        return
    from headrace.cluster.configs.catalog import TOPIC

    for name in names:
        if name not in TOPIC and nearest_name(name, TOPIC) is not None:
            remark(missing("topic setting", name, TOPIC))


def changes_of(assigned: list[str], unset: list[str], assign: str) -> list[ConfigChange]:
    """The changes of NAME=VALUE words and of --unset; at least one is required.

    `assign` is the option or the argument of the words.
    """
    changes = [
        ConfigChange(name, Operation.SET, value)
        for name, value in parse_name_value_pairs(assigned, assign).items()
    ]
    changes += [ConfigChange(name, Operation.DELETE) for name in unset]
    if not changes:
        raise usage(f"nothing to change; give {assign} or --unset SETTING")
    return changes
