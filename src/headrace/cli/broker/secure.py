"""`headrace up --secure`: certificates, an administrator and client configurations for one broker.

They are in the directory `security` of the first log directory and are used again at the next
start. The administrator's password is only in the two client configurations, which have mode 0600.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from headrace import __version__
from headrace.broker.node import Broker
from headrace.broker.runtime.environment import Environment
from headrace.certificate_files import (
    SECRET_MODE,
    CertificateFiles,
    CertificatesUnavailable,
    write_file,
)
from headrace.cli.broker.banner import NOWHERE, metrics_line, program_name
from headrace.cluster.java_properties import BadProperties, read_properties
from headrace.cluster.settings import BrokerSettings
from headrace.local_security import (
    ADMIN,
    ClientConfig,
    FirstUsers,
    broker_settings,
    new_password,
    properties_text,
    seeded,
)
from headrace.storage.directories.directory_names import SECURITY

PROTOCOL: Final = "SASL_SSL"
CLIENT_FILE: Final = "client.properties"
JAVA_FILE: Final = "client-java.properties"
LOCAL_HOSTS: Final = frozenset({"localhost", "127.0.0.1", "::1"})
"""Every certificate is valid for these."""
ANY_HOST: Final = frozenset({"", "0.0.0.0", "::"})  # noqa: S104  # compared, not bound

WELCOME: Final = """\
Headrace {version} is up, with TLS, passwords and access control.

  clients connect to   {servers}
  topics are kept in   {data}
  client settings      {client}
                       {java} (Java)
{metrics}
The settings are those of the user {admin!r}, who may do everything.
Try it from another terminal:

  export HEADRACE_PROFILE={client}
  echo hello | {program} produce greetings
  {program} consume greetings -e

Ctrl-C stops it.
"""


def secure_settings(values: Mapping[str, str]) -> dict[str, str]:
    """The settings that --secure adds."""
    folder = _folder((values.get("log.dirs") or values["log.dir"]).split(","))
    return broker_settings(PROTOCOL, CertificateFiles(folder), [f"User:{ADMIN}"])


def _folder(log_dirs: Sequence[str]) -> Path:
    return Path(log_dirs[0]).absolute() / SECURITY


class SecuredNode:
    """The files of one secured broker."""

    def __init__(self, settings: BrokerSettings, keeps: Sequence[str] | None) -> None:
        self.files = CertificateFiles(_folder(settings.log_dirs))
        self.client = self.files.folder / CLIENT_FILE
        self._java = self.files.folder / JAVA_FILE
        self._listener = settings.listeners[0]
        self._keeps = keeps
        self._password = ""

    def prepare(self, environment: Environment) -> Environment:
        """Creates what is missing. The result opens a store that has the administrator.

        Raises `CertificatesUnavailable`.
        """
        host = self._listener.host.strip("[]")
        if host in ANY_HOST:
            host = environment.host_name()
        self.files.ensure_server([] if host in LOCAL_HOSTS else [host])
        known = self._known_password()
        self._password = known or new_password()
        # Without the file, the password is lost: the administrator gets a new one.
        first = FirstUsers({ADMIN: self._password}, replaces=known is None)
        return environment._replace(metadata_store=seeded(environment.metadata_store, first))

    def _known_password(self) -> str | None:
        try:
            text = self.client.read_text(encoding="utf-8")
            return read_properties(text).get("sasl.password")
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError, BadProperties) as error:
            raise CertificatesUnavailable(f"{self.client} cannot be read: {error}") from error

    def greeting(self, broker: Broker) -> str:
        """Writes the client configurations, now that the port is known; the text to print."""
        servers = broker.bootstrap_servers
        config = ClientConfig(servers, PROTOCOL, self.files.ca, ADMIN, self._password)
        for path, settings in ((self.client, config.librdkafka()), (self._java, config.java())):
            write_file(path, properties_text(settings).encode(), SECRET_MODE)
        return WELCOME.format(
            version=__version__,
            servers=servers,
            metrics=metrics_line(None if broker.http is None else broker.http.address),
            data=NOWHERE if self._keeps is None else ", ".join(self._keeps),
            client=self.client,
            java=self._java,
            admin=ADMIN,
            program=program_name(),
        )
