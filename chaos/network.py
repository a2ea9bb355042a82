"""The run's own network: every process is in a namespace, routed through this one.

It is created inside the private namespace in which `isolate` starts the run, so nothing of it
remains. A cut link drops packets silently, separately in each direction, like an unplugged cable. A
link can also be slow, and its connections can be reset.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

INSIDE = "HEADRACE_CHAOS_INSIDE"
SUBNET = "10.73"
UNSHARE = ("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
AS_ROOT = ("--user", "--map-root-user")
SLOW = ("rate", "3mbit", "burst", "16kb", "latency", "300ms")


class NoNamespaces(Exception):
    """This system does not allow network namespaces."""


@dataclass(frozen=True, slots=True)
class Host:
    """A namespace; `before` in front of a command runs it there."""

    name: str
    address: str
    link: str
    before: tuple[str, ...]


def isolate(arguments: Sequence[str]) -> None:
    """Restarts this program in its own namespaces; returns when it is inside them.

    The kernel ends processes that remain when the program ends.
    """
    if os.environ.get(INSIDE):
        return
    prefix = [*UNSHARE] if os.geteuid() == 0 else [*UNSHARE, *AS_ROOT]
    probe = subprocess.run(
        [*prefix, "ip", "link", "set", "lo", "up"], capture_output=True, text=True, check=False
    )
    if probe.returncode:
        raise NoNamespaces(probe.stderr.strip() or "unshare failed")
    command = [*prefix, sys.executable, "-m", "chaos", *arguments]
    os.execvpe(command[0], command, os.environ | {INSIDE: "1"})


class Network:
    def __init__(self) -> None:
        self._holders: list[subprocess.Popen[bytes]] = []
        self._cuts: list[tuple[Host, Host]] = []
        self._slow: list[Host] = []
        _ip("link", "set", "lo", "up")
        Path("/proc/sys/net/ipv4/ip_forward").write_text("1\n")

    def attach(self, name: str) -> Host:
        """A new namespace with a link to this one."""
        number = len(self._holders) + 1
        holder = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", "echo; exec sleep infinity"], stdout=subprocess.PIPE
        )
        self._holders.append(holder)
        assert holder.stdout is not None
        holder.stdout.readline()  # the namespace exists once the process prints a line
        link, address = f"chaos{number}", f"{SUBNET}.{number}.2"
        before = ("nsenter", f"--net=/proc/{holder.pid}/ns/net")
        _ip("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", str(holder.pid))
        _ip("addr", "add", f"{SUBNET}.{number}.1/24", "dev", link)
        _ip("link", "set", link, "up")
        _ip("link", "set", "lo", "up", before=before)
        _ip("addr", "add", f"{address}/24", "dev", "eth0", before=before)
        _ip("link", "set", "eth0", "up", before=before)
        _ip("route", "add", "default", "via", f"{SUBNET}.{number}.1", before=before)
        return Host(name, address, link, before)

    def cut(self, source: Host, target: Host) -> None:
        """Drops everything from source to target."""
        self._cuts.append((source, target))
        _ip("rule", "add", "iif", source.link, "to", target.address, "blackhole")

    def slow(self, host: Host) -> None:
        """Limits traffic to and from the host; packets that wait too long are dropped."""
        self._slow.append(host)
        _run("tc", "qdisc", "add", "dev", host.link, "root", "tbf", *SLOW)
        _run(*host.before, "tc", "qdisc", "add", "dev", "eth0", "root", "tbf", *SLOW)

    def break_connections(self, host: Host) -> None:
        """Ends every connection of the host at once, with an error on its side."""
        _run(*host.before, "ss", "--kill", "--tcp", "state", "established")

    def heal(self) -> None:
        self.mend_cuts()
        while self._slow:
            host = self._slow.pop()
            _run("tc", "qdisc", "del", "dev", host.link, "root")
            _run(*host.before, "tc", "qdisc", "del", "dev", "eth0", "root")

    def mend_cuts(self) -> None:
        while self._cuts:
            source, target = self._cuts.pop()
            _ip("rule", "del", "iif", source.link, "to", target.address, "blackhole")

    def close(self) -> None:
        self.heal()
        for number, holder in enumerate(self._holders, start=1):
            _ip("link", "del", f"chaos{number}")
            holder.kill()
            holder.wait()
        self._holders.clear()


def _ip(*words: str, before: Sequence[str] = ()) -> None:
    _run(*before, "ip", *words)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoNamespaces(f"{' '.join(command)}: {done.stderr.strip()}")
