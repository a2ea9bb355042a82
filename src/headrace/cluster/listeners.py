"""Listeners: the addresses a broker binds and those it advertises. Pure."""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MAX_PORT: Final = 65_535
ANY_ADDRESS: Final = "0.0.0.0"  # noqa: S104 - the name of it; nothing is bound here
_ADDRESS: Final = re.compile(
    r"([A-Za-z0-9_.-]+)://(\[[0-9A-Fa-f:.%a-z]+\]|[^:/\[\]\s]*):(-?[0-9]+)"
)


class Listener(NamedTuple):
    """A named address. An empty host means every interface."""

    name: str
    host: str
    port: int
    security_protocol: str

    @property
    def uses_tls(self) -> bool:
        return self.security_protocol in ("SSL", "SASL_SSL")

    @property
    def uses_sasl(self) -> bool:
        return self.security_protocol in ("SASL_PLAINTEXT", "SASL_SSL")


class BadListener(Exception):
    """An address that cannot be used; the message has the reason."""


def name_of(address: str) -> str:
    """The listener's name in NAME://host:port."""
    return address.partition("://")[0].upper()


def read_protocol_map(text: str) -> dict[str, str]:
    """The protocols of `NAME:PROTOCOL,...` by listener name."""
    protocols: dict[str, str] = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        name, _, protocol = pair.partition(":")
        if protocol not in SECURITY_PROTOCOLS:
            names = ", ".join(SECURITY_PROTOCOLS)
            raise BadListener(f"{pair}: the protocol must be one of {names}")
        if name.upper() in protocols:
            raise BadListener(f"{name} is mapped twice")
        protocols[name.upper()] = protocol
    return protocols


def read_listeners(addresses: Sequence[str], protocols: dict[str, str]) -> tuple[Listener, ...]:
    """The listeners. Names are distinct, and so are addresses unless the port is 0."""
    listeners = tuple(_listener(address, protocols) for address in addresses)
    if not listeners:
        raise BadListener("at least one listener is needed, e.g. PLAINTEXT://:9092")
    _refuse_duplicates([listener.name for listener in listeners], "the name")
    bound = [f"{item.host}:{item.port}" for item in listeners if item.port]
    _refuse_duplicates(bound, "the address")
    return listeners


def check_advertised(advertised: Sequence[Listener], bound: Sequence[Listener]) -> None:
    """Checks that advertised addresses belong to bound listeners and are connectable."""
    names = {listener.name for listener in bound}
    for listener in advertised:
        if listener.name not in names:
            raise BadListener(f"{listener.name} is advertised but not among the listeners")
        if listener.host in ("", ANY_ADDRESS, "[::]"):
            raise BadListener(
                f"{listener.name}: clients cannot connect to {listener.host or 'an empty host'}; "
                "advertise a name or an address of this machine"
            )


def _listener(address: str, protocols: dict[str, str]) -> Listener:
    match = _ADDRESS.fullmatch(address)
    if match is None:
        raise BadListener(f"{address} is not of the form NAME://host:port")
    name, host, port = match[1].upper(), match[2], int(match[3])
    if not 0 <= port <= MAX_PORT:
        raise BadListener(f"{address}: the port must be from 0 to {MAX_PORT}")
    protocol = protocols.get(name)
    if protocol is None:
        raise BadListener(
            f"{address}: {name} has no security protocol in listener.security.protocol.map"
        )
    return Listener(name, host, port, protocol)


def _refuse_duplicates(values: Sequence[str], what: str) -> None:
    for value in values:
        if values.count(value) > 1:
            raise BadListener(f"{what} {value} is used by more than one listener")
