"""Checks the result of the demo against the records in the table and the dead-letter topic."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from headrace.pipeline.dead_letters.dead_letter_reader import Letter, letter_ranges, read_letters
from headrace.pipeline.dead_letters.error_groups import ErrorGroup, grouped
from headrace.pipeline.demo.traffic import Place
from headrace.pipeline.source.admin import LogAdmin
from headrace.pipeline.source.settings import ReadSettings

MAX_NAMED: Final = 3


class DemoResult(NamedTuple):
    """The numbers of rows and dead letters, and the differences from the expected result."""

    produced: int
    rows: int
    version: int
    letters: int
    groups: Sequence[ErrorGroup]
    differences: Sequence[str]


def outcome(
    table: Path, servers: str, dead_letter_topic: str, produced: int, broken: Mapping[Place, str]
) -> DemoResult:
    """Reads the table and the topic as any other client does.

    It does not use the counts of the run itself.
    """
    landed, version = landed_places(table)
    letters = read_all(servers, dead_letter_topic) if broken else []
    set_aside = [((each.facts.partition, each.facts.offset), each.facts.error) for each in letters]
    return DemoResult(
        produced=produced,
        rows=len(landed),
        version=version,
        letters=len(letters),
        groups=grouped(letters, lambda _: False),
        differences=differences(produced, broken, landed, set_aside),
    )


def landed_places(table: Path) -> tuple[list[Place], int]:
    """Returns the source partition and offset of each row of the table, and the table's version."""
    from deltalake import DeltaTable

    delta = DeltaTable(str(table))
    found = delta.to_pyarrow_table(columns=["source_partition", "source_offset"])
    partitions, offsets = (column.to_pylist() for column in found.columns)
    return list(zip(partitions, offsets, strict=True)), delta.version()


def read_all(servers: str, topic: str) -> list[Letter]:
    settings = ReadSettings(servers)
    return list(read_letters(settings, letter_ranges(LogAdmin(settings), topic)))


def differences(
    produced: int,
    broken: Mapping[Place, str],
    landed: Sequence[Place],
    letters: Sequence[tuple[Place, str]],
) -> list[str]:
    """Returns the differences between the table and dead letters and their expected content.

    The result is empty if every order is exactly once in the right place.
    """
    rows, aside = Counter(landed), Counter(place for place, _ in letters)
    found = [
        *_named("rows are there twice", (place for place, count in rows.items() if count > 1)),
        *_named("dead letters are there twice", (at for at, count in aside.items() if count > 1)),
        *_named("broken orders landed", rows.keys() & broken.keys()),
        *_named("broken orders are not among the dead letters", broken.keys() - aside.keys()),
        *_named("good orders are among the dead letters", aside.keys() - broken.keys()),
        *_named(
            "dead letters name another error than expected",
            (place for place, error in letters if broken.get(place, error) != error),
        ),
    ]
    good = produced - len(broken)
    if len(rows) != good:
        found.append(f"{len(rows):,} of {good:,} good orders landed")
    return found


def _named(what: str, places: Iterable[Place]) -> list[str]:
    all_of_them = sorted(places)
    if not all_of_them:
        return []
    few = ", ".join(f"{partition}@{offset}" for partition, offset in all_of_them[:MAX_NAMED])
    more = ", ..." if len(all_of_them) > MAX_NAMED else ""
    return [f"{len(all_of_them):,} {what} ({few}{more})"]
