"""The security of a test broker or cluster: certificates, users, ACLs, client configurations."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Literal, TypeAlias, cast

from headrace.certificate_files import SERVER, CertificateFiles
from headrace.client.login.security import Security, security_of
from headrace.local_security import (
    ADMIN,
    ClientConfig,
    FirstUsers,
    SecurityProtocol,
    broker_login,
    broker_settings,
    new_password,
)
from headrace.security.authorization.acl import Acl

SecurityName: TypeAlias = Literal["ssl", "sasl_plaintext", "sasl_ssl"]
"""The protocol of a broker's listener, in lower case."""
Users: TypeAlias = Mapping[str, str] | Iterable[str]
"""User names with passwords; names alone get generated passwords."""

BROKER: Final = SERVER
"""The user that brokers are among themselves; with "ssl", the name in their certificate."""
_NAMES: Final = ("ssl", "sasl_plaintext", "sasl_ssl")
# User:alice for the certificate of alice, so that ACLs are the same for every protocol.
_PRINCIPALS: Final = {"ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/,DEFAULT"}


class NoSuchUser(KeyError):
    """The broker was not created with this user."""


class BrokerSecurity:
    """The files are in a temporary directory that `close` removes."""

    def __init__(self, name: SecurityName, users: Users = (), acls: Iterable[Acl] = ()) -> None:
        if name not in _NAMES:
            raise ValueError(f"security is one of {', '.join(_NAMES)}, not {name!r}")
        self.protocol = cast("SecurityProtocol", name.upper())
        given = users if isinstance(users, Mapping) else dict.fromkeys(users, "")
        self._passwords = {
            user: given.get(user) or new_password() for user in (ADMIN, BROKER, *given)
        }
        self._acls = tuple(acls)
        self._directory: TemporaryDirectory[str] | None = None

    @property
    def files(self) -> CertificateFiles:
        """The certificates; created at first use."""
        if self._directory is None:
            self._directory = TemporaryDirectory(prefix="headrace-security-")
            files = CertificateFiles(Path(self._directory.name))
            if self._has_tls:
                files.issue_server()
            for user in self._passwords.keys() - {BROKER} if self.protocol == "SSL" else ():
                files.issue_client(user)
        return CertificateFiles(Path(self._directory.name))

    def close(self) -> None:
        if self._directory is not None:
            self._directory.cleanup()
            self._directory = None

    @property
    def settings(self) -> dict[str, str]:
        """The settings of a broker, without its listener's address."""
        supers = [f"User:{ADMIN}", f"User:{BROKER}"]
        settings = broker_settings(self.protocol, self.files, supers)
        if self.protocol == "SSL":
            return settings | _PRINCIPALS
        return settings | broker_login(self.protocol, BROKER, self._passwords[BROKER])

    @property
    def first(self) -> FirstUsers:
        """The users and ACLs that a new broker gets."""
        return FirstUsers({} if self.protocol == "SSL" else self._passwords, self._acls)

    def config(self, servers: str, user: str | None = None) -> ClientConfig:
        """How a user connects; without a name, the administrator, who may do everything."""
        name = user or ADMIN
        if name not in self._passwords:
            known = ", ".join(sorted(self._passwords.keys() - {ADMIN, BROKER})) or "none"
            raise NoSuchUser(f"no user {name!r}; the broker was created with: {known}")
        files = self.files
        ca = files.ca if self._has_tls else None
        if self.protocol != "SSL":
            return ClientConfig(servers, self.protocol, ca, name, self._passwords[name])
        return ClientConfig(
            servers,
            self.protocol,
            ca,
            certificate=files.certificate(name),
            key=files.key(name),
            keystore=files.keystore(name),
        )

    @property
    def helper(self) -> Security:
        """How the helper of tests connects."""
        return security_of(self.config("").librdkafka())

    @property
    def _has_tls(self) -> bool:
        return self.protocol != "SASL_PLAINTEXT"
