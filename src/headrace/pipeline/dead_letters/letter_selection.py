"""Selects dead letters of one error group, and fixes single ones with an edited record. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from headrace.pipeline.dead_letters.dead_letter_reader import Letter
from headrace.pipeline.dead_letters.error_groups import group_key
from headrace.pipeline.dead_letters.python_fix import DraftRecord, NotFixed, draft_of
from headrace.records.record import Headers


class LetterPlace(NamedTuple):
    """The position of a dead letter in its topic."""

    partition: int
    offset: int


class EditedRecord(NamedTuple):
    """What replaces the record of a dead letter."""

    key: bytes | None
    value: bytes | None
    headers: Headers


@dataclass(frozen=True, slots=True)
class LetterSelection:
    """The letters of one error group, or single ones; with neither, every letter."""

    group: tuple[str, ...] | None = None
    places: frozenset[LetterPlace] | None = None

    def __call__(self, letter: Letter) -> bool:
        if self.places is not None:
            return LetterPlace(letter.at.partition, letter.offset) in self.places
        return self.group is None or group_key(letter.facts) == self.group


@dataclass(frozen=True, slots=True)
class Edits:
    """A fix that replaces the records of some letters, and leaves the others as they are."""

    records: Mapping[LetterPlace, EditedRecord]

    def __call__(self, letters: Sequence[Letter]) -> Sequence[DraftRecord | NotFixed]:
        return [self._draft(letter) for letter in letters]

    def _draft(self, letter: Letter) -> DraftRecord:
        draft = draft_of(letter)
        edited = self.records.get(LetterPlace(letter.at.partition, letter.offset))
        if edited is not None:
            draft.key, draft.value, draft.headers = edited
        return draft
