"""ZooKeeper for clusters that need it: the server in PySpark's wheel, standalone or an ensemble."""

import socket
from collections.abc import Sequence
from pathlib import Path

from bench.peers.node import Node
from bench.peers.peer import LOOPBACK, free_port
from headrace import zookeeper_server

ANSWER_S = 2.0
JVM = ("-Xms16m", "-Xmx128m", "-XX:+UseSerialGC", "-Dzookeeper.preAllocSize=1024")
SETTINGS = {
    "tickTime": 500,
    "maxClientCnxns": 0,
    "admin.enableServer": "false",
    "4lw.commands.whitelist": "srvr",
    "minSessionTimeout": 1000,
    "maxSessionTimeout": 60000,
    "initLimit": 20,
    "syncLimit": 10,
}


def ensemble(home: Path, hosts: Sequence[str] = (LOOPBACK,)) -> list[Node]:
    """A node for each host, not started; a single one is a standalone server."""
    nodes = [
        Node(
            number,
            home / f"zookeeper-{number}",
            host=host,
            port=free_port(),
            command=command,
        )
        for number, host in enumerate(hosts, start=1)
    ]
    members = {
        f"server.{node.number}": f"{node.host}:{free_port()}:{free_port()}" for node in nodes
    }
    for node in nodes:
        node.data.mkdir()
        (node.data / "myid").write_text(f"{node.number}\n")
        settings = {
            **SETTINGS,
            **(members if len(nodes) > 1 else {}),
            "dataDir": node.data,
            "clientPort": node.port,
            "clientPortAddress": node.host,
        }
        text = "".join(f"{name}={value}\n" for name, value in settings.items())
        (node.home / "zoo.cfg").write_text(text)
    return nodes


def command(node: Node) -> list[str]:
    jars = ":".join(str(jar) for jar in zookeeper_server.jars())
    config = node.home / "zoo.cfg"
    quorum = "server." in config.read_text()
    main = "quorum.QuorumPeerMain" if quorum else "ZooKeeperServerMain"
    java = zookeeper_server.java_command()
    return [java, *JVM, "-cp", jars, f"org.apache.zookeeper.server.{main}", str(config)]


def connect(nodes: Sequence[Node]) -> str:
    """The value of `zookeeper.connect`."""
    return ",".join(node.address for node in nodes)


def mode(node: Node) -> str:
    """standalone, leader or follower; empty while it does not serve."""
    try:
        with socket.create_connection((node.host, node.port), ANSWER_S) as connection:
            connection.sendall(b"srvr")
            answer = connection.makefile("rb").read().decode("utf-8", "replace")
    except OSError:
        return ""
    found = [line for line in answer.splitlines() if line.startswith("Mode: ")]
    return found[0].removeprefix("Mode: ").strip() if found else ""
