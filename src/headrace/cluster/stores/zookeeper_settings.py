"""The connection settings for ZooKeeper, from a broker's `zookeeper.*` settings."""

from dataclasses import dataclass, field
from typing import Final

from headrace.cluster.settings import BrokerSettings, InvalidSetting

DIGEST: Final = "digest"
SASL: Final = "sasl"

MAX_PORT: Final = 65_535
_MS: Final = 1000
_PEM: Final = "PEM"


@dataclass(frozen=True, slots=True)
class ZooKeeperTls:
    """TLS to ZooKeeper. Files are PEM: trusted certificates, and a key with its certificates."""

    truststore: str | None = None
    keystore: str | None = None
    keystore_password: str | None = field(default=None, repr=False)
    check_host: bool = True
    protocols: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")
    ciphers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ZooKeeperSettings:
    """`connect` is `host:port,host:port/chroot`. `auth` is "", "digest" or "sasl"."""

    connect: str
    session_timeout_s: float = 18.0
    connection_timeout_s: float = 18.0
    set_acl: bool = False
    max_in_flight: int = 10
    auth: str = ""
    username: str = ""
    password: str = field(default="", repr=False)
    tls: ZooKeeperTls | None = None

    @property
    def hosts(self) -> str:
        return self.connect.partition("/")[0]

    @property
    def chroot(self) -> str:
        """ "" or an absolute path without a trailing slash."""
        _, slash, path = self.connect.partition("/")
        return (slash + path).rstrip("/")

    @classmethod
    def of(cls, settings: BrokerSettings) -> "ZooKeeperSettings | None":
        """None if `zookeeper.connect` is unset; raises `InvalidSetting` for invalid settings."""
        connect = (settings.string("zookeeper.connect") or "").strip()
        if not connect:
            return None
        _check_connect(connect)
        session_ms = settings.integer("zookeeper.session.timeout.ms")
        connection_ms = settings.optional_integer("zookeeper.connection.timeout.ms")
        auth = settings.string("headrace.zookeeper.auth") or ""
        username = settings.string("headrace.zookeeper.username") or ""
        if auth and not username:
            raise InvalidSetting("headrace.zookeeper.auth", auth, "needs a username and a password")
        return cls(
            connect=connect,
            session_timeout_s=session_ms / _MS,
            connection_timeout_s=(connection_ms or session_ms) / _MS,
            set_acl=settings.boolean("zookeeper.set.acl"),
            max_in_flight=settings.integer("zookeeper.max.in.flight.requests"),
            auth=auth,
            username=username,
            password=settings.string("headrace.zookeeper.password") or "",
            tls=_tls(settings) if settings.boolean("zookeeper.ssl.client.enable") else None,
        )


def _check_connect(connect: str) -> None:
    hosts, slash, chroot = connect.partition("/")
    for host in hosts.split(","):
        name, colon, port = host.strip().rpartition(":")
        is_port = port.isascii() and port.isdigit() and 0 < int(port) <= MAX_PORT
        if colon and not (name and is_port):
            reason = f"{host!r} is not host:port"
            raise InvalidSetting("zookeeper.connect", connect, reason)
        if not host.strip():
            reason = "expected host:port,host:port/chroot"
            raise InvalidSetting("zookeeper.connect", connect, reason)
    if slash and "//" in slash + chroot:
        raise InvalidSetting("zookeeper.connect", connect, "the chroot has an empty part")
    if not {".", ".."}.isdisjoint(chroot.split("/")):
        reason = "the chroot must not contain . or .."
        raise InvalidSetting("zookeeper.connect", connect, reason)


def _tls(settings: BrokerSettings) -> ZooKeeperTls:
    for store in ("keystore", "truststore"):
        name = f"zookeeper.ssl.{store}.type"
        kind = settings.string(name)
        if settings.string(f"zookeeper.ssl.{store}.location") and (kind or _PEM).upper() != _PEM:
            raise InvalidSetting(name, kind or "", "only PEM files are supported")
    protocols = settings.words("zookeeper.ssl.enabled.protocols")
    default = (settings.string("zookeeper.ssl.protocol") or "TLSv1.2", "TLSv1.3")
    return ZooKeeperTls(
        truststore=settings.string("zookeeper.ssl.truststore.location"),
        keystore=settings.string("zookeeper.ssl.keystore.location"),
        keystore_password=settings.string("zookeeper.ssl.keystore.password"),
        check_host=bool(settings.string("zookeeper.ssl.endpoint.identification.algorithm")),
        protocols=protocols or default,
        ciphers=settings.words("zookeeper.ssl.cipher.suites"),
    )
