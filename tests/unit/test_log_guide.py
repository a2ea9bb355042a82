"""docs/guide/logs.md has every message of a broker, and no message that a broker cannot log."""

import re
from pathlib import Path

from support.log_messages import Message, messages

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "logs.md"
ROW = re.compile(r"^\| (FATAL|ERROR|WARN|INFO|DEBUG) \| `(.+?)` \|", re.MULTILINE)
EXAMPLE = re.compile(r"^2026-\S+Z (FATAL|ERROR|WARN|INFO) (.+)$", re.MULTILINE)
ARGUMENT = re.compile(r"%[a-z]")
ONLY_DEBUG = {"transaction marker not written, retrying"}


def pattern(sentence: str) -> re.Pattern[str]:
    """What the sentence looks like with arguments; the page may end it with `...`."""
    parts = [re.escape(part) for part in ARGUMENT.split(sentence)]
    return re.compile(".+?".join(parts))


def is_documented(message: Message, rows: list[tuple[str, str]]) -> bool:
    return any(
        pattern(message.sentence).fullmatch(row) and message.level in (None, level)
        for level, row in rows
    ) or any(
        row.endswith("...") and pattern(message.sentence).match(row.removesuffix("...") + "x: x x")
        for _, row in rows
    )


def test_every_message_of_a_broker_is_documented_with_its_level() -> None:
    rows = ROW.findall(PAGE.read_text())
    missing = [
        f"{each.place}: {each.level} {each.sentence}"
        for each in messages()
        if each.sentence not in ONLY_DEBUG and not is_documented(each, rows)
    ]
    assert missing == []


def test_every_documented_message_and_example_exists() -> None:
    page = PAGE.read_text()
    known = [pattern(each.sentence) for each in messages()]
    rows = [row.removesuffix("...") for _, row in ROW.findall(page)]
    unknown = [
        row
        for row in rows
        if not any(each.fullmatch(row) or each.match(row + "x: x x") for each in known)
    ]
    assert unknown == []
    examples = [line for _, line in EXAMPLE.findall(page)]
    assert len(examples) > 15
    assert [line for line in examples if not any(each.match(line) for each in known)] == []


def test_the_scan_finds_the_messages_of_all_kinds_of_logs() -> None:
    """Each is written in another way."""
    found = {each.sentence for each in messages()}
    assert found >= {
        "broker started",  # log.info
        "a broker joined",  # LogEvent
        "started a reassignment",  # LogEvent with a constant
        "controller poll failed, retrying in %g s",  # FailureLog
        "the controller answers again",
        "refused a connection",  # LimitedLog
        "login failed",  # a choice
        "created an ACL",  # the audit log
    }
