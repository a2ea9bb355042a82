"""The messages that a broker can log, read from its source."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import headrace

SRC = Path(headrace.__file__).parent
PACKAGES = (
    "broker",
    "cluster",
    "controller",
    "coordinator",
    "replication",
    "security",
    "storage",
    "tracing",
)
MODULES = ("limited_log.py",)
LOGGERS = {"log", "_log", "logger"}
LEVELS = {
    "info": "INFO",
    "warning": "WARN",
    "error": "ERROR",
    "exception": "ERROR",
    "critical": "FATAL",
}
DEBUG = {"debug", "DEBUG"}


class Message(NamedTuple):
    """A sentence with its place; `level` is None if the code chooses between several."""

    sentence: str
    level: str | None
    place: str


def messages() -> list[Message]:
    """All sentences at INFO or above, without the arguments that complete them."""
    paths = [path for package in PACKAGES for path in sorted((SRC / package).rglob("*.py"))]
    paths += [SRC / name for name in MODULES]
    return [message for path in paths for message in _messages_of(path)]


def _messages_of(path: Path) -> Iterator[Message]:
    tree = ast.parse(path.read_text())
    constants = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.AnnAssign)
        and node.value is not None
        and isinstance(target := node.target, ast.Name)
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        found = _argument(node)
        if found is None:
            continue
        level, argument = found
        for sentence in _sentences(argument, constants):
            yield Message(sentence, level, f"{path.relative_to(SRC)}:{node.lineno}")


def _argument(call: ast.Call) -> tuple[str | None, ast.expr] | None:
    """The level and the expression of the sentence, if the call logs one."""
    name = call.func.id if isinstance(call.func, ast.Name) else ""
    if name == "LogEvent" and len(call.args) > 1:
        return _level_of(call.args[0]), call.args[1]
    if not isinstance(call.func, ast.Attribute):
        return None
    method, receiver = call.func.attr, ast.unparse(call.func.value)
    if receiver.lower() in LOGGERS or receiver == "self._log":
        if method == "log":
            return _level_of(call.args[0]), call.args[1]
        return (LEVELS[method], call.args[0]) if method in LEVELS else None
    if method == "failed" and len(call.args) > 1:
        return _level_of(call.args[0]), call.args[1]
    if method == "succeeded":
        return "INFO", call.args[0]
    if method == "log_change":
        return "INFO", call.args[2]
    if method in LEVELS and any(each.arg == "about" for each in call.keywords):
        return LEVELS[method], call.args[0]
    return None


def _level_of(node: ast.expr) -> str | None:
    word = ast.unparse(node).rpartition(".")[2]
    return {"INFO": "INFO", "WARNING": "WARN", "ERROR": "ERROR"}.get(word)


def _sentences(node: ast.expr, constants: dict[str, ast.expr]) -> Iterator[str]:
    match node:
        case ast.Constant(str(sentence)):
            yield sentence
        case ast.IfExp():
            yield from _sentences(node.body, constants)
            yield from _sentences(node.orelse, constants)
        case ast.Name(name) if name in constants:
            yield from _sentences(constants[name], constants)
        case ast.Name():  # one of the sentences that the module names
            for each in constants.values():
                if isinstance(each, ast.Constant) and " " in str(each.value):
                    yield str(each.value)
