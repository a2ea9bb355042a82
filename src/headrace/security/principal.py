"""Principals: the users that connections authenticate as, in Kafka's form `User:alice`."""

from typing import Final, NamedTuple

USER: Final = "User"


class InvalidPrincipal(ValueError):
    """A text that is not of the form TYPE:NAME."""


class Principal(NamedTuple):
    """A user. `token_authenticated` is set for a login with a delegation token; it does not take
    part in comparisons with ACLs and super users."""

    type: str
    name: str
    token_authenticated: bool = False

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


ANONYMOUS: Final = Principal(USER, "ANONYMOUS")
"""A client that did not authenticate."""

WILDCARD: Final = Principal(USER, "*")
"""In an ACL: every user."""


def user(name: str) -> Principal:
    return Principal(USER, name)


def parse_principal(text: str) -> Principal:
    """The principal of `User:alice`; a name may contain colons."""
    type_, colon, name = text.partition(":")
    if not (type_ and colon and name):
        raise InvalidPrincipal(f"expected a principal such as User:alice, got {text!r}")
    return Principal(type_, name)


def parse_super_users(text: str) -> frozenset[Principal]:
    """The principals of `super.users`, which semicolons separate: names may contain commas."""
    return frozenset(parse_principal(part.strip()) for part in text.split(";") if part.strip())
