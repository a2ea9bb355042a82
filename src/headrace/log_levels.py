"""The loggers of a broker, and their levels, which change while it runs (BROKER_LOGGER resources).

Loggers are named for packages. A logger without a level of its own has the level of the next one
above it in its name, `root` at the top. Levels are those of the process: brokers in one process
share them.
"""

import logging
from collections.abc import Iterator
from typing import Final

from headrace.log_formatters import AUDIT_LOGGER

ROOT: Final = "root"
"""Kafka's name for the logger above all others."""

CHANGES_LOGGER: Final = "headrace.changes"

LOGGERS: Final = (
    ROOT,
    "headrace",
    AUDIT_LOGGER,
    "headrace.broker",
    "headrace.broker.authentication",
    "headrace.broker.coordinators",
    "headrace.broker.handlers",
    "headrace.broker.http",
    "headrace.broker.maintenance",
    "headrace.broker.membership",
    "headrace.broker.metadata",
    "headrace.broker.network",
    "headrace.broker.partitions",
    "headrace.broker.replication",
    "headrace.broker.runtime",
    "headrace.broker.share",
    "headrace.broker.telemetry",
    "headrace.broker.tls",
    "headrace.broker.transactions",
    CHANGES_LOGGER,
    "headrace.cluster",
    "headrace.cluster.stores",
    "headrace.controller",
    "headrace.storage",
    "headrace.storage.cleaning",
    "headrace.storage.directories",
    "headrace.storage.files",
    "headrace.storage.log",
    "headrace.storage.recovery",
    "headrace.storage.segment",
    "headrace.tracing",
)

TRACE: Final = 5
LEVELS: Final = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": TRACE,
}
"""Kafka's levels, from the most to the least severe."""

_FIRST_LEVELS: Final = {AUDIT_LOGGER: logging.INFO}


def logger_levels() -> Iterator[tuple[str, str]]:
    """Every logger with its level in force."""
    for name in LOGGERS:
        yield name, level_name(_logger(name).getEffectiveLevel())


def level_name(level: int) -> str:
    """The name of the most severe level that includes `level`."""
    return next((name for name, number in LEVELS.items() if number <= level), "TRACE")


def set_level(name: str, level: str) -> None:
    """Sets the level of a logger of `LOGGERS`."""
    _logger(name).setLevel(LEVELS[level])


def reset_level(name: str) -> None:
    """Removes the level of a logger: it has that of the logger above it, or its first one."""
    _logger(name).setLevel(_FIRST_LEVELS.get(name, logging.NOTSET))


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(None if name == ROOT else name)
