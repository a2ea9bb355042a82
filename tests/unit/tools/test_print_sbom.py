"""The bill of materials in the wheel names each pinned dependency."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType

from headrace import __version__

ROOT = Path(__file__).parents[3]


def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("print_sbom", ROOT / "tools" / "print_sbom.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_committed_bill_of_materials_is_current() -> None:
    committed = (ROOT / "requirements" / "headrace.cdx.json").read_text()
    assert committed == tool().sbom(), "run: script/print-sbom > requirements/headrace.cdx.json"


def test_it_names_each_pinned_dependency() -> None:
    document = json.loads(tool().sbom())
    pins = [
        line.split()[0]
        for line in (ROOT / "requirements" / "runtime.txt").read_text().splitlines()
        if "==" in line and not line.startswith((" ", "#"))
    ]
    assert [f"{each['name']}=={each['version']}" for each in document["components"]] == pins
    assert document["metadata"]["component"]["version"] == __version__
