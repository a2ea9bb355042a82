"""The pytest plugin: `headrace`, `headrace_proc` and `headrace_noproc` without an import.

It loads with every run of pytest in an environment that has Headrace, so it imports nothing of
Headrace but its own few lines until a test asks for a fixture.
"""

import pytest

from headrace.testing import factories

headrace_proc = factories.headrace_proc(port=factories.configured_port)
headrace_noproc = factories.headrace_noproc()
headrace = factories.headrace()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("headrace", "Headrace, a Kafka-compatible broker")
    group.addoption(
        "--headrace-port",
        dest="headrace_port",
        type=int,
        default=None,
        metavar="PORT",
        help="port of the headrace_proc broker; 0, the default, takes a free one",
    )
    parser.addini("headrace_port", "port of the headrace_proc broker", default="0")
    parser.addini(
        "headrace_settings",
        "settings of the headrace_proc broker by Kafka's names, one name=value a line",
        type="linelist",
        default=[],
    )
    parser.addini(
        "headrace_bootstrap",
        "bootstrap servers of headrace_noproc where HEADRACE_BOOTSTRAP is not set",
        default="",
    )
