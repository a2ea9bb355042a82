"""The series that clients have pushed, within limits on clients, families, labels and series.

A delta is added to what the client has pushed before, so a counter counts what the client did since
its first push to this broker. The series of a client are removed together: after its last push they
stay for three intervals, after its terminating push for `LAST_VALUES_MS`, so that a scrape still
sees the last values.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final, Literal, NamedTuple

from headrace.metrics.family import MetricFamily
from headrace.telemetry.push_decoder import DecodedPush, Dropped, Labels, Point
from headrace.telemetry.series_names import CLIENT_LABELS

LAST_VALUES_MS: Final = 120_000
"""Two scrapes at the usual longest interval of a minute."""
MAX_FAMILIES: Final = 2_000
"""Java's clients have about 300 metrics together."""
MAX_FAMILY_LABELS: Final = 16

FamilyKind = Literal["counter", "gauge"]


class PushingClient(NamedTuple):
    """Who pushed: the values of `CLIENT_LABELS`, its address, and what it says about itself."""

    labels: tuple[str, ...]
    address: str
    resource: Mapping[str, str]


class _Family:
    """All series of one name."""

    __slots__ = ("kind", "labels", "series", "source_name")

    def __init__(self, kind: FamilyKind, source_name: str) -> None:
        self.kind = kind
        self.source_name = source_name
        self.labels: dict[str, None] = {}
        self.series: dict[tuple[bytes, Labels], float] = {}


class _Client:
    """One client and the keys of its series."""

    __slots__ = ("expires_at_ms", "keys", "who")

    def __init__(self, who: PushingClient) -> None:
        self.who = who
        self.expires_at_ms = 0
        self.keys: dict[tuple[str, Labels], None] = {}


class ClientSeries:
    """The last values of all clients."""

    def __init__(self, *, max_series: int, max_series_per_client: int) -> None:
        self._max_series = max_series
        self._max_series_per_client = max_series_per_client
        self._clients: dict[bytes, _Client] = {}
        self._families: dict[str, _Family] = {}
        self.dropped: Counter[Dropped] = Counter()
        self.count = 0

    def clients(self) -> tuple[PushingClient, ...]:
        """The clients that have series."""
        return tuple(client.who for client in self._clients.values())

    def add(
        self, instance_id: bytes, who: PushingClient, push: DecodedPush, *, expires_at_ms: int
    ) -> None:
        """Takes the points of one push; what exceeds a limit is dropped and counted."""
        self.dropped.update(push.dropped)
        client = self._clients.get(instance_id)
        if client is None:
            if not push.points or self.count >= self._max_series:
                self.dropped[Dropped.TOO_MANY_SERIES] += len(push.points)
                return
            client = self._clients[instance_id] = _Client(who)
        client.who = who
        client.expires_at_ms = expires_at_ms
        for point in push.points:
            problem = self._add_point(instance_id, client, point)
            if problem is not None:
                self.dropped[problem] += 1

    def expire(self, now_ms: int) -> None:
        """Removes the series of clients that have stopped."""
        for instance_id, client in tuple(self._clients.items()):
            if client.expires_at_ms <= now_ms:
                self._remove(instance_id, client)

    def families(self) -> Iterator[MetricFamily]:
        """Every family, by name. The samples are lazy, and tolerate changes between two of them."""
        for name in sorted(self._families):
            family = self._families.get(name)
            if family is not None:
                own = tuple(family.labels)
                help_ = f"{family.source_name}, as pushed by clients."
                labels = CLIENT_LABELS + own
                yield MetricFamily(name, family.kind, help_, labels, self._samples(family, own))

    def _samples(
        self, family: _Family, own: tuple[str, ...]
    ) -> Iterator[tuple[tuple[str, ...], float]]:
        for (instance_id, labels), value in tuple(family.series.items()):
            client = self._clients.get(instance_id)
            if client is not None:
                known = dict(labels)
                yield client.who.labels + tuple(known.get(name, "") for name in own), value

    def _add_point(self, instance_id: bytes, client: _Client, point: Point) -> Dropped | None:
        kind: FamilyKind = "counter" if point.is_counter else "gauge"
        key = (instance_id, point.labels)
        family = self._families.get(point.family)
        if family is not None and key in family.series:
            if family.kind != kind:
                return Dropped.CONFLICTING_TYPE
            self._store(family, key, point)
            return None
        if self.count >= self._max_series or len(client.keys) >= self._max_series_per_client:
            return Dropped.TOO_MANY_SERIES
        if family is None:
            if len(self._families) >= MAX_FAMILIES:
                return Dropped.TOO_MANY_SERIES
            family = self._families[point.family] = _Family(kind, point.source_name)
        elif family.kind != kind:
            return Dropped.CONFLICTING_TYPE
        new_labels = [name for name, _ in point.labels if name not in family.labels]
        if len(family.labels) + len(new_labels) > MAX_FAMILY_LABELS:
            return Dropped.TOO_MANY_SERIES
        family.labels.update(dict.fromkeys(new_labels))
        self._store(family, key, point)
        client.keys[point.family, point.labels] = None
        self.count += 1
        return None

    def _store(self, family: _Family, key: tuple[bytes, Labels], point: Point) -> None:
        before = family.series.get(key, 0.0) if point.is_delta else 0.0
        if point.is_counter and not point.value >= 0:
            # A counter never decreases; NaN is no count either.
            family.series.setdefault(key, 0.0)
            return
        family.series[key] = before + point.value

    def _remove(self, instance_id: bytes, client: _Client) -> None:
        del self._clients[instance_id]
        for name, labels in client.keys:
            family = self._families[name]
            del family.series[instance_id, labels]
            if not family.series:
                del self._families[name]
        self.count -= len(client.keys)
