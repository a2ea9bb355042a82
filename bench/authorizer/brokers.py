"""The brokers that are compared. Their clients are anonymous on a plain listener, so that only the
authorizer, the quotas or the code differ."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from random import SystemRandom
from typing import Final

from bench.authorizer.acls import acls, rule
from bench.load_generator import LoadGenerator
from bench.peers.headrace import PROGRAM, Headrace
from bench.peers.peer import PeerError
from headrace.client.admin.acls import create_acls
from headrace.client.admin.quotas import alter_quota
from headrace.client.client import ClusterClient
from headrace.clock import SystemClock
from headrace.security.authorization.acl import Acl, AclOperation, AclResourceType
from headrace.security.principal import ANONYMOUS
from headrace.security.quotas.client_quota import QuotaEntity

AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
TIMEOUT_S: Final = 60.0
UNREACHED_BYTES_PER_S: Final = 1e12
UNREACHED_PERCENT: Final = 1e6

Administer = Callable[[ClusterClient], Awaitable[None]]


class WithAuthorizer(Headrace):
    """A broker with many ACLs. Its clients are no super users: prefixed ACLs allow them the topics
    and groups whose names begin with one of `names`."""

    name = "authorizer"

    def __init__(
        self, home: Path, load: LoadGenerator, *, acl_count: int, names: Sequence[str]
    ) -> None:
        super().__init__(home, load)
        self._acls = [*_allowing(names), *acls(acl_count)][:acl_count]
        self.settings["authorizer.class.name"] = AUTHORIZER

    def start(self) -> float:
        self.settings["super.users"] = str(ANONYMOUS)
        super().start()
        administer(self, self._create_acls)
        self.stop()
        del self.settings["super.users"]
        return super().start()

    async def _create_acls(self, client: ClusterClient) -> None:
        outcomes = await create_acls(client, self._acls, timeout_s=TIMEOUT_S)
        refused = next(filter(None, outcomes.values()), None)
        if refused is not None:
            raise PeerError(f"the broker refused an ACL: {refused}")


class WithQuotas(Headrace):
    """A broker that measures all clients against quotas that they do not reach."""

    name = "quotas"

    def start(self) -> float:
        started_ms = super().start()
        administer(self, self._set_quotas)
        return started_ms

    async def _set_quotas(self, client: ClusterClient) -> None:
        limits = {
            "producer_byte_rate": UNREACHED_BYTES_PER_S,
            "consumer_byte_rate": UNREACHED_BYTES_PER_S,
            "request_percentage": UNREACHED_PERCENT,
        }
        everyone = QuotaEntity((("user", None),))
        refused = await alter_quota(client, everyone, limits, timeout_s=TIMEOUT_S)
        if refused is not None:
            raise PeerError(f"the broker refused a quota: {refused}")


class OtherCheckout(Headrace):
    """The broker of another checkout, without an authorizer."""

    name = "baseline"

    def __init__(self, home: Path, load: LoadGenerator, checkout: Path) -> None:
        super().__init__(home, load)
        self._program = checkout.resolve() / ".venv" / "bin" / PROGRAM.name

    def command(self) -> list[str]:
        return [str(self._program), *super().command()[1:]]


def administer(broker: Headrace, work: Administer) -> None:
    """Runs `work` with a client of the broker."""

    async def main() -> None:
        async with ClusterClient(
            broker.bootstrap, client_id="bench", clock=SystemClock(), random=SystemRandom()
        ) as client:
            await work(client)

    asyncio.run(main())


def _allowing(names: Sequence[str]) -> list[Acl]:
    return [
        rule(name, str(ANONYMOUS), AclOperation.ALL, type_=type_, prefix=True)
        for name in names
        for type_ in (AclResourceType.TOPIC, AclResourceType.GROUP)
    ]
