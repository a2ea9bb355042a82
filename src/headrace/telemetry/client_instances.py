"""The client instances of one broker: at most `MAX_INSTANCES`, each with an expiry.

An instance that is not known here may be another broker's: it is created from its request, and a
push with the right subscription id is accepted. So it costs a client nothing to be forgotten.
"""

from collections.abc import Mapping
from typing import Final

from headrace.cluster.client_match import ClientAttributes
from headrace.telemetry.client_instance import ClientInstance
from headrace.telemetry.subscription import (
    InvalidSubscription,
    Subscription,
    subscription_id,
    subscription_of,
    wanted_metrics,
)

MAX_INSTANCES: Final = 16_384
"""As in Kafka: active clients per broker."""
SWEEP_INTERVAL_MS: Final = 10_000
"""Expired instances are removed at most this often: a sweep visits all of them."""


class ClientInstances:
    """Client instances by id, least recently used first, and the subscriptions that they match."""

    def __init__(self) -> None:
        self._instances: dict[bytes, ClientInstance] = {}
        self._stored: dict[str, Mapping[str, str]] = {}
        self._subscriptions: tuple[Subscription, ...] = ()
        self._version = 0
        self._next_sweep_ms = 0

    def __len__(self) -> int:
        return len(self._instances)

    def __contains__(self, instance_id: bytes) -> bool:
        return instance_id in self._instances

    def set_subscriptions(self, stored: dict[str, Mapping[str, str]]) -> dict[str, str]:
        """Takes the subscriptions of the cluster; returns why some of them are not used."""
        if stored == self._stored:
            return {}
        usable, refused = [], {}
        for name, values in sorted(stored.items()):
            try:
                usable.append(subscription_of(name, values))
            except InvalidSubscription as error:
                refused[name] = str(error)
        self._stored, self._subscriptions = stored, tuple(usable)
        self._version += 1
        return refused

    def find(self, instance_id: bytes, attributes: ClientAttributes, now_ms: int) -> ClientInstance:
        """The instance of a request: known, evaluated again, or new."""
        self.expire(now_ms)
        instance = self._instances.pop(instance_id, None)
        if instance is None:
            instance = self._create(instance_id, attributes)
        elif instance.subscriptions_version != self._version:
            instance = self._create(instance_id, instance.attributes)
        instance.expires_at_ms = now_ms + instance.expiry_ms
        self._instances[instance_id] = instance
        if len(self._instances) > MAX_INSTANCES:
            del self._instances[next(iter(self._instances))]
        return instance

    def remove(self, instance_id: bytes) -> None:
        self._instances.pop(instance_id, None)

    def expire(self, now_ms: int) -> None:
        """Removes the instances of clients that have not been heard of for three intervals."""
        if now_ms < self._next_sweep_ms:
            return
        self._next_sweep_ms = now_ms + SWEEP_INTERVAL_MS
        for instance in tuple(self._instances.values()):
            if instance.expires_at_ms <= now_ms:
                del self._instances[instance.id]

    def _create(self, instance_id: bytes, attributes: ClientAttributes) -> ClientInstance:
        wanted = wanted_metrics(self._subscriptions, attributes)
        return ClientInstance(
            instance_id, attributes, wanted, subscription_id(wanted, instance_id), self._version
        )
