"""The console's settings. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Final

from headrace.client.login.security import PROTOCOLS, Credentials, Security, Tls, security_of

DEFAULT_LISTEN: Final = "127.0.0.1:9645"
SERVERS: Final = "bootstrap.servers"
LOOPBACK_NAMES: Final = ("localhost", "127.0.0.1", "[::1]")
MAX_PORT: Final = 65_535


class InvalidConsoleSetting(ValueError):
    """An option cannot be used; the message says what to change."""


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """Where the console accepts connections; port 0 lets the system choose."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        if self.host == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False

    @classmethod
    def parse(cls, text: str) -> "ListenAddress":
        """Reads `HOST:PORT`, `[IPV6]:PORT` or a port alone."""
        host, colon, port = text.strip().rpartition(":")
        if not colon:
            host = "127.0.0.1"
        host = host.removeprefix("[").removesuffix("]")
        if not host or not port.isdecimal() or int(port) > MAX_PORT:
            raise InvalidConsoleSetting(
                f"--listen takes HOST:PORT, for example {DEFAULT_LISTEN}, not {text!r}"
            )
        return cls(host, int(port))


@dataclass(frozen=True, slots=True)
class ConsoleSettings:
    """Everything that the command line decides."""

    client: Mapping[str, str] = field(repr=False)
    """The client settings: servers, TLS, SASL mechanism, perhaps credentials."""
    listen: ListenAddress = field(default_factory=lambda: ListenAddress.parse(DEFAULT_LISTEN))
    read_only: bool = False
    host_names: tuple[str, ...] = ()
    """Names by which browsers reach the console, besides the address that it listens on."""
    certificate: str | None = None
    key: str | None = None
    schema_registry: str | None = None
    cluster_name: str = ""
    pipelines: tuple[str, ...] = ()
    """Checkpoint directories, folders of them, and spec files of pipelines on this machine."""
    request_timeout_s: float = 8.0
    refresh_s: float = 5.0
    """The interval of the background snapshot."""
    idle_timeout_s: float = 30 * 60.0
    session_timeout_s: float = 12 * 3600.0

    @property
    def servers(self) -> str:
        return self.client[SERVERS]

    @property
    def uses_tls(self) -> bool:
        return self.certificate is not None

    @property
    def protocol(self) -> str:
        return self.client.get("security.protocol", "PLAINTEXT").upper()

    @property
    def uses_sasl(self) -> bool:
        return self.protocol.startswith("SASL")

    @property
    def needs_login(self) -> bool:
        """Whether each visitor logs in: the cluster wants credentials, and the settings have none.

        Credentials in the settings serve every visitor, who must then know the access token that
        the console prints when it starts.
        """
        return self.uses_sasl and not self.has_credentials

    @property
    def has_credentials(self) -> bool:
        given = self.client
        return bool(
            given.get("sasl.username")
            or given.get("sasl.jaas.config")
            or given.get("sasl.oauthbearer.token.endpoint.url")
        )

    @property
    def mechanism(self) -> str:
        named = self.client.get("sasl.mechanism") or self.client.get("sasl.mechanisms")
        return (named or "SCRAM-SHA-512").upper()

    def security(self, credentials: Credentials | None = None) -> Security:
        """The security of a client with a visitor's credentials, or with those of the settings."""
        if credentials is None:
            return security_of(self.client)
        return Security(tls=self._tls(), sasl=credentials)

    def _tls(self) -> Tls | None:
        if self.protocol not in PROTOCOLS:
            return security_of(self.client).tls  # raises with the reason
        if not self.protocol.endswith("SSL"):
            return None
        return security_of({**self.client, "security.protocol": "SSL"}).tls

    def allowed_hosts(self, port: int) -> frozenset[str]:
        """The Host headers that the console answers; others are attempts at DNS rebinding."""
        names = {*self.host_names}
        if self.listen.is_loopback:
            names.update(LOOPBACK_NAMES)
        elif self.listen.host not in ("0.0.0.0", "::"):  # noqa: S104  # a comparison
            names.add(f"[{self.listen.host}]" if ":" in self.listen.host else self.listen.host)
        lowered = {name.lower() for name in names}
        return frozenset(lowered | {f"{name}:{port}" for name in lowered})

    def check(self) -> None:
        """Raises `InvalidConsoleSetting` if the options contradict each other."""
        if self.key is not None and self.certificate is None:
            raise InvalidConsoleSetting("--tls-key needs --tls-cert")
        reachable = not self.listen.is_loopback
        if reachable and not self.uses_tls and self.uses_sasl:
            raise InvalidConsoleSetting(
                f"on {self.listen.host}, passwords would cross the network unencrypted: set "
                "--tls-cert and --tls-key, or listen on 127.0.0.1 behind a proxy with TLS"
            )
        if reachable and self.listen.host in ("0.0.0.0", "::") and not self.host_names:  # noqa: S104
            raise InvalidConsoleSetting(
                f"--listen {self.listen.host} needs --host-name NAME: the name under which "
                "browsers reach the console"
            )
        security_of(self.client) if not self.needs_login else self._tls()
