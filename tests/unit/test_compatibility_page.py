"""docs/compatibility.md says what the broker's own tables say."""

import re
from pathlib import Path

from headrace.broker.network.api_handlers import HANDLERS
from headrace.protocol.api import APIS, ApiSpec

PAGE = Path(__file__).parents[2] / "docs" / "compatibility.md"
ROW = re.compile(r"^\| (\d+) \| (\w+) \| ([\d-]+) \| (served|not served) \| .*\|$", re.MULTILINE)


def versions(spec: ApiSpec) -> str:
    if spec.min_version == spec.max_version:
        return str(spec.min_version)
    return f"{spec.min_version}-{spec.max_version}"


def test_the_page_lists_every_request_with_its_versions_and_whether_it_is_served() -> None:
    told = ROW.findall(PAGE.read_text())
    true = [
        (str(int(key)), spec.name, versions(spec), "served" if key in HANDLERS else "not served")
        for key, spec in APIS.items()
    ]
    assert told == true


def test_every_served_request_has_a_handler_file() -> None:
    handlers = Path(__file__).parents[2] / "src" / "headrace" / "broker" / "handlers"
    for handler in HANDLERS.values():
        assert (handlers / f"{handler.module}.py").is_file(), handler.module
