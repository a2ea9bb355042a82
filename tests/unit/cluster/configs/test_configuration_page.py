"""The committed page of settings is the one that the table prints."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[4]


def test_the_page_of_settings_equals_the_table() -> None:
    spec = importlib.util.spec_from_file_location("print_config", ROOT / "tools/print_config.py")
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    committed = (ROOT / "docs/configuration.md").read_text()
    assert committed == tool.page(), "run: script/print-config > docs/configuration.md"
