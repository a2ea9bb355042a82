# ruff: noqa: INP001  # a script of its own, not a package
"""Collects the pages of the documentation site in build/docs, where Zensical reads them.

The pages are those of docs/ and the five Markdown files of the repository's root. A link is
rewritten where its target has another path on the site. A link to a file that is not part of the
site (a script, a source file) becomes plain text; a link to a file that does not exist stays as it
is, so that the build reports it.

script/docs runs this.
"""

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[1]
STAGED = ROOT / "build" / "docs"

ROOT_PAGES = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture/index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
}
"""Files of the root, and their paths on the site."""

FRAGMENT_ENDING = "-notes.md"
"""`script/bench` copies these files into the benchmark pages; they are not pages themselves."""

_FENCE = re.compile(r"^```(?P<language>\w+) (?:file=(?P<file>\S+)|.*)$", re.MULTILINE)
_LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)#\s]+)(?P<anchor>#[^)]*)?\)")


def pages() -> dict[str, str]:
    """Each page of the site: its path in the repository, and its path on the site."""
    return ROOT_PAGES | {
        source: PurePosixPath(source).relative_to("docs").as_posix()
        for source in sorted(path.relative_to(ROOT).as_posix() for path in _files_of_docs())
        if source.endswith(".md")
    }


def with_links_of_the_site(text: str, source: str, on_site: dict[str, str]) -> str:
    """The text of page `source` with each link leading to the target's path on the site."""
    here = PurePosixPath(on_site[source]).parent

    def rewrite(link: re.Match[str]) -> str:
        target = link["target"]
        if ":" in target:
            return link[0]
        found = os.path.normpath(PurePosixPath(source).parent / target)
        if found not in on_site and f"{found}/README.md" in on_site:
            found = f"{found}/README.md"
        if found in on_site:
            path = os.path.relpath(on_site[found], here)
            return f"{link['image']}[{link['text']}]({path}{link['anchor'] or ''})"
        if (ROOT / found).exists():
            return link["text"]
        return link[0]

    return _LINK.sub(rewrite, text)


def with_fences_of_the_site(text: str) -> str:
    """The text without the words that tests read behind a fence; a file name becomes a title."""
    return _FENCE.sub(
        lambda fence: (
            f"```{fence['language']}" + (f' title="{fence["file"]}"' if fence["file"] else "")
        ),
        text,
    )


def stage() -> None:
    """Fills build/docs anew."""
    shutil.rmtree(STAGED, ignore_errors=True)
    on_site = pages()
    assets = {
        path.relative_to(ROOT).as_posix(): path.relative_to(ROOT / "docs").as_posix()
        for path in _files_of_docs()
        if path.suffix != ".md"
    }
    for source, path in assets.items():
        _destination(path).write_bytes((ROOT / source).read_bytes())
    for source, path in on_site.items():
        text = with_fences_of_the_site((ROOT / source).read_text())
        _destination(path).write_text(with_links_of_the_site(text, source, on_site | assets))


def _files_of_docs() -> Iterator[Path]:
    return (
        path
        for path in (ROOT / "docs").rglob("*")
        if path.is_file() and not path.name.endswith(FRAGMENT_ENDING)
    )


def _destination(path: str) -> Path:
    destination = STAGED / path
    destination.parent.mkdir(parents=True, exist_ok=True)
    return destination


if __name__ == "__main__":
    stage()
