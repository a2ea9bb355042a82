"""One run: a cluster, its clients, faults for a while, and the verdict."""

import itertools
import json
import os
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench import topics

from chaos import faults, final
from chaos.checker import MAX_EXAMPLES, Verdict, check
from chaos.clients import PARTITIONS, TOPIC, Client, all_clients, now
from chaos.history import Fault, History
from chaos.rig import Rig, await_whole, build
from chaos.rights import GUARDED, Rights
from chaos.secured_cluster import SecuredCluster

START_S, CALM_S, END_S, WHOLE_S = 60.0, 3.0, 90.0, 180.0
STEP_S = 0.1
LIBRARY_STDERR = 2


@dataclass(frozen=True, slots=True)
class Report:
    """The published part of a run."""

    peer: str
    seed: int
    seconds: float
    verdict: Verdict
    history: History
    clients: Sequence[Client]
    fallen: Sequence[str]
    logs: dict[str, str]
    rights: Rights | None = None

    def summary(self) -> dict[str, object]:
        sends = self.history.sends
        outcomes = Counter(each.outcome for each in self.history.transactions)
        return {
            "peer": self.peer,
            "seed": self.seed,
            "seconds": round(self.seconds, 1),
            "passed": self.verdict.passed,
            "invalid": self.verdict.invalid,
            "bad": {name: len(found) for name, found in self.verdict.bad.items()},
            "normal": self.verdict.normal,
            "operations": len(sends)
            + len(self.history.transactions)
            + len(self.history.polls)
            + len(self.history.looks),
            "acks": sum(send.outcome == "ok" for send in sends),
            "unknown": sum(send.outcome != "ok" for send in sends),
            "transactions": dict(outcomes),
            "polled": sum(len(poll.records) for poll in self.history.polls),
            "final": sum(map(len, self.history.final.values())),
            "faults": dict(Counter(fault.kind for fault in self.history.faults)),
            "longest_without_acks_s": round(longest_silence_s(self.history), 2),
            "fallen": list(self.fallen),
            "rights": self._rights(),
            "errors": {client.name: client.errors for client in self.clients if client.errors},
        }

    def _rights(self) -> dict[str, int]:
        if self.rights is None:
            return {}
        return {
            "allowed": self.rights.allowed,
            "denied": self.rights.denied,
            "certificates": self.rights.certificates,
        }

    def save(self, folder: Path) -> None:
        """Writes the summary and, for a run that did not pass, all details."""
        folder.mkdir(parents=True, exist_ok=True)
        name = f"{self.peer}-{self.seed}"
        (folder / f"{name}.json").write_text(json.dumps(self.summary(), indent=1) + "\n")
        if not self.verdict.passed:
            examples = {kind: found[:MAX_EXAMPLES] for kind, found in self.verdict.bad.items()}
            told = {"bad": examples, "fallen": list(self.fallen), "history": self.history.as_json()}
            for node, text in self.logs.items():
                (folder / f"{name}-{node}.log").write_text(text)
            (folder / f"{name}-history.json").write_text(json.dumps(told) + "\n")


def longest_silence_s(history: History) -> float:
    """The longest time between two acknowledgements to any client."""
    times = sorted(send.completed for send in history.sends if send.outcome == "ok")
    return max((after - before for before, after in itertools.pairwise(times)), default=0)


def run(
    peer: str,
    seed: int,
    seconds: float,
    home: Path,
    *,
    isolated: bool,
    keep: Path,
    only: Sequence[str] | None = None,
) -> Report:
    """Copies of the brokers' logs are kept if the run did not pass."""
    rig = build(peer, home, isolated=isolated)
    try:
        with _heard(home / "clients.log") as said:
            report = _run(rig, peer, seed, seconds, only)
        report.logs["clients"] = said.read_text(errors="replace")
        if not report.verdict.passed:
            for broker in rig.cluster.brokers:
                for folder in broker.data.glob(f"{TOPIC}-*"):
                    shutil.copytree(folder, keep / str(broker) / folder.name, dirs_exist_ok=True)
        return report
    finally:
        rig.close()


@contextmanager
def _heard(file: Path) -> Iterator[Path]:
    """Redirects librdkafka's standard error to the file, with the times of both clocks.

    Python's own messages still go to the original standard error. Messages that abandoned producers
    write after the run are discarded.
    """
    if sys.stderr.fileno() == LIBRARY_STDERR:
        sys.stderr = os.fdopen(os.dup(LIBRARY_STDERR), "w", buffering=1)
    with file.open("wb", buffering=0) as log:
        log.write(f"at {time.time():.3f} the history's clock says {now():.3f}\n".encode())
        os.dup2(log.fileno(), LIBRARY_STDERR)
    try:
        yield file
    finally:
        with Path(os.devnull).open("wb") as nowhere:
            os.dup2(nowhere.fileno(), LIBRARY_STDERR)


def _run(rig: Rig, peer: str, seed: int, seconds: float, only: Sequence[str] | None) -> Report:
    history = History()
    rig.cluster.start()
    topics.create(rig.cluster, {TOPIC: PARTITIONS}, replicas=3)
    rights: Rights | None = None
    if isinstance(rig.cluster, SecuredCluster):
        topics.create(rig.cluster, {GUARDED: 1}, replicas=3)
        rights = Rights(rig.cluster)
        rights.allow_clients()
        cluster = rig.cluster
        clients = all_clients(cluster.client_bootstrap, history, seed, cluster.client_settings)
    else:
        clients = all_clients(rig.cluster.bootstrap, history, seed)
    began = now()
    for client in clients:
        client.start()
    try:
        _await_progress(clients)
        possible = faults.kinds(
            network=rig.network is not None,
            zookeeper=bool(rig.cluster.zookeepers),
            mounts=rig.network is not None,
        )
        wanted = [kind for kind in possible if kind in (only or possible)]
        if rights is not None:
            rights.start()
        for planned in faults.plan(seed, seconds, wanted, PARTITIONS):
            history.faults.append(_suffer(rig, planned))
        time.sleep(CALM_S)
    finally:
        if rights is not None and rights.is_alive():
            rights.end()
        for client in clients:
            client.end()
    for client in clients:
        client.join(END_S)
    ended = now()
    trouble = await_whole(rig, WHOLE_S)
    history.final, history.complete = final.read_all(rig.cluster.bootstrap)
    differences = final.differing(rig.cluster) if not trouble else []
    verdict = check(history, replicas_differ=differences)
    verdict.invalid = verdict.invalid or _shortcomings(clients, history, trouble)
    if rights is not None:
        if rights.served:
            verdict.bad["served-without-right"] = rights.served
        if not (rights.allowed and rights.denied and rights.certificates):
            verdict.invalid = verdict.invalid or "rights or certificates were never changed"
    logs = {str(node): node.log.read_text(errors="replace") for node in rig.cluster.nodes}
    return Report(peer, seed, ended - began, verdict, history, clients, rig.fallen, logs, rights)


def _shortcomings(clients: Sequence[Client], history: History, trouble: str) -> str:
    """What makes the run inconclusive, beyond the history itself."""
    for client in clients:
        if client.crash or client.is_alive():
            return client.crash or f"{client.name} did not end"
    if trouble:
        return f"the cluster did not heal: {trouble}"
    return "" if history.complete else "the final polls did not come to the end of the log"


def _suffer(rig: Rig, planned: faults.Planned) -> Fault:
    time.sleep(planned.peace_s)
    began = now()
    target = rig.begin(planned)
    try:
        time.sleep(planned.lasts_s)
    finally:
        rig.heal()
    return Fault(planned.kind, target, began, now())


def _await_progress(clients: Sequence[Client]) -> None:
    """Faults begin when every client works; one that cannot start appears in the verdict."""
    deadline = now() + START_S
    while now() < deadline and not all(client.progress for client in clients):
        time.sleep(STEP_S)
