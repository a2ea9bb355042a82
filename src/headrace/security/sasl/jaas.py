"""JAAS login settings: `sasl.jaas.config` of one listener and mechanism. Pure.

The text has one login module: its Java class, a flag and options, as in
`org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret";`. Only
Kafka's own modules are accepted, so no text can name a class that does something else
(CVE-2023-25194, CVE-2025-27818, CVE-2025-27819). No error shows a value, which may be a secret.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

_PACKAGE: Final = "org.apache.kafka.common.security"
LOGIN_MODULES: Final = {
    f"{_PACKAGE}.plain.PlainLoginModule": "PLAIN",
    f"{_PACKAGE}.scram.ScramLoginModule": "SCRAM",
    f"{_PACKAGE}.oauthbearer.OAuthBearerLoginModule": "OAUTHBEARER",
}
"""The mechanism of each login module that is accepted."""
_FLAGS: Final = frozenset({"required", "requisite", "sufficient", "optional"})
_USER_PREFIX: Final = "user_"
_TOKEN: Final = re.compile(
    r"""(?P<blank>\s+|//[^\n]*|/\*.*?\*/)
      | (?P<mark>[=;])
      | "(?P<double>(?:[^"\\\n]|\\.)*)"
      | '(?P<single>(?:[^'\\\n]|\\.)*)'
      | (?P<word>[^\s=;"'/]+)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\([0-3]?[0-7]{1,2}|.)", re.DOTALL)
_CONTROL: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_CLASS_NAME: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+", re.ASCII)


class InvalidJaas(ValueError):
    """The text is not valid; the message has the place and no value."""


@dataclass(frozen=True, slots=True)
class JaasLogin:
    """The options of one login module."""

    mechanism: str
    options: Mapping[str, str] = field(repr=False)

    @property
    def username(self) -> str | None:
        return self.options.get("username")

    @property
    def password(self) -> str | None:
        return self.options.get("password")

    def users(self) -> dict[str, str]:
        """The passwords of the users that PLAIN accepts, from the options `user_<name>`."""
        return {
            name.removeprefix(_USER_PREFIX): password
            for name, password in self.options.items()
            if name.startswith(_USER_PREFIX) and name != _USER_PREFIX
        }


def parse_jaas(text: str) -> JaasLogin:
    """The login module of the text; raises `InvalidJaas`."""
    tokens = list(_tokens(text))
    if len(tokens) < 3 or tokens[-1] != _END:
        raise InvalidJaas("expected a login module, a flag such as required, and a ';' at the end")
    (_, module), (_, flag), *rest = tokens[:-1]
    mechanism = LOGIN_MODULES.get(module)
    if mechanism is None:
        shown = f" {module}" if _CLASS_NAME.fullmatch(module) else ""
        raise InvalidJaas(
            f"the login module{shown} is not accepted; use one of {', '.join(LOGIN_MODULES)}"
        )
    if flag.lower() not in _FLAGS:
        raise InvalidJaas("the login module must be followed by required")
    return JaasLogin(mechanism, _options(rest))


_Token = tuple[bool, str]  # whether it is a mark (= or ;), and its text
_END: Final[_Token] = (True, ";")
_EQUALS: Final[_Token] = (True, "=")


def _options(tokens: list[_Token]) -> dict[str, str]:
    options: dict[str, str] = {}
    for at in range(0, len(tokens), 3):
        name, *assigned = tokens[at : at + 3]
        if name == _END:
            raise InvalidJaas("exactly one login module is allowed")
        number = at // 3 + 1
        if name[0] or not assigned:
            raise InvalidJaas(f"option {number} has no name or no value")
        if len(assigned) < 2 or assigned[0] != _EQUALS or assigned[1][0]:
            raise InvalidJaas(f'option {number} has no value; write name="value"')
        if name[1] in options:
            raise InvalidJaas(f"option {number} is set twice")
        options[name[1]] = assigned[1][1]
    return options


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise InvalidJaas(f"unexpected character or open quote at character {at + 1}")
        at = match.end()
        if match["mark"]:
            yield True, match["mark"]
        elif match["word"] is not None:
            yield False, match["word"]
        elif match["blank"] is None:
            quoted = match["double"] if match["double"] is not None else match["single"]
            yield False, _ESCAPE.sub(_unescape, quoted)


def _unescape(match: re.Match[str]) -> str:
    code = match[1]
    if code[0] in "01234567":
        return chr(int(code, 8))
    return _CONTROL.get(code, code)
