"""The pytest plugin: the fixtures `headrace`, `headrace_cluster` and those they use.

It loads with every run of pytest in an environment that has Headrace, so it imports other modules
of Headrace only when a test uses a fixture.
"""

import sys

import pytest

from headrace.testing import factories

headrace_proc = factories.headrace_proc(port=factories.configured_port)
headrace_noproc = factories.headrace_noproc()
headrace = factories.headrace()
headrace_cluster_proc = factories.headrace_cluster_proc()
headrace_cluster = factories.headrace_cluster()


def _import_as_usual() -> None:
    """Removes Headrace from the list of packages whose assertions pytest rewrites.

    pytest adds every package with a plugin. With rewriting, a broker takes several times as long
    to import, and its own assertions get slower. pytest has no public API for this: if its
    internals change, this does nothing.
    """
    for finder in sys.meta_path:
        marked = getattr(finder, "_must_rewrite", None)
        if isinstance(marked, set):
            marked.discard("headrace")
            marked.discard("pyspark_headrace")


_import_as_usual()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("headrace", "Headrace, a Kafka-compatible broker")
    group.addoption(
        "--headrace-port",
        dest="headrace_port",
        type=int,
        default=None,
        metavar="PORT",
        help="port of the headrace_proc broker (default: 0, a free port)",
    )
    parser.addini("headrace_port", "port of the headrace_proc broker", default="0")
    parser.addini(
        "headrace_settings",
        "settings of the headrace_proc broker by Kafka's names, one name=value per line",
        type="linelist",
        default=[],
    )
    parser.addini(
        "headrace_bootstrap",
        "bootstrap servers of headrace_noproc if HEADRACE_BOOTSTRAP is not set",
        default="",
    )
