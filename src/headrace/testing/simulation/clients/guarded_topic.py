"""A topic whose ACLs change while brokers fail, and clients that use it with and without the right.

A request that a client sends while no running broker has the right in its metadata must not be
served, unless a broker gets the right back before the response. A paused or cut-off broker may have
old metadata: while it runs, the right is not gone.

All clients are ANONYMOUS. They may use everything that has no ACL, and this topic always has one.
"""

import asyncio
from collections.abc import Iterable
from random import Random
from typing import Final

from headrace.client.admin.acls import create_acls, delete_acls
from headrace.client.client import ClusterClient
from headrace.client.errors import ClientError, code_of_number
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.fetch import FetchPartitionData
from headrace.protocol.messages.produce import PartitionProduceResponse
from headrace.security.authorization.acl import (
    Acl,
    AclOperation,
    AclPermission,
    AclResourceType,
    ResourcePattern,
)
from headrace.security.principal import ANONYMOUS
from headrace.testing.simulation.brokers import BrokerProcess
from headrace.testing.simulation.checks.history import History, Place, Violation
from headrace.testing.simulation.clients.workload import Acknowledged, Producer, Reader

GUARDED: Final = "guarded"
SETTINGS: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
MEAN_PAUSE_S: Final = 0.3
MEAN_TIME_BETWEEN_CHANGES_S: Final = 2.0
API_TIMEOUT_S: Final = 10.0
RETRY_S: Final = 0.5

NO_RIGHT_NO_SERVICE: Final = "no request is served once every broker knows that its right is gone"

_TOPIC: Final = ResourcePattern(AclResourceType.TOPIC, GUARDED)
OF_ANOTHER_USER: Final = Acl(_TOPIC, "User:bob", "*", AclOperation.READ, AclPermission.ALLOW)
RIGHT: Final = Acl(_TOPIC, str(ANONYMOUS), "*", AclOperation.ALL, AclPermission.ALLOW)


class RightWatch:
    """Knows at each moment whether any running broker has the right in its metadata."""

    def __init__(self, brokers: Iterable[BrokerProcess]) -> None:
        self._brokers = list(brokers)
        self._is_gone = False
        self._changes = 0
        self.denied = 0
        self.served = 0

    def update(self) -> None:
        """Called whenever a broker has run."""
        is_gone = all(not _may_have_right(broker) for broker in self._brokers)
        if is_gone is not self._is_gone:
            self._is_gone = is_gone
            self._changes += 1

    def stamp(self) -> int | None:
        """For `answered`: identifies the period without the right; None while there is one."""
        self.update()
        return self._changes if self._is_gone else None

    def answered(self, stamp: int | None, code: ErrorCode, what: str) -> None:
        """Checks the response to a request that was sent at `stamp`."""
        if code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            self.denied += 1
        elif code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            self.served += 1
            if stamp is not None and stamp == self.stamp():
                raise Violation(NO_RIGHT_NO_SERVICE, what)


def _may_have_right(broker: BrokerProcess) -> bool:
    """A broker that is still starting may serve requests already."""
    if not broker.process.running:
        return False
    return broker.node is None or RIGHT in broker.node.metadata.image.acls


class GuardedProducer(Producer):
    """Writes to one partition whenever it may."""

    def __init__(
        self,
        client: ClusterClient,
        history: History,
        place: Place,
        watch: RightWatch,
        chance: Random,
        acknowledged: Acknowledged,
    ) -> None:
        super().__init__(
            client,
            history,
            place,
            str(place),
            mean_pause_s=MEAN_PAUSE_S,
            chance=chance,
            acknowledged=acknowledged,
        )
        self._watch = watch

    async def _send(self, batch: bytes) -> PartitionProduceResponse:
        stamp = self._watch.stamp()
        answer = await super()._send(batch)
        code = code_of_number(answer.error_code)
        self._watch.answered(stamp, code, f"Produce to {self._place} was answered with {code.name}")
        return answer


class GuardedReader(Reader):
    """Reads one partition whenever it may."""

    def __init__(
        self,
        client: ClusterClient,
        history: History | None,
        place: Place,
        watch: RightWatch,
        chance: Random,
    ) -> None:
        super().__init__(client, history, place, chance)
        self._watch = watch

    async def _fetch(self, max_wait_ms: int) -> FetchPartitionData:
        stamp = self._watch.stamp()
        answer = await super()._fetch(max_wait_ms)
        code = code_of_number(answer.error_code)
        self._watch.answered(stamp, code, f"a Fetch of {self._place} was served")
        return answer


class RightsAdministrator:
    """Gives the right to everyone and takes it away, again and again."""

    def __init__(self, client: ClusterClient, chance: Random) -> None:
        self._client = client
        self._random = chance
        self._is_given = True
        self.stopping = False

    async def run(self) -> None:
        while not self.stopping:
            await asyncio.sleep(self._random.expovariate(1 / MEAN_TIME_BETWEEN_CHANGES_S))
            try:
                if self._is_given:
                    await delete_acls(self._client, [RIGHT], timeout_s=API_TIMEOUT_S)
                else:
                    await create_acls(self._client, [RIGHT], timeout_s=API_TIMEOUT_S)
            except ClientError:
                continue  # the outcome is unknown; the same change again does no harm
            self._is_given = not self._is_given


async def give_right(client: ClusterClient) -> None:
    """Gives the right, and protects the topic with an ACL that stays."""
    while True:
        try:
            outcomes = await create_acls(client, [OF_ANOTHER_USER, RIGHT], timeout_s=API_TIMEOUT_S)
        except ClientError:
            await asyncio.sleep(RETRY_S)
            continue
        assert not any(outcomes.values()), outcomes
        return
