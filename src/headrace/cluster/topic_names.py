"""The rules for topic names, with Kafka's error texts. Pure."""

from typing import Final

from headrace.protocol.errors import ErrorCode

MAX_NAME_CHARS: Final = 249
"""A partition's directory is name-index; with `.uuid-delete` it must fit a 255-byte file name."""

_LEGAL: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


def name_problem(name: str) -> str | None:
    """The reason why the name is invalid, as a sentence for the client; None if it is valid."""
    reason: str | None = None
    if not name:
        reason = "the empty string is not allowed"
    elif name in (".", ".."):
        reason = f"'{name}' is not allowed"
    elif len(name) > MAX_NAME_CHARS:
        reason = f"the length of '{name}' is longer than the max allowed length {MAX_NAME_CHARS}"
    elif not _LEGAL.issuperset(name):
        reason = (
            f"'{name}' contains one or more characters other than "
            "ASCII alphanumerics, '.', '_' and '-'"
        )
    return None if reason is None else f"Topic name is invalid: {reason}"


def missing_topic_error(name: str) -> ErrorCode:
    """The error for a topic that does not exist."""
    if name_problem(name) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.INVALID_TOPIC_EXCEPTION


def collision_key(name: str) -> str | None:
    """Topics with equal keys would share metric names; None if no other name can collide."""
    if "." in name or "_" in name:
        return name.replace(".", "_")
    return None
