"""The committed settings page equals the generated one."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[4]


def test_the_settings_page_equals_the_tables() -> None:
    spec = importlib.util.spec_from_file_location("print_config", ROOT / "tools/print_config.py")
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    committed = (ROOT / "docs/configuration.md").read_text()
    assert committed == tool.page(), "run: script/print-config > docs/configuration.md"
