"""The loggers have the names of packages, and levels as Kafka names them."""

import ast
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

import headrace
from headrace.log_formatters import AUDIT_LOGGER
from headrace.log_levels import (
    CHANGES_LOGGER,
    LEVELS,
    LOGGERS,
    ROOT,
    level_name,
    logger_levels,
    reset_level,
    set_level,
)

SRC = Path(headrace.__file__).parent
OF_BROKERS = ("broker", "cluster", "controller", "coordinator", "replication", "storage", "tracing")
NAMED = {"AUDIT_LOGGER": AUDIT_LOGGER, "CHANGES_LOGGER": CHANGES_LOGGER}


@pytest.fixture(autouse=True)
def levels() -> Iterator[None]:
    loggers = [logging.getLogger(None if name == ROOT else name) for name in LOGGERS]
    before = [each.level for each in loggers]
    yield
    for each, level in zip(loggers, before, strict=True):
        each.setLevel(level)


def logger_names() -> set[str]:
    """The names of the loggers in the broker's modules."""
    found = set()
    for package in OF_BROKERS:
        for path in (SRC / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call) and ast.unparse(node.func) == "logging.getLogger":
                    name = ast.unparse(node.args[0])
                    assert name != "__name__", f"{path}: a logger has the name of its package"
                    if name == "__package__":
                        found.add(".".join(("headrace", *path.relative_to(SRC).parent.parts)))
                    elif name in NAMED:
                        found.add(NAMED[name])
    return found


def test_every_logger_of_a_broker_is_listed_and_documented() -> None:
    found = logger_names()
    packages = {name for name in LOGGERS if any(each.startswith(f"{name}.") for each in found)}
    assert set(LOGGERS) - found <= {ROOT, *packages}
    assert found <= set(LOGGERS)
    page = (SRC.parents[1] / "docs" / "guide" / "logs.md").read_text()
    assert [name for name in LOGGERS if f"`{name}`" not in page] == []


def test_a_level_applies_to_the_loggers_below() -> None:
    set_level("headrace", "ERROR")
    set_level("headrace.broker", "DEBUG")
    found = dict(logger_levels())
    assert found["headrace.storage"] == "ERROR"
    assert found["headrace.broker.network"] == "DEBUG"
    reset_level("headrace.broker")
    assert dict(logger_levels())["headrace.broker.network"] == "ERROR"


def test_the_audit_log_returns_to_its_own_first_level() -> None:
    set_level(ROOT, "ERROR")
    set_level(AUDIT_LOGGER, "DEBUG")
    reset_level(AUDIT_LOGGER)
    assert dict(logger_levels())[AUDIT_LOGGER] == "INFO"


def test_a_level_between_two_names_has_the_name_of_the_less_severe() -> None:
    assert [level_name(level) for level in LEVELS.values()] == list(LEVELS)
    assert (level_name(35), level_name(1), level_name(0)) == ("WARN", "TRACE", "TRACE")
