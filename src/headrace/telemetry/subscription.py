"""Which metrics a client should push, and how often: the `client-metrics` resources that match it.

Without a resource that matches, the set of metrics is empty, and the client pushes nothing. The
subscription id is a function of the set, the interval and the client, so it is the same on every
broker, and a change of any of them changes it.
"""

import struct
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from headrace.cluster.client_match import (
    ClientAttributes,
    ClientMatch,
    InvalidMatch,
    matches,
    parse_match,
)
from headrace.cluster.configs.catalog import CLIENT_METRICS
from headrace.cluster.resources import ConfigResource, ConfigResourceType
from headrace.records.checksum import crc32c

ALL_METRICS: Final = "*"
_INT32 = struct.Struct(">i")
_UINT32_MASK: Final = 0xFFFFFFFF


class InvalidSubscription(Exception):
    """A stored subscription cannot be used."""


class Subscription(NamedTuple):
    """One `client-metrics` resource."""

    name: str
    metrics: frozenset[str]
    interval_ms: int
    match: ClientMatch


class WantedMetrics(NamedTuple):
    """What one client should push."""

    metrics: tuple[str, ...]
    """Prefixes of names, sorted; `*` alone for all metrics."""
    interval_ms: int

    def includes(self, metric: str) -> bool:
        return self.metrics == (ALL_METRICS,) or metric.startswith(self.metrics)


def stored_subscriptions(
    configs: Mapping[ConfigResource, Mapping[str, str]],
) -> dict[str, Mapping[str, str]]:
    """The values of all subscriptions, by name."""
    return {
        resource.name: values
        for resource, values in configs.items()
        if resource.type is ConfigResourceType.CLIENT_METRICS
    }


def subscription_of(name: str, values: Mapping[str, str]) -> Subscription:
    """Raises `InvalidSubscription` for values that an older version accepted."""
    try:
        match = parse_match(values.get("match", ""))
    except InvalidMatch as error:
        raise InvalidSubscription(str(error)) from error
    listed = map(str.strip, values.get("metrics", "").split(","))
    interval = values.get("interval.ms") or CLIENT_METRICS["interval.ms"].default
    return Subscription(name, frozenset(filter(None, listed)), int(interval or 0), match)


def wanted_metrics(
    subscriptions: Iterable[Subscription], client: ClientAttributes
) -> WantedMetrics:
    """The union of the matching subscriptions, at the shortest of their intervals."""
    interval_ms = int(CLIENT_METRICS["interval.ms"].default or 0)
    metrics: set[str] = set()
    for subscription in subscriptions:
        if matches(subscription.match, client):
            metrics |= subscription.metrics
            interval_ms = min(interval_ms, subscription.interval_ms)
    if ALL_METRICS in metrics:
        metrics = {ALL_METRICS}
    return WantedMetrics(tuple(sorted(metrics)), interval_ms)


def subscription_id(wanted: WantedMetrics, client_instance_id: bytes) -> int:
    """A CRC-32C of the set and the interval, combined with the id of the client."""
    text = f"{','.join(wanted.metrics)}:{wanted.interval_ms}"
    mixed = crc32c(text.encode()) ^ crc32c(client_instance_id)
    return _INT32.unpack((mixed & _UINT32_MASK).to_bytes(4, "big"))[0]  # type: ignore[no-any-return]
