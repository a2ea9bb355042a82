"""`ssl.principal.mapping.rules`: from a certificate's distinguished name to a principal's name.

Rules are tried in order: `RULE:pattern/replacement/[LU]` applies if its pattern matches the whole
name, `DEFAULT` always. If none applies, the connection is refused. Patterns are RE2's: the time of
a match is linear in the length of the name, which the client chooses.
"""

import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple

DEFAULT: Final = "DEFAULT"
_PART: Final = r"((?:\\.|[^\\/])*)"
_RULE: Final = rf"DEFAULT|RULE:{_PART}/{_PART}/([LU]?)"
_SEPARATOR: Final = r"\s*(?:,\s*|$)"
_REFERENCE: Final = r"\\(.)|\$([0-9]+)"


class InvalidRule(ValueError):
    """A rule that cannot be used; the message says which and why."""


class NoMatchingRule(Exception):
    """No rule applies to a name."""


class _Rule(NamedTuple):
    pattern: Any  # a compiled pattern of RE2, which has no types; None for DEFAULT
    expand: Callable[[Any], str]
    change_case: Callable[[str], str]


class PrincipalMapping:
    """The rules of one listener."""

    def __init__(self, text: str) -> None:
        """Raises `InvalidRule`."""
        self._text = text
        self._rules = _read_rules(text)

    def name_of(self, distinguished_name: str) -> str:
        """The principal's name; raises `NoMatchingRule`."""
        for rule in self._rules:
            if rule.pattern is None:
                return distinguished_name
            if rule.pattern.fullmatch(distinguished_name):
                # Like Kafka, which replaces each match within the name once the whole matches.
                replaced: str = rule.pattern.sub(rule.expand, distinguished_name)
                return rule.change_case(replaced)
        raise NoMatchingRule(f"no rule of {self._text!r} applies to {distinguished_name!r}")


def _read_rules(text: str) -> list[_Rule]:
    text = text.strip() or DEFAULT
    rules: list[_Rule] = []
    at = 0
    while at < len(text):
        match = re.compile(rf"\s*(?:{_RULE}){_SEPARATOR}").match(text, at)
        if match is None:
            raise InvalidRule(
                f"{text[at:]!r} is neither DEFAULT nor RULE:pattern/replacement/ with an L or U "
                "after it"
            )
        at = match.end()
        rules.append(_read_rule(match[1], match[2], match[3]))
    return rules


def _read_rule(pattern: str | None, replacement: str, case: str) -> _Rule:
    if pattern is None:
        return _Rule(None, str, str)
    import re2  # only brokers with rules need it

    try:
        compiled = re2.compile(pattern)
    except re2.error as error:
        raise InvalidRule(f"{pattern!r} is not a pattern of RE2: {error}") from error
    cases = {"L": str.lower, "U": str.upper}
    return _Rule(compiled, _expander(replacement, compiled.groups), cases.get(case, str))


def _expander(replacement: str, groups: int) -> Callable[[Any], str]:
    """Replaces references such as $1. A reference to a group that the pattern lacks is text."""
    parts: list[str | int] = []
    at = 0
    for found in re.finditer(_REFERENCE, replacement):
        parts.append(replacement[at : found.start()])
        at = found.end()
        if found[1] is not None:
            parts.append(found[1])
            continue
        digits = found[2]
        # Like Java: as many digits as name a group.
        used = next((n for n in range(len(digits), 0, -1) if int(digits[:n]) <= groups), 0)
        parts += [int(digits[:used]), digits[used:]] if used else [f"${digits}"]
    parts.append(replacement[at:])

    def expand(match: Any) -> str:  # noqa: ANN401 - a match of RE2
        return "".join(part if isinstance(part, str) else match[part] or "" for part in parts)

    return expand
