"""The console on 1,000 topics with 10,000 partitions and 200 groups (`script/bench console`).

Half of the groups have the offsets of pipelines.

Prints the start time and memory of the process, the server time of each page at the 50th and 95th
percentile while the background snapshot is refreshed, and the speed of a text search that reads a
whole topic and finds nothing.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from http.client import HTTPConnection
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.pipeline.core.group_metadata import progress_metadata
from headrace.testing import Broker

PAGES: Final = (
    "/",
    "/topics",
    "/topics?sort=rate&order=desc&size=250",
    "/topics?q=team-7",
    "/topics/team-7.events.0007",
    "/topics/team-7.events.0007?tab=settings",
    "/topics/big/messages/0/1000",
    "/groups?sort=lag&order=desc&size=250",
    "/groups/group-7",
    "/share-groups",
    "/transactions?size=250",
    "/brokers",
    "/brokers/1?tab=settings",
    "/reassignments",
    "/dead-letters",
    "/pipelines?size=250",
    "/quotas",
)
BATCH: Final = 100
PAUSE_S: Final = 0.03
TIMEOUT_S: Final = 120


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topics", type=int, default=1000)
    parser.add_argument("--groups", type=int, default=200)
    parser.add_argument("--megabytes", type=int, default=500, help="size of the searched topic")
    parser.add_argument("--seconds", type=float, default=8.0, help="time for each page")
    options = parser.parse_args(arguments)
    with Broker() as broker:
        fill(broker.bootstrap_servers, options.topics, options.groups, options.megabytes)
        began_s = time.perf_counter()
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "headrace", "console", "--listen", "127.0.0.1:0"),
                *("-b", broker.bootstrap_servers),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stdout is not None
            address = process.stdout.readline().split()[-1]
            print(f"start {time.perf_counter() - began_s:.2f} s, {memory_mb(process.pid):.0f} MB")
            for path in PAGES:
                first_ms, times_ms = measure(address, path, options.seconds)
                middle, late = times_ms[len(times_ms) // 2], times_ms[int(len(times_ms) * 0.95)]
                print(
                    f"{path}: first view {first_ms:.1f} ms, p50 {middle:.1f} ms, p95 {late:.1f} ms "
                    f"({len(times_ms)} requests)"
                )
            for case in ("", "&any_case=1"):
                print(f"search{case}: {search(address, case)}")
            print(f"in use {memory_mb(process.pid):.0f} MB")
        finally:
            process.terminate()
            process.communicate()


def fill(servers: str, topics: int, groups: int, megabytes: int) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    names = [f"team-{number % 40}.events.{number:04}" for number in range(topics)]
    for begin in range(0, topics, BATCH):
        new = [NewTopic(name, 10, 1) for name in names[begin : begin + BATCH]]
        for future in admin.create_topics(new, request_timeout=TIMEOUT_S).values():
            future.result()
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 50, "batch.size": 1_000_000})
    value = json.dumps({"id": 1, "text": "lorem ipsum dolor sit amet " * 36}).encode()
    for _ in range(megabytes * 1_000_000 // len(value)):
        while True:
            try:
                producer.produce("big", value, partition=0)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()
    for group in range(groups):
        consumer = Consumer({"bootstrap.servers": servers, "group.id": f"group-{group}"})
        topic, mark = names[group % topics], progress_metadata(group, "1") if group % 2 else ""
        offsets = [TopicPartition(topic, index, 0, mark) for index in range(10)]
        consumer.commit(offsets=offsets, asynchronous=False)
        consumer.close()


def measure(address: str, path: str, seconds: float) -> tuple[float, list[float]]:
    """The server times of one page in milliseconds: of the first view, and the others sorted."""
    parts = urlsplit(address)
    connection = HTTPConnection(parts.hostname or "", parts.port, timeout=TIMEOUT_S)
    began_s = time.perf_counter()
    connection.request("GET", path)
    first = connection.getresponse()
    first.read()
    first_ms = (time.perf_counter() - began_s) * 1000
    assert first.status == 200, f"{path}: {first.status}"
    cookie = (first.getheader("Set-Cookie") or "").split(";")[0]
    times_ms = []
    end_s = time.perf_counter() + seconds
    while time.perf_counter() < end_s:
        began_s = time.perf_counter()
        connection.request("GET", path, headers={"Cookie": cookie})
        connection.getresponse().read()
        times_ms.append((time.perf_counter() - began_s) * 1000)
        time.sleep(PAUSE_S)
    connection.close()
    return first_ms, sorted(times_ms)


def search(address: str, options: str) -> str:
    """The last progress of a search for text that does not exist."""
    parts = urlsplit(address)
    connection = HTTPConnection(parts.hostname or "", parts.port, timeout=TIMEOUT_S)
    path = f"/topics/big/messages/stream?from=oldest&text=nowhere-to-be-found{options}"
    connection.request("GET", path)
    text = connection.getresponse().read().decode()
    connection.close()
    progress = [json.loads(line[6:]) for line in text.splitlines() if '"rate"' in line]
    last = progress[-1]
    return f"{last['bytes']} in {last['seconds']} s, {last['rate']}"


def memory_mb(pid: int) -> float:
    """Resident memory."""
    fields = Path(f"/proc/{pid}/statm").read_text().split()
    return int(fields[1]) * 4096 / 1e6


if __name__ == "__main__":
    main()
