"""Every page of --help: what the command does, its options in groups, and examples. It fits."""

import re
from contextlib import redirect_stdout
from functools import cache
from io import StringIO

import pytest
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption
from typer.main import get_command

from headrace.cli.app import app
from headrace.cli.help_examples import EXAMPLES

WIDTHS = (80, 120)
# The shell's own words, from the library of the command line.
NOT_OURS = {"--install-completion", "--show-completion"}
# Options that mean the same in every command that has them.
SHARED_OPTIONS = {
    *("--bootstrap-server", "--profile", "-X", "--execute", "--dry-run", "--unset", "--flow"),
    *("--master", "--where", "--if-not-exists", "--replication-factor", "--shift", "--to-file"),
    *("--verbose", "--log-format"),
}
PYTHON_TYPE = re.compile(r"<\w+|\blist\[|\bPath\b|\bNone\b.*default|x[<>]=")
Command = TyperCommand | TyperGroup
Path = tuple[str, ...]


@cache
def commands() -> dict[Path, Command]:
    found: dict[Path, Command] = {}

    def visit(path: Path, command: object) -> None:
        assert isinstance(command, Command)
        found[path] = command
        for name, inner in getattr(command, "commands", {}).items():
            visit((*path, name), inner)

    visit((), get_command(app))
    return found


def leaves() -> list[Path]:
    return [path for path, command in commands().items() if isinstance(command, TyperCommand)]


def options(path: Path) -> list[TyperOption]:
    params = commands()[path].params
    shown = [each for each in params if isinstance(each, TyperOption) and not each.hidden]
    return [each for each in shown if not NOT_OURS & set(each.opts)]


@cache
def page(path: Path, width: int) -> str:
    shown = StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(shown):
        patch.setenv("COLUMNS", str(width))
        commands()[()].main([*path, "--help"], prog_name="headrace", standalone_mode=False)
    return shown.getvalue()


def named(path: Path) -> str:
    return " ".join(path) or "headrace"


def test_there_are_pages_to_read() -> None:
    assert {("topic", "create"), ("consume",), ("up",), ("broker", "start")} <= set(leaves())
    assert len(leaves()) > 40


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("path", commands(), ids=named)
def test_a_page_fits_the_terminal_and_shows_no_python_type(path: Path, width: int) -> None:
    text = page(path, width)
    assert text.startswith(" ".join(["Usage: headrace", *path]))
    assert [line for line in text.splitlines() if len(line) > width] == []
    assert "…" not in text, "a name or a description is cut off"
    assert PYTHON_TYPE.search(text) is None
    broken = [line for line in text.splitlines() if line.endswith("[default:")]
    assert broken == [], "the word and its value are on two lines"


@pytest.mark.parametrize("path", commands(), ids=named)
def test_a_command_says_in_a_sentence_what_it_does(path: Path) -> None:
    text = (commands()[path].help or "").strip()
    first = text.split("\n\n")[0]
    assert re.match(r"[A-Z][a-z]+,? ", first), "the first word is a verb"
    assert first.endswith("."), first
    assert text.endswith("."), text


@pytest.mark.parametrize("path", commands(), ids=named)
def test_each_option_and_argument_is_described_by_a_sentence(path: Path) -> None:
    for param in commands()[path].params:
        if isinstance(param, TyperOption) and (param.hidden or NOT_OURS & set(param.opts)):
            continue
        assert isinstance(param, TyperOption | TyperArgument)
        assert (param.help or "").endswith("."), f"{param.name}: {param.help!r}"
        is_flag = isinstance(param, TyperOption) and param.is_flag
        assert is_flag or param.metavar, f"{param.name} has no placeholder"


@pytest.mark.parametrize("path", leaves(), ids=named)
def test_a_page_ends_with_examples_of_its_command(path: Path) -> None:
    text = page(path, min(WIDTHS))
    examples = text.partition("\nExamples:\n")[2].splitlines()
    assert [line.strip() for line in examples] == list(EXAMPLES[" ".join(path)])
    assert any(" ".join(path) in line for line in examples)


def test_there_are_no_examples_of_unknown_commands() -> None:
    assert {tuple(name.split()) for name in EXAMPLES} <= set(commands())


@pytest.mark.parametrize("path", leaves(), ids=named)
def test_many_options_are_in_groups(path: Path) -> None:
    text = page(path, min(WIDTHS))
    headings = set(re.findall(r"^(\w.*):$", text, re.MULTILINE))
    assert "Options" in headings
    if any(each.name == "bootstrap_server" for each in options(path)):
        assert "Connection" in headings
    own = re.search(r"^Options:\n((?:  .*\n)+)", text, re.MULTILINE)
    assert own is not None
    assert len(re.findall(r"^  (?:-.|   ) ?,? ?--", own[1], re.MULTILINE)) <= 10


def test_commands_describe_a_shared_option_in_the_same_words() -> None:
    words: dict[str, set[str]] = {}
    for path in leaves():
        for option in options(path):
            for name in SHARED_OPTIONS & set(option.opts):
                words.setdefault(name, set()).add(f"{option.metavar}: {option.help}")
    assert words.keys() == SHARED_OPTIONS
    assert {name: found for name, found in words.items() if len(found) > 1} == {}
