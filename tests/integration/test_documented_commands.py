"""Every command line in the documentation is valid for `headrace`."""

import re
import shlex
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import pytest
from typer.main import get_command

from headrace.cli import command
from headrace.cli.app import app
from headrace.cli.help_examples import EXAMPLES

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs" / "guide").glob("*.md"))]
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NOT_RUN = frozenset({"up", "--install-completion", "broker"})


def command_lines() -> list[tuple[str, ...]]:
    """The words after `headrace`, up to a pipe or a redirection."""
    found = []
    for page in PAGES:
        for block in BLOCK.findall(page.read_text()):
            for line in block.replace("\\\n", " ").splitlines():
                for part in re.split(r"[|<>]", line):
                    words = shlex.split(part, comments=True) if part.count("'") % 2 == 0 else []
                    if words and Path(words[0]).name == "headrace" and words[1] not in NOT_RUN:
                        found.append(tuple(words[1:]))
    return found


@cache
def headrace() -> Callable[..., object]:
    return get_command(app).main


def run(words: Sequence[str]) -> object:
    """The exit code; raises what is wrong with the words."""
    return headrace()(list(words), prog_name="headrace", standalone_mode=False) or 0


@pytest.mark.parametrize("words", sorted(set(command_lines())), ids=" ".join)
def test_the_command_line_is_understood(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "guard", lambda work: 0)
    assert run(words) == 0


def test_there_are_command_lines_to_try() -> None:
    assert len(set(command_lines())) >= 40


EXAMPLE_LINES = sorted({(name, line) for name, lines in EXAMPLES.items() for line in lines})


@pytest.mark.parametrize(("name", "line"), EXAMPLE_LINES, ids=lambda each: each)
def test_every_example_parses_and_uses_its_own_command(
    name: str, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "guard", lambda work: 0)
    parts = [shlex.split(part) for part in re.split(r"[|>] ", line)]
    ours = [words[1:] for words in parts if words[0] == "headrace"]
    assert any(
        " ".join(words).removeprefix("--profile production ").startswith(name) for words in ours
    )
    for words in ours:
        if words[0] in NOT_RUN:
            continue
        assert run(words) == 0
