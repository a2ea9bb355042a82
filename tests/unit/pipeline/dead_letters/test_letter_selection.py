"""A selection takes the letters of one error, or single ones; an edit replaces one record."""

from headrace.client.results import TopicPartition
from headrace.pipeline.dead_letters.dead_letter_reader import Letter
from headrace.pipeline.dead_letters.error_groups import group_key, grouped
from headrace.pipeline.dead_letters.headers import facts_of, letter_headers
from headrace.pipeline.dead_letters.letter_selection import (
    EditedRecord,
    Edits,
    LetterPlace,
    LetterSelection,
)
from headrace.pipeline.dead_letters.python_fix import DraftRecord
from headrace.pipeline.dead_letters.replay_ledger import ReplayEntry, ReplayLedger, entries
from headrace.records.record import Record

DLQ = TopicPartition("dlq", 0)


def letter(offset: int, error: str, message: str) -> Letter:
    facts = facts_of(())
    facts = type(facts)("orders", 0, offset, 1, error, message, "lake", 1, 1)
    headers = letter_headers((("own", b"1"),), facts)
    return Letter(DLQ, Record(offset, 1, b"k", b"old", headers), facts_of(headers))


LETTERS = [
    letter(0, "NotJson", "at byte 1"),
    letter(1, "NotJson", "at byte 22"),
    letter(2, "Bad", ""),
]


def test_a_group_is_selected_by_its_key() -> None:
    largest, _ = grouped(LETTERS, lambda _: False)
    selection = LetterSelection(largest.key)
    assert [selection(each) for each in LETTERS] == [True, True, False]
    assert largest.key == group_key(LETTERS[1].facts)


def test_single_letters_are_selected_by_their_place() -> None:
    selection = LetterSelection(places=frozenset({LetterPlace(0, 2)}))
    assert [selection(each) for each in LETTERS] == [False, False, True]
    assert all(LetterSelection()(each) for each in LETTERS)


def test_an_edit_replaces_one_record_and_leaves_the_others() -> None:
    edits = Edits({LetterPlace(0, 1): EditedRecord(None, b"new", (("h", b"2"),))})
    first, second, _ = edits(LETTERS)
    assert isinstance(first, DraftRecord)
    assert isinstance(second, DraftRecord)
    assert (first.key, first.value, first.headers) == (b"k", b"old", (("own", b"1"),))
    assert (second.key, second.value, second.headers) == (None, b"new", (("h", b"2"),))


def test_the_ledger_names_who_has_replayed() -> None:
    (entry,) = entries(bytes(16), LETTERS[:2], 5, "console: alice")
    assert b'"by": "console: alice"' in (entry.value or b"")
    (entry,) = entries(bytes(16), LETTERS[:2], 5)
    assert b"by" not in (entry.value or b"")
    ledger = ReplayLedger.of([ReplayEntry(5, "", 0, ((0, 0),)), ReplayEntry(6, "", 0, ((2, 2),))])
    assert [each in ledger for each in LETTERS] == [True, False, True]
