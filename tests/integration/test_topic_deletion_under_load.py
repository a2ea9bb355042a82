"""Topics are created and deleted while clients use them: clients get errors and continue."""

import random
import threading
import time
from collections.abc import Callable

from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from headrace.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from headrace.protocol.messages.fetch import FetchResponse
from support.brokers.processes import Spawn
from support.wire.batches import batch, fetch_request, produce
from support.wire.connection import Wire
from support.wire.topics import create_topic

SECONDS = 3.0
NAMES = [f"churn-{number}" for number in range(6)]
EXPECTED = {
    ErrorCode.NONE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.TOPIC_ALREADY_EXISTS,
    ErrorCode.OFFSET_OUT_OF_RANGE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
}


class Worker(threading.Thread):
    """Repeats one action on its own connection and records the errors."""

    def __init__(self, bootstrap: str, action: Callable[[Wire, str], int], seed: int) -> None:
        super().__init__(daemon=True)
        self.stopping = threading.Event()
        self.codes: set[ErrorCode] = set()
        self.rounds = 0
        self.failure: BaseException | None = None
        self._server = bootstrap
        self._action = action
        self._random = random.Random(seed)

    def run(self) -> None:
        try:
            with Wire(self._server) as wire:
                while not self.stopping.is_set():
                    name = self._random.choice(NAMES)
                    self.codes.add(ErrorCode(self._action(wire, name)))
                    self.rounds += 1
        except BaseException as error:
            self.failure = error


def _create(wire: Wire, name: str) -> int:
    topic = CreatableTopic(name=name, num_partitions=3, replication_factor=1)
    request = CreateTopicsRequest(topics=[topic], timeout_ms=5000)
    return wire.call(request, CreateTopicsResponse).topics[0].error_code


def _delete(wire: Wire, name: str) -> int:
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=5000)
    return wire.call(request, DeleteTopicsResponse).responses[0].error_code


def _produce(wire: Wire, name: str) -> int:
    return produce(wire, name, batch(b"x" * 200), partition=2).error_code


def _fetch(wire: Wire, name: str) -> int:
    request = fetch_request(name, partition=2, max_wait_ms=20, min_bytes=1000)
    answer = wire.call(request, FetchResponse, 12)
    return answer.responses[0].partitions[0].error_code


def test_creating_and_deleting_topics_does_not_disturb_other_clients(spawn: Spawn) -> None:
    broker = spawn()
    actions = [_create, _create, _delete, _produce, _produce, _fetch, _fetch, _fetch]
    with Wire(broker.bootstrap_servers) as steady:
        create_topic(steady, "steady")
        workers = [
            Worker(broker.bootstrap_servers, action, seed) for seed, action in enumerate(actions)
        ]
        for worker in workers:
            worker.start()
        deadline = time.monotonic() + SECONDS
        count = 0
        while time.monotonic() < deadline:
            assert produce(steady, "steady", batch(b"a")).base_offset == count
            count += 1
        for worker in workers:
            worker.stopping.set()
        for worker in workers:
            worker.join(20)
            assert worker.failure is None, worker.failure
            assert worker.rounds > 5
            assert worker.codes <= EXPECTED
    assert broker.stop() == 0
    assert "Traceback" not in broker.log_text(), broker.log_text()[-4000:]
