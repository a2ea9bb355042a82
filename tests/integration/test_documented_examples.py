"""Every Python example in the README and the guide runs as it is printed."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import headrace.testing

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs" / "guide").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PRINTED_ADDRESS = "127.0.0.1:9092"
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


def examples() -> list[tuple[str, str]]:
    found = []
    for page in PAGES:
        for number, block in enumerate(BLOCK.findall(page.read_text()), start=1):
            found.append((f"{page.relative_to(ROOT)}#{number}", block))
    return found


@pytest.mark.parametrize("example", [pytest.param(code, id=name) for name, code in examples()])
def test_the_example_runs(example: str, tmp_path: Path) -> None:
    with headrace.testing.Broker() as broker:
        code = example.replace(PRINTED_ADDRESS, broker.bootstrap_servers)
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", code],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert done.returncode == 0, done.stderr


def test_there_are_examples_to_run() -> None:
    assert len(examples()) >= 8


def test_links_between_pages_resolve() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    broken = [
        f"{page.relative_to(ROOT)} -> {target}"
        for page in pages
        for target in LINK.findall(page.read_text())
        if not (page.parent / target).exists()
    ]
    assert not broken


def decisions_and_guarantees() -> list[str]:
    pages = [*sorted((ROOT / "docs" / "adr").glob("[0-9]*.md")), ROOT / "docs" / "guarantees.md"]
    return [page.relative_to(ROOT).as_posix() for page in pages]


@pytest.mark.parametrize("page", decisions_and_guarantees())
def test_files_named_in_decisions_and_guarantees_exist(page: str) -> None:
    """A source file or a test, by its path from src/headrace or from the root."""
    named = set(re.findall(r"`([a-z_0-9]+/[a-z_0-9/*]*\.py)`", (ROOT / page).read_text()))
    roots = (ROOT / "src" / "headrace", ROOT)
    assert not [path for path in named if not any(any(root.glob(path)) for root in roots)]


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "docs/architecture/walks.md"])
def test_files_named_in_the_architecture_exist(page: str) -> None:
    """Paths start in src/headrace, or in the root."""
    named = set(re.findall(r"`([a-z_0-9]+/[a-z_0-9/]*(?:\.py)?)`", (ROOT / page).read_text()))
    assert len(named) > 30
    roots = (ROOT / "src" / "headrace", ROOT)
    assert not [path for path in named if not any((root / path).exists() for root in roots)]
