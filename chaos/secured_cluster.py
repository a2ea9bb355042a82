"""A cluster whose clients and brokers use SASL_SSL, with an authorizer.

The rig itself uses a plain listener, as a super user: it must see a cluster whose certificates are
being replaced.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bench.load_generator import LoadGenerator
from bench.peers.headrace_cluster import HeadraceCluster
from bench.peers.node import Node
from bench.peers.peer import LOOPBACK, free_port
from bench.security import LOGIN, MECHANISM, PROTOCOL, Security
from bench.wire import Wire

from headrace.certificate_files import CertificateFiles

BROKER: Final = "broker"
CLIENT: Final = "client"
GUEST: Final = "guest"
"""Its only right is given and taken again and again."""
AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


class SecuredCluster(HeadraceCluster):
    """Each user's password is its name."""

    def __init__(
        self,
        home: Path,
        load: LoadGenerator,
        *,
        hosts: Sequence[str] = (),
        zookeeper_hosts: Sequence[str] = (LOOPBACK,),
    ) -> None:
        super().__init__(home, load, hosts=hosts, zookeeper_hosts=zookeeper_hosts)
        self._ports = {broker.number: free_port() for broker in self.brokers}
        self.files = CertificateFiles(home / "certificates")
        self.issue_certificate()

    def issue_certificate(self) -> None:
        """Replaces the certificate of all brokers."""
        self.files.issue_server(sorted({broker.host for broker in self.brokers}))

    def secured_address(self, broker: Node) -> str:
        return f"{broker.host}:{self._ports[broker.number]}"

    @property
    def client_bootstrap(self) -> str:
        return ",".join(map(self.secured_address, self.brokers))

    @property
    def client_settings(self) -> dict[str, str]:
        """For librdkafka."""
        return {
            "security.protocol": PROTOCOL,
            "sasl.mechanism": MECHANISM,
            "sasl.username": CLIENT,
            "sasl.password": CLIENT,
            "ssl.ca.location": str(self.files.ca),
        }

    def connect_guest(self, broker: Node) -> Wire:
        return Security(self.files).connect(self.secured_address(broker), GUEST, GUEST)

    def settings_of(self, broker: Node) -> dict[str, str]:
        users = " ".join(f'user_{name}="{name}"' for name in (BROKER, CLIENT, GUEST))
        own_login = f'username="{BROKER}" password="{BROKER}"'
        prefix = f"listener.name.{PROTOCOL.lower()}"
        return super().settings_of(broker) | {
            "listeners": f"PLAINTEXT://{broker.address},{PROTOCOL}://{self.secured_address(broker)}",
            "inter.broker.listener.name": PROTOCOL,
            "sasl.mechanism.inter.broker.protocol": MECHANISM,
            "sasl.enabled.mechanisms": MECHANISM,
            f"{prefix}.{MECHANISM.lower()}.sasl.jaas.config": f"{LOGIN} {own_login} {users};",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.files.keystore()),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.files.ca),
            "authorizer.class.name": AUTHORIZER,
            "super.users": f"User:{BROKER};User:ANONYMOUS",
        }
