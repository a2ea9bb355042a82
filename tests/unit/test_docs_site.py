"""The documentation site is complete: each page is in the navigation, generated pages are current.

`script/docs` builds the site and checks links, anchors and code references.
"""

import importlib
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DECISION = re.compile(r"adr/\d{4}-")


def tool(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Loader(yaml.SafeLoader):
    """Reads mkdocs.yml without importing the Python names in it."""


Loader.add_multi_constructor("tag:yaml.org,2002:python/name:", lambda *_: None)


def navigation() -> list[str]:
    return list(leaves(yaml.load((ROOT / "mkdocs.yml").read_text(), Loader)["nav"]))


def leaves(entry: object) -> Iterator[str]:
    if isinstance(entry, str):
        yield entry
    elif isinstance(entry, list):
        for each in entry:
            yield from leaves(each)
    elif isinstance(entry, dict):
        yield from leaves(list(entry.values()))


def test_the_navigation_names_each_page_once() -> None:
    """The decisions are listed by their own index instead."""
    pages = [page for page in tool("stage_docs").pages().values() if not DECISION.match(page)]
    assert sorted(navigation()) == sorted(pages)


def test_the_index_of_decisions_names_each_decision() -> None:
    index = (ROOT / "docs/adr/README.md").read_text()
    decisions = {path.name for path in (ROOT / "docs/adr").glob("[0-9]*.md")}
    assert set(re.findall(r"\((\d{4}-[^)]+)\)", index)) == decisions


def test_the_reference_of_the_pipeline_spec_is_current() -> None:
    committed = (ROOT / "docs/pipeline-spec.md").read_text()
    fresh = tool("print_pipeline_reference").page()
    assert committed == fresh, "run: script/print-pipeline-reference > docs/pipeline-spec.md"


@pytest.mark.parametrize("module", ["testing", "testing.simulation", "pipeline"])
def test_the_api_reference_has_each_public_name(module: str) -> None:
    name = f"headrace.{module}"
    page = (ROOT / "docs" / "api" / f"{module.rpartition('.')[2]}.md").read_text()
    exported = importlib.import_module(name).__all__
    assert not [each for each in exported if f"\n::: {name}.{each}\n" not in page]


@pytest.mark.parametrize(
    ("source", "link", "on_site"),
    [
        ("README.md", "[g](docs/guide/groups.md#settings)", "[g](guide/groups.md#settings)"),
        ("README.md", "[why](docs/adr/)", "[why](adr/README.md)"),
        ("docs/guide/groups.md", "[a](../../ARCHITECTURE.md)", "[a](../architecture/index.md)"),
        ("ARCHITECTURE.md", "[w](docs/architecture/walks.md)", "[w](walks.md)"),
        ("CONTRIBUTING.md", "[a script](script/test)", "a script"),
        ("README.md", "[gone](docs/gone.md)", "[gone](docs/gone.md)"),
        ("README.md", "[x](https://example.org/a.md)", "[x](https://example.org/a.md)"),
    ],
)
def test_a_link_leads_to_the_same_page_on_the_site(source: str, link: str, on_site: str) -> None:
    """A page that does not exist keeps its link, for the build to report it."""
    stage = tool("stage_docs")
    assert stage.with_links_of_the_site(link, source, stage.pages()) == on_site


def test_the_words_that_tests_read_behind_a_fence_are_left_out() -> None:
    fences = tool("stage_docs").with_fences_of_the_site
    assert fences("```python file=test_a.py\n") == '```python title="test_a.py"\n'
    assert fences("```python spark\n```") == "```python\n```"
    assert fences("```sh\nls -l\n```") == "```sh\nls -l\n```"
