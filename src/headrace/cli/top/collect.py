"""Takes a sample of a cluster: through Kafka's protocol, and from reachable metrics of brokers.

A part that does not answer in time is left out: a broker that hangs must not empty the screen.
"""

import asyncio
import time
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from typing import Final, TypeVar

from headrace.cli.cluster.status import Overview, take_overview
from headrace.cli.top.http_login import HttpLogin
from headrace.cli.top.sample import GroupSample, Sample
from headrace.cli.top.scrape import (
    GROUPS,
    SHARES,
    Scrape,
    ScrapeRefused,
    fetch_scrape,
    metrics_address,
)
from headrace.client.admin.configs import Resource, ResourceKind, describe_configs
from headrace.client.admin.groups import SHARE, ListedGroup, list_groups
from headrace.client.admin.log_dirs import describe_log_dirs
from headrace.client.admin.offsets import committed_offsets, replica_ends
from headrace.client.admin.shares import share_offsets
from headrace.client.client import ClusterClient
from headrace.client.errors import ClientError
from headrace.client.results import Refusal, TopicPartition

T = TypeVar("T")

LISTENER: Final = "headrace.http.listener"
ANSWER_S: Final = 3.0
MAX_AT_ONCE: Final = 16


class Collector:
    """Takes samples with one client; finds the brokers' HTTP ports once."""

    def __init__(
        self,
        client: ClusterClient,
        *,
        timeout_s: float,
        use_metrics: bool,
        login: HttpLogin,
    ) -> None:
        self._client = client
        self._timeout_s = timeout_s
        self._short_s = min(timeout_s, ANSWER_S)
        self._use_metrics = use_metrics
        self._login = login
        self._addresses: dict[int, str | None] = {}

    async def take(self) -> Sample:
        """Raises `ClientError` if no broker answers."""
        overview = await take_overview(self._client, timeout_s=self._timeout_s)
        led: dict[int, list[TopicPartition]] = {}
        for each, info in overview.partitions():
            if info.leader >= 0:
                led.setdefault(info.leader, []).append(each)
        answers, ends = await asyncio.gather(self._scrapes(overview), self._ends(led))
        scrapes = {id_: each for id_, each in answers.items() if isinstance(each, Scrape)}
        refused = {
            id_: each.reason for id_, each in answers.items() if isinstance(each, ScrapeRefused)
        }
        unmeasured = {id_: of for id_, of in led.items() if id_ not in scrapes}
        sizes, groups = await asyncio.gather(
            self._sizes(unmeasured), self._groups(overview, scrapes, ends)
        )
        return Sample(time.monotonic(), overview, ends, sizes, groups, scrapes, refused)

    # --- metrics --------------------------------------------------------------------------------

    async def _scrapes(self, overview: Overview) -> dict[int, Scrape | ScrapeRefused]:
        if not self._use_metrics:
            return {}
        live = [broker.id for broker in overview.cluster.live]
        unknown = [id_ for id_ in live if id_ not in self._addresses]
        if unknown:
            await self._find_addresses(overview, unknown)
        wanted = {id_: address for id_ in live if (address := self._addresses.get(id_))}
        found = await asyncio.gather(
            *(
                fetch_scrape(address, self._login, timeout_s=self._short_s)
                for address in wanted.values()
            )
        )
        scraped = zip(wanted, found, strict=True)
        return {id_: scrape for id_, scrape in scraped if scrape is not None}

    async def _find_addresses(self, overview: Overview, ids: Sequence[int]) -> None:
        hosts = {broker.id: broker.host for broker in overview.cluster.brokers}
        found = await asyncio.gather(*map(self._listener_of, ids))
        for id_, listener in zip(ids, found, strict=True):
            if listener is not None:  # else the broker did not answer, and is asked again
                self._addresses[id_] = metrics_address(listener, hosts[id_])

    async def _listener_of(self, broker: int) -> str | None:
        """The broker's HTTP listener, empty if it has none; None if the broker does not answer."""
        resource = Resource(ResourceKind.BROKER, str(broker))
        answers = await self._or_none(
            describe_configs(self._client, [resource], timeout_s=self._short_s, names=[LISTENER])
        )
        if answers is None:
            return None
        entries = answers.get(resource)
        if entries is None or isinstance(entries, Refusal):
            return ""
        return next((each.value for each in entries if each.name == LISTENER), None) or ""

    # --- partitions -----------------------------------------------------------------------------

    async def _ends(self, led: Mapping[int, Sequence[TopicPartition]]) -> dict[TopicPartition, int]:
        answers = await asyncio.gather(
            *(
                self._or_none(replica_ends(self._client, id_, each, timeout_s=self._short_s))
                for id_, each in led.items()
            )
        )
        return {each: end for answer in answers if answer for each, end in answer.items()}

    async def _sizes(
        self, led: Mapping[int, Sequence[TopicPartition]]
    ) -> dict[TopicPartition, int]:
        answers = await asyncio.gather(
            *(
                self._or_none(
                    describe_log_dirs(
                        self._client, [id_], each, timeout_s=self._short_s, retry=False
                    )
                )
                for id_, each in led.items()
            )
        )
        return {
            each: replica.bytes
            for answer in answers
            for directories in (answer or {}).values()
            for directory in directories
            for each, replica in directory.replicas.items()
            if not replica.is_future
        }

    # --- groups ---------------------------------------------------------------------------------

    async def _groups(
        self,
        overview: Overview,
        scrapes: Mapping[int, Scrape],
        ends: Mapping[TopicPartition, int],
    ) -> dict[str, GroupSample]:
        listing = await self._or_none(list_groups(self._client, timeout_s=self._short_s))
        listed = listing.items if listing is not None else ()
        live = {broker.id for broker in overview.cluster.live}
        if live <= scrapes.keys():
            return groups_from_metrics(listed, scrapes.values())
        slots = asyncio.Semaphore(MAX_AT_ONCE)

        async def sample(group: ListedGroup) -> GroupSample:
            async with slots:
                return await self._group(group, ends)

        found = await asyncio.gather(*map(sample, listed))
        return dict(zip((group.group_id for group in listed), found, strict=True))

    async def _group(self, group: ListedGroup, ends: Mapping[TopicPartition, int]) -> GroupSample:
        if group.kind == SHARE:
            shares = await self._or_none(
                share_offsets(self._client, group.group_id, timeout_s=self._short_s)
            )
            if shares is None:
                return GroupSample(group.kind, group.state, None, None)
            positions = {each: position.start_offset for each, position in shares.items()}
        else:
            committed = await self._or_none(
                committed_offsets(self._client, group.group_id, timeout_s=self._short_s)
            )
            if committed is None:
                return GroupSample(group.kind, group.state, None, None)
            positions = {each: offset.offset for each, offset in committed.items()}
        lag = sum(max(0, ends[each] - at) for each, at in positions.items() if each in ends)
        return GroupSample(group.kind, group.state, lag, sum(positions.values()))

    async def _or_none(self, answer: Awaitable[T]) -> T | None:
        try:
            return await answer
        except ClientError:
            return None


def groups_from_metrics(
    listed: Sequence[ListedGroup], scrapes: Iterable[Scrape]
) -> dict[str, GroupSample]:
    """The groups with the lag that their coordinators compute."""
    lag: dict[str, float] = {}
    position: dict[str, float] = {}
    members: dict[str, float] = {}
    seconds: dict[str, float] = {}
    for scrape in scrapes:
        lag |= scrape.by(f"{GROUPS}lag_sum", "consumergroup")
        position |= scrape.by(f"{GROUPS}current_offset_sum", "consumergroup")
        members |= scrape.by(f"{GROUPS}members", "consumergroup")
        seconds |= scrape.by(f"{GROUPS}group_max_lag_seconds", "group")
        lag |= scrape.by(f"{SHARES}lag_sum", "sharegroup")
        position |= scrape.by(f"{SHARES}start_offset_sum", "sharegroup")
        members |= scrape.by(f"{SHARES}members", "sharegroup")
        seconds |= scrape.by(f"{SHARES}max_lag_seconds", "sharegroup")
    return {
        group.group_id: GroupSample(
            group.kind,
            group.state,
            _whole(lag.get(group.group_id)),
            _whole(position.get(group.group_id)),
            _whole(members.get(group.group_id)),
            seconds.get(group.group_id),
        )
        for group in listed
    }


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)
