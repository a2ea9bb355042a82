# ruff: noqa: INP001  # a script of its own, not a package
"""Prints docs/configuration.md from the table of settings.

script/print-config > docs/configuration.md
"""

import sys
from collections.abc import Iterable, Iterator

from headrace.cluster.configs.catalog import BROKER, CLIENT_METRICS, GROUP, TOPIC
from headrace.cluster.configs.definition import ConfigDef, UpdateMode

INTRODUCTION = """\
# Configuration

Printed by `script/print-config` from the table that also feeds validation and DescribeConfigs.

A broker takes its settings from a `server.properties` file and from `--set name=value`; the
latter wins. A name that nobody knows and a value that is not allowed are refused at start; a
setting of Kafka's that nothing here obeys gives a warning (the last table). A setting may be
given for one listener as `listener.name.<listener>.<setting>`.

*Changes* says when a setting may change: at start only, on one broker while it runs
(per-broker), or on one or all of them (cluster-wide), with `kafka-configs` or any admin client.
"""


def page() -> str:
    """The whole page, with one newline at its end."""
    shown = [item for item in BROKER.values() if item.meaningful_here and not item.hidden]
    own = [item for item in shown if item.name == "flush" or item.name.startswith("headrace.")]
    sections = [
        INTRODUCTION,
        "## Topics\n",
        "A topic without a value of its own inherits that of the broker's setting.\n",
        *_table(("Inherits from",), (item for item in TOPIC.values() if not item.hidden)),
        "\n## Headrace's own\n",
        *_table(("Changes",), own),
        "\n## Brokers\n",
        *_table(("Changes",), (item for item in shown if item not in own)),
        "\n## Groups\n",
        *_table(("Inherits from",), GROUP.values()),
        "\n## Subscriptions to clients' metrics\n",
        *_table((), CLIENT_METRICS.values()),
        "\n## Known, without effect\n",
        *_table((), (item for item in BROKER.values() if not item.meaningful_here)),
    ]
    return "\n".join(sections) + "\n"


def _table(extra: tuple[str, ...], definitions: Iterable[ConfigDef]) -> Iterator[str]:
    columns = ("Name", "Default", "Allowed", *extra, "What it does")
    yield _row(columns)
    yield _row("---" for _ in columns)
    for item in definitions:
        facts = {
            "Inherits from": ", ".join(f"`{synonym.name}`" for synonym in item.synonyms),
            "Changes": "" if item.update_mode is UpdateMode.READ_ONLY else item.update_mode.value,
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
