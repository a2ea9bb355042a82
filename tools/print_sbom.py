# ruff: noqa: INP001  # a script of its own, not a package
"""Generates the bill of materials in the wheel (PEP 770), as CycloneDX.

script/print-sbom > requirements/headrace.cdx.json

The wheel contains no other software. The file names the versions of the dependencies that this
version was tested with, those of requirements/runtime.txt.
"""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PIN: Final = re.compile(r"^([\w.-]+)==([\w.!+-]+)(?: ; ([^\\\n]+?))?(?: \\)?$", re.MULTILINE)
NAME: Final = "headrace"


def sbom() -> str:
    """Return the whole document, with one newline at its end."""
    version = _version()
    root = f"pkg:pypi/{NAME}@{version}"
    components = list(_components())
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": root,
                "name": NAME,
                "version": version,
                "purl": root,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            }
        },
        "components": components,
        "dependencies": [{"ref": root, "dependsOn": [each["bom-ref"] for each in components]}],
    }
    return json.dumps(document, indent=2) + "\n"


def _components() -> Iterator[dict[str, object]]:
    for name, version, marker in PIN.findall((ROOT / "requirements" / "runtime.txt").read_text()):
        purl = f"pkg:pypi/{name}@{version}"
        component: dict[str, object] = {
            "type": "library",
            "bom-ref": purl,
            "name": name,
            "version": version,
            "purl": purl,
        }
        if marker:
            component["properties"] = [{"name": "headrace:marker", "value": marker}]
        yield component


def _version() -> str:
    text = (ROOT / "src" / "headrace" / "__init__.py").read_text()
    found = re.search(r'^__version__ = "([^"]+)"$', text, re.MULTILINE)
    assert found is not None
    return found[1]


if __name__ == "__main__":
    sys.stdout.write(sbom())
