"""Development certificates in a directory: a CA, a broker's certificate and those of clients.

For each name: NAME.pem (the certificate and its issuer), NAME.key, NAME.keystore.pem (both, for
`ssl.keystore.type=PEM`) and NAME.p12 (for Java). Files with keys or passwords have mode 0600 from
their creation on. A file is replaced only by `renew`, at once and as a whole.
"""

import os
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headrace.clock import Clock, SystemClock

if TYPE_CHECKING:
    from headrace.security.tls.development_ca import DevelopmentCA, IssuedCertificate

SERVER: Final = "server"
CA_FILE: Final = "ca.pem"
CA_KEY_FILE: Final = "ca.key"
TRUSTSTORE_FILE: Final = "truststore.p12"
PASSWORD_FILE: Final = "store.password"  # noqa: S105  # the file's name
SECRET_MODE: Final = 0o600
PUBLIC_MODE: Final = 0o644
DIRECTORY_MODE: Final = 0o700
PASSWORD_BYTES: Final = 18


class CertificatesUnavailable(Exception):
    """The certificates cannot be created or read; the message says what to do."""


class CertificateFiles:
    """The certificates in one directory."""

    def __init__(self, folder: Path, clock: Clock | None = None) -> None:
        self.folder = folder
        self._clock = clock or SystemClock()

    @property
    def ca(self) -> Path:
        return self.folder / CA_FILE

    @property
    def truststore(self) -> Path:
        """The CA's certificate for Java."""
        return self.folder / TRUSTSTORE_FILE

    def certificate(self, name: str = SERVER) -> Path:
        return self.folder / f"{name}.pem"

    def key(self, name: str = SERVER) -> Path:
        return self.folder / f"{name}.key"

    def keystore(self, name: str = SERVER) -> Path:
        """Key and certificates in one PEM file."""
        return self.folder / f"{name}.keystore.pem"

    def pkcs12(self, name: str) -> Path:
        return self.folder / f"{name}.p12"

    @property
    def password_file(self) -> Path:
        """Has the password of the PKCS12 files."""
        return self.folder / PASSWORD_FILE

    @property
    def password(self) -> str:
        return self.password_file.read_text(encoding="utf-8").strip()

    def exists(self, name: str) -> bool:
        return self.certificate(name).exists() or self.key(name).exists()

    def ensure_ca(self) -> None:
        """Creates the directory and the CA, unless they exist."""
        self._authority()

    def ensure_server(self, hosts: Sequence[str] = ()) -> None:
        """Creates the broker's certificate if there is none for all `hosts` that is still valid
        for a month."""
        authority, path = self._authority(), self.certificate()
        try:
            text = path.read_text(encoding="utf-8")
            is_current = authority.is_current(text, self._clock.wall_ms())
            has_hosts = {*hosts} <= {*authority.hosts_of(text)}
        except FileNotFoundError:
            is_current = has_hosts = False
        except ValueError as error:
            raise CertificatesUnavailable(f"{path} is damaged: {error}") from error
        if not (is_current and has_hosts and self.keystore().exists()):
            self.issue_server(hosts)

    def issue_server(self, hosts: Sequence[str] = ()) -> None:
        """Creates the broker's certificate for this machine and `hosts`.

        It replaces an earlier one and has the names of that, too: brokers accept a new certificate
        without a restart only if it is valid for all the names.
        """

        def issue(ca: "DevelopmentCA") -> "IssuedCertificate":
            before = self.certificate()
            known = ca.hosts_of(before.read_text(encoding="utf-8")) if before.exists() else []
            return ca.issue_server(SERVER, [*known, *hosts], self._clock.wall_ms())

        self._issue(SERVER, issue)

    def issue_client(self, name: str) -> None:
        """Creates a client's certificate; replaces an earlier one."""
        if not _is_file_name(name):
            raise CertificatesUnavailable(
                f"{name!r} cannot be the name of a client's files: use letters, digits, . _ -"
            )
        self._issue(name, lambda ca: ca.issue_client(name, self._clock.wall_ms()))

    def _issue(self, name: str, issue: "Callable[[DevelopmentCA], IssuedCertificate]") -> None:
        authority = self._authority()
        from headrace.security.tls.development_ca import InvalidCertificateName

        try:
            issued = issue(authority)
        except InvalidCertificateName as error:
            raise CertificatesUnavailable(str(error)) from error
        except ValueError as error:
            raise CertificatesUnavailable(f"{self.certificate(name)}: {error}") from error
        write_file(self.key(name), issued.key.encode(), SECRET_MODE)
        write_file(self.pkcs12(name), issued.pkcs12(self.password), SECRET_MODE)
        write_file(self.keystore(name), issued.keystore.encode(), SECRET_MODE)
        write_file(self.certificate(name), issued.chain.encode(), PUBLIC_MODE)

    def _authority(self) -> "DevelopmentCA":
        try:
            from headrace.security.tls.development_ca import DevelopmentCA
        except ImportError as error:
            raise CertificatesUnavailable(
                "certificates need cryptography, which is not installed: "
                "pip install 'headrace[security]'"
            ) from error
        key = self.folder / CA_KEY_FILE
        try:
            if self.ca.exists() and key.exists():
                return DevelopmentCA.load(
                    self.ca.read_text(encoding="utf-8"), key.read_text(encoding="utf-8")
                )
            if self.ca.exists() or key.exists():
                missing = CA_KEY_FILE if self.ca.exists() else CA_FILE
                raise CertificatesUnavailable(
                    f"{self.folder} has a CA without {missing}; choose another directory, or "
                    "remove it and its certificates"
                )
            return self._create_authority(DevelopmentCA.create(self._clock.wall_ms()))
        except OSError as error:
            where = error.filename or self.folder
            raise CertificatesUnavailable(f"cannot write {where}: {error.strerror}") from error
        except ValueError as error:
            raise CertificatesUnavailable(f"the CA in {self.folder} is damaged: {error}") from error

    def _create_authority(self, authority: "DevelopmentCA") -> "DevelopmentCA":
        self.folder.mkdir(parents=True, exist_ok=True, mode=DIRECTORY_MODE)
        password = secrets.token_urlsafe(PASSWORD_BYTES)
        write_file(self.password_file, f"{password}\n".encode(), SECRET_MODE)
        write_file(self.folder / CA_KEY_FILE, authority.key.encode(), SECRET_MODE)
        write_file(self.truststore, authority.truststore(password), SECRET_MODE)
        write_file(self.ca, authority.certificate.encode(), PUBLIC_MODE)
        return authority


def write_file(path: Path, content: bytes, mode: int) -> None:
    """Replaces the file as a whole. It never has other permissions than `mode`."""
    temporary = path.with_name(f"{path.name}.new")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    temporary.replace(path)


def _is_file_name(name: str) -> bool:
    """Whether a client's files with this name differ from all others in the directory."""
    taken = name in ("ca", SERVER, "truststore", "store") or name.endswith(".keystore")
    allowed = all(each.isalnum() or each in "._-" for each in name)
    return bool(name) and allowed and not taken and not name.startswith(".")
