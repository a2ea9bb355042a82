"""tests/unit has the tree of src/headrace: the path of a module gives the path of its tests."""

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
UNIT_TESTS = TESTS / "unit"
PACKAGE = TESTS.parent / "src" / "headrace"

# These test code outside src/headrace: the folders of the same names, and script/.
OUTSIDE_PACKAGE = {"bench", "chaos", "scripts", "tools"}

# Modules without a counterpart in src/headrace, and what they test instead.
WITHOUT_MODULE = {
    "test_compatibility_page.py": "docs/compatibility.md",
    "test_docs_site.py": "mkdocs.yml and the pages of the documentation site",
    "test_log_guide.py": "docs/guide/logs.md",
    "test_import_path.py": "which libraries the start of a broker imports",
    "test_tree.py": "the tree of the tests",
    "cluster/configs/test_configuration_page.py": "docs/configuration.md",
    "pipeline/sinks/test_error_messages.py": "messages of sinks, specs and their commands",
    "pipeline/sinks/test_table_maintenance.py": "compaction and clean-up, for every kind of table",
}

# `import support.x`, `from tests.support.x import`, and relative imports.
OTHER_STYLE_IMPORT = re.compile(
    r"^\s*(?:import\s+(?:\w+\.)*support\b|from\s+(?:\w+\.)+support\b|from\s+\.).*$", re.MULTILINE
)


def python_files(folder: Path, pattern: str = "*.py") -> list[Path]:
    return sorted(folder.rglob(pattern))


def mirrored_test_modules() -> list[Path]:
    relative = (path.relative_to(UNIT_TESTS) for path in python_files(UNIT_TESTS, "test_*.py"))
    return [path for path in relative if path.parts[0] not in OUTSIDE_PACKAGE]


def has_counterpart(test_module: Path) -> bool:
    """Whether the package has a module, or a subpackage, whose name begins this test's name."""
    name = test_module.stem.removeprefix("test_")
    package = PACKAGE / test_module.parent
    modules = {path.stem for path in package.glob("*.py")}
    subpackages = {path.parent.name for path in package.glob("*/__init__.py")}
    return any(name == known or name.startswith(f"{known}_") for known in modules | subpackages)


def support_import_errors(source: str) -> list[str]:
    """Imports of tests/support in another style than `from support.wire.topics import ...`."""
    return [line.group().strip() for line in OTHER_STYLE_IMPORT.finditer(source)]


def test_each_folder_of_unit_tests_is_a_package_of_headrace() -> None:
    folders = {path.parent for path in mirrored_test_modules()}
    missing = [str(path) for path in folders if not (PACKAGE / path / "__init__.py").is_file()]
    assert missing == []


def test_each_unit_test_module_is_named_after_a_module_of_its_package() -> None:
    unmatched = {str(path) for path in mirrored_test_modules() if not has_counterpart(path)}
    assert unmatched == set(WITHOUT_MODULE)


def test_support_is_imported_in_one_style() -> None:
    errors = {
        str(path.relative_to(TESTS)): found
        for path in python_files(TESTS)
        if "data" not in path.parts  # scripts that run with the code of another release
        if (found := support_import_errors(path.read_text()))
    }
    assert errors == {}, "write: from support.<package>.<module> import <name>"


@pytest.mark.parametrize(
    "line",
    [
        "import support.waiting",
        "import tests.support.waiting",
        "from tests.support.waiting import wait_until",
        "from ..support.waiting import wait_until",
        "from .waiting import wait_until",
    ],
)
def test_other_styles_of_import_are_reported(line: str) -> None:
    assert support_import_errors(line) != []
    assert support_import_errors("from support.waiting import wait_until") == []
