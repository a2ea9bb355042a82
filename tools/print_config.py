# ruff: noqa: INP001  # a script of its own, not a package
"""Generates docs/configuration.md from the table of settings.

script/print-config > docs/configuration.md
"""

import sys
from collections.abc import Iterable, Iterator

from headrace.cluster.configs.catalog import BROKER, CLIENT_METRICS, GROUP, TOPIC
from headrace.cluster.configs.config_def import ConfigDef, UpdateMode

INTRODUCTION = """\
# Configuration

`script/print-config` generates this page from the table that validation and DescribeConfigs use.

A broker reads its settings from a `server.properties` file and from `--set name=value`, which takes
precedence. The broker refuses to start with an unknown name or a value that is not allowed. It logs
a warning for a Kafka setting without effect here (the last table). A setting applies to a single
listener if it is written as `listener.name.<listener>.<setting>`.

The column *Dynamic* shows whether a setting can change while the broker runs, with `kafka-configs`
or any admin client: on one broker (per-broker), or on one or all brokers (cluster-wide). All other
settings change only at a restart.
"""


def page() -> str:
    """Return the whole page, with one newline at its end."""
    shown = [item for item in BROKER.values() if item.meaningful_here and not item.hidden]
    own = [item for item in shown if item.name == "flush" or item.name.startswith("headrace.")]
    sections = [
        INTRODUCTION,
        "## Topics\n",
        "A topic that does not set a value inherits the value of the broker's setting.\n",
        *_table(("Inherits from",), (item for item in TOPIC.values() if not item.hidden)),
        "\n## Settings specific to Headrace\n",
        *_table(("Dynamic",), own),
        "\n## Brokers\n",
        *_table(("Dynamic",), (item for item in shown if item not in own)),
        "\n## Groups\n",
        *_table(("Inherits from",), GROUP.values()),
        "\n## Client metrics subscriptions\n",
        *_table((), CLIENT_METRICS.values()),
        "\n## Kafka settings without effect\n",
        *_table((), (item for item in BROKER.values() if not item.meaningful_here)),
    ]
    return "\n".join(sections) + "\n"


def _table(extra: tuple[str, ...], definitions: Iterable[ConfigDef]) -> Iterator[str]:
    columns = ("Name", "Default", "Allowed", *extra, "Description")
    yield _row(columns)
    yield _row("---" for _ in columns)
    for item in definitions:
        facts = {
            "Inherits from": ", ".join(f"`{synonym.name}`" for synonym in item.synonyms),
            "Dynamic": "" if item.update_mode is UpdateMode.READ_ONLY else item.update_mode.value,
        }
        yield _row(
            (
                f"`{item.name}`",
                "" if item.default is None else f"`{item.default}`" if item.default else "empty",
                item.allowed(),
                *(facts[column] for column in extra),
                item.documentation,
            )
        )


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("*", "\\*") for cell in cells) + " |"


if __name__ == "__main__":
    sys.stdout.write(page())
