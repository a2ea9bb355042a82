"""Changes by an operator while the cluster runs: reassignments, elections, topics created and
deleted."""

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Final

from headrace.client.admin.elections import ElectionType, elect_leaders
from headrace.client.admin.reassignments import alter_reassignments
from headrace.client.admin.topics import NewTopic, create_topics, delete_topics
from headrace.client.client import ClusterClient
from headrace.client.errors import ClientError
from headrace.client.results import TopicPartition
from headrace.testing.simulation.checks.history import Place

MEAN_PAUSE_S: Final = 4.0
API_TIMEOUT_S: Final = 10.0
REPLICAS: Final = 3
SCRATCH: Final = "scratch"


class Administrator:
    """Its requests may be refused or fail; the cluster must tolerate them."""

    def __init__(
        self,
        client: ClusterClient,
        places: Sequence[Place],
        brokers: Sequence[int],
        chance: Random,
    ) -> None:
        self._client = client
        self._places = places
        self._brokers = brokers
        self._random = chance
        self._scratch = 0
        self.done = 0
        self.stopping = False

    async def run(self) -> None:
        while not self.stopping:
            await asyncio.sleep(self._random.expovariate(1 / MEAN_PAUSE_S))
            deed = self._random.choice([self._move, self._move, self._elect, self._topic])
            try:
                await deed()
                self.done += 1
            except ClientError:
                continue

    async def _move(self) -> None:
        place = self._random.choice(self._places)
        target = self._random.sample(list(self._brokers), REPLICAS)
        wanted = None if self._random.random() < 0.2 else target
        await alter_reassignments(
            self._client, {TopicPartition(*place): wanted}, timeout_s=API_TIMEOUT_S
        )

    async def _elect(self) -> None:
        await elect_leaders(self._client, ElectionType.PREFERRED, None, timeout_s=API_TIMEOUT_S)

    async def _topic(self) -> None:
        name = f"{SCRATCH}-{self._scratch}"
        if self._random.random() < 0.5:
            await delete_topics(self._client, [name], timeout_s=API_TIMEOUT_S)
            self._scratch += 1
        else:
            await create_topics(self._client, [NewTopic(name, 2, 3)], timeout_s=API_TIMEOUT_S)
