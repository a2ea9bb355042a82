"""The `match` setting of a client metrics subscription: which clients it applies to. Pure.

An entry is `attribute=pattern`, and a client matches if every pattern matches its whole attribute.
The patterns are RE2's, because the client chooses the text: a pattern that backtracks could keep
the event loop busy for minutes.
"""

from collections.abc import Mapping
from typing import Final, Protocol

CLIENT_INSTANCE_ID: Final = "client_instance_id"
CLIENT_ID: Final = "client_id"
CLIENT_SOFTWARE_NAME: Final = "client_software_name"
CLIENT_SOFTWARE_VERSION: Final = "client_software_version"
CLIENT_SOURCE_ADDRESS: Final = "client_source_address"
CLIENT_SOURCE_PORT: Final = "client_source_port"

MATCHABLE: Final = (
    CLIENT_INSTANCE_ID,
    CLIENT_ID,
    CLIENT_SOFTWARE_NAME,
    CLIENT_SOFTWARE_VERSION,
    CLIENT_SOURCE_ADDRESS,
    CLIENT_SOURCE_PORT,
)

ClientAttributes = Mapping[str, str]
"""What a client is matched by: a value for each name of `MATCHABLE`."""


class InvalidMatch(Exception):
    """An entry of `match` is not `attribute=pattern`."""


class MatchPattern(Protocol):
    """A compiled pattern."""

    def fullmatch(self, text: str, /) -> object | None: ...


ClientMatch = tuple[tuple[str, MatchPattern], ...]


def parse_match(value: str) -> ClientMatch:
    """The patterns by attribute; empty if the subscription applies to all clients."""
    # As in Kafka, the last pattern for an attribute replaces earlier ones.
    patterns: dict[str, MatchPattern] = {}
    for entry in filter(None, map(str.strip, value.split(","))):
        attribute, _, pattern = entry.partition("=")
        if attribute.strip() not in MATCHABLE or not pattern.strip() or "=" in pattern:
            raise InvalidMatch(f"Illegal client matching pattern: {entry}")
        patterns[attribute.strip()] = _compile(pattern.strip(), entry)
    return tuple(patterns.items())


def matches(match: ClientMatch, client: ClientAttributes) -> bool:
    """Whether every pattern matches its whole attribute; without patterns every client matches."""
    return all(pattern.fullmatch(client.get(name, "")) is not None for name, pattern in match)


def _compile(pattern: str, entry: str) -> MatchPattern:
    import re2  # few clusters have such a pattern, and a broker should start fast

    options = re2.Options()
    options.log_errors = False
    try:
        compiled: MatchPattern = re2.compile(pattern, options)
    except re2.error:
        raise InvalidMatch(f"Illegal client matching pattern: {entry}") from None
    return compiled
