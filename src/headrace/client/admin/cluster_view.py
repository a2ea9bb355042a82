"""The most recent view of the cluster, among those of its brokers.

A broker that was suspended, or cut off, answers with its old metadata until it notices that the
controller has fenced it. So the brokers are asked which of them is the controller, and the view of
the controller counts.
"""

import asyncio
from collections import Counter
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from headrace.client.admin.brokers import ClusterInfo, describe_cluster
from headrace.client.client import ANY, ClusterClient, Target, ToBroker
from headrace.client.errors import ClientError

VIEW_S: Final = 1.0
"""Brokers that are slower than this have no vote."""


class ClusterView(NamedTuple):
    """The cluster as one broker describes it."""

    cluster: ClusterInfo
    source: Target


def agreed_controller(views: Mapping[int, ClusterInfo], brokers: Collection[int]) -> int | None:
    """The controller that most of these brokers name, if it has answered that it is."""
    votes = Counter(view.controller_id for view in views.values())
    for named, count in votes.items():
        if 2 * count > len(brokers) and _claims_control(views, named):
            return named
    return None


def most_recent(views: Mapping[int, ClusterInfo]) -> int:
    """The broker to believe: no other one has fenced it, and it is the controller, if possible."""
    live = [{broker.id for broker in view.live} for view in views.values()]
    votes = Counter(view.controller_id for view in views.values())
    unfenced = [id_ for id_ in views if all(id_ in each for each in live)] or list(views)
    return max(unfenced, key=lambda id_: votes[id_] if _claims_control(views, id_) else 0)


def _claims_control(views: Mapping[int, ClusterInfo], broker: int) -> bool:
    return broker in views and views[broker].controller_id == broker


async def current_view(client: ClusterClient, *, timeout_s: float) -> ClusterView:
    """The view of the controller, if it answers; else the best of the others."""
    first = await describe_cluster(client, timeout_s=timeout_s)
    brokers = [broker.id for broker in first.live]
    views = await _views_of(client, brokers, min(timeout_s, VIEW_S)) if len(brokers) > 1 else {}
    if not views:
        return ClusterView(first, ANY)
    agreed = agreed_controller(views, brokers)
    source = most_recent(views) if agreed is None else agreed
    return ClusterView(views[source], ToBroker(source))


async def _views_of(
    client: ClusterClient, brokers: Collection[int], limit_s: float
) -> dict[int, ClusterInfo]:
    """The views that arrive in time; those after an agreement are not awaited."""

    async def ask(broker: int) -> None:
        try:
            views[broker] = await describe_cluster(
                client, to=ToBroker(broker), timeout_s=limit_s, retry=False
            )
        except ClientError:
            return

    views: dict[int, ClusterInfo] = {}
    asking = {asyncio.create_task(ask(broker)) for broker in brokers}
    try:
        async with asyncio.timeout(limit_s):
            waiting = set(asking)
            while waiting and agreed_controller(views, brokers) is None:
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
    except TimeoutError:
        return views
    finally:
        for task in asking:
            task.cancel()
    return views
