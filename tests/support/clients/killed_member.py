"""A librdkafka consumer in its own process: it owns partitions and is then killed."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_SCRIPT = """
import json
import sys
import time
from confluent_kafka import Consumer

config, topic = json.loads(sys.argv[1]), sys.argv[2]
consumer = Consumer(config)
consumer.subscribe([topic])
give_up = time.monotonic() + 60
while not consumer.assignment() and time.monotonic() < give_up:
    consumer.poll(0.05)
if consumer.assignment():
    print("assigned", flush=True)
while time.monotonic() < give_up:
    consumer.poll(1.0)
"""


@contextmanager
def member_to_kill(bootstrap: str, group: str, topic: str, **config: object) -> Iterator[None]:
    """A member that owns partitions of the topic. At the end it is killed, without LeaveGroup."""
    everything = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        **config,
    }
    with subprocess.Popen(
        [sys.executable, "-c", _SCRIPT, json.dumps(everything), topic],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"assigned\n"
            yield
        finally:
            process.send_signal(signal.SIGKILL)
