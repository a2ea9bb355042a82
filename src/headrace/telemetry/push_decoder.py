"""Decodes the payload of a PushTelemetry: compressed OTLP `MetricsData`.

The payload is hostile. Its decompressed size has a limit, the parser limits nesting, and at most
`MAX_VISITED` elements are looked at. What does not fit is dropped and counted by its reason; the
push itself is refused only if it cannot be read at all. The decoder runs in a thread, so it takes
and returns values only.

opentelemetry-proto is imported by the first push.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.protocol.errors import ErrorCode
from headrace.records.codec import Codec, decompress
from headrace.records.errors import DecompressedTooLarge, RecordError
from headrace.telemetry.series_names import label_name, label_value, metric_name
from headrace.telemetry.subscription import WantedMetrics

if TYPE_CHECKING:
    from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
    from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric, NumberDataPoint

MAX_VISITED: Final = 50_000
"""Resources, scopes, metrics and points of one push: a Java consumer of 1,000 partitions has about
4,000."""
MAX_LABELS: Final = 8
"""Of one point, apart from the client's own; Kafka's clients use at most three."""

_RESOURCE_LABELS: Final = frozenset(
    ("client_rack", "group_id", "group_instance_id", "group_member_id", "transactional_id")
)
_CUMULATIVE: Final = 2  # AGGREGATION_TEMPORALITY_CUMULATIVE

Labels = tuple[tuple[str, str], ...]


class InvalidPush(Exception):
    """The payload cannot be read; `code` is the error of the whole push."""

    def __init__(self, code: ErrorCode, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class Dropped(StrEnum):
    """Why a part of a push was dropped."""

    NOT_REQUESTED = "not_requested"
    UNSUPPORTED_TYPE = "unsupported_type"
    INVALID_NAME = "invalid_name"
    TOO_MANY_ELEMENTS = "too_many_elements"
    TOO_MANY_SERIES = "too_many_series"
    CONFLICTING_TYPE = "conflicting_type"


class Point(NamedTuple):
    """One value of one series."""

    family: str
    is_counter: bool
    is_delta: bool
    labels: Labels
    """Sorted by name; without those of the client."""
    value: float
    source_name: str


class DecodedPush(NamedTuple):
    """What a push contains, apart from what was dropped."""

    points: list[Point]
    resource: Mapping[str, str]
    """What the client says about itself: its rack, group and transactional id."""
    dropped: Mapping[Dropped, int]


def decode_push(
    compression_type: int, data: bytes, wanted: WantedMetrics, *, max_bytes: int
) -> DecodedPush:
    """The points of the metrics that were requested; raises `InvalidPush`."""
    from google.protobuf.message import DecodeError
    from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

    try:
        plain = decompress(Codec(compression_type), data, max_bytes=max_bytes)
    except DecompressedTooLarge as error:
        reason = f"the metrics decompress to more than {max_bytes} bytes"
        raise InvalidPush(ErrorCode.TELEMETRY_TOO_LARGE, reason) from error
    except RecordError as error:
        reason = "the metrics cannot be decompressed"
        raise InvalidPush(ErrorCode.INVALID_RECORD, reason) from error
    message = MetricsData()
    try:
        message.ParseFromString(bytes(plain))
    except DecodeError as error:
        reason = f"the metrics are not OTLP MetricsData: {error}"
        raise InvalidPush(ErrorCode.INVALID_RECORD, reason) from error
    return _Decoding(wanted).run(message.resource_metrics)


class _TooManyElements(Exception):
    """The rest of the push is not looked at."""


class _Decoding:
    """One push while it is decoded."""

    def __init__(self, wanted: WantedMetrics) -> None:
        self._wanted = wanted
        self._visited = 0
        self._points: list[Point] = []
        self._resource: dict[str, str] = {}
        self._dropped: Counter[Dropped] = Counter()
        self._label_names: dict[str, str | None] = {}

    def run(self, resources: Iterable) -> DecodedPush:  # type: ignore[type-arg]
        try:
            for resource in resources:
                self._visit()
                self._add_resource(resource.resource.attributes)
                for scope in resource.scope_metrics:
                    self._visit()
                    for metric in scope.metrics:
                        self._visit()
                        self._add_metric(metric)
        except _TooManyElements:
            self._dropped[Dropped.TOO_MANY_ELEMENTS] += 1
        return DecodedPush(self._points, self._resource, self._dropped)

    def _visit(self) -> None:
        self._visited += 1
        if self._visited > MAX_VISITED:
            raise _TooManyElements

    def _add_resource(self, attributes: "Iterable[KeyValue]") -> None:
        for attribute in attributes:
            self._visit()
            text = _text(attribute.value)
            if attribute.key in _RESOURCE_LABELS and text:
                self._resource[attribute.key] = label_value(text)

    def _add_metric(self, metric: "Metric") -> None:
        kind = metric.WhichOneof("data")
        is_counter, is_delta = False, False
        if kind == "gauge":
            points: Iterable[NumberDataPoint] = metric.gauge.data_points
        elif kind == "sum":
            points = metric.sum.data_points
            is_counter = metric.sum.is_monotonic
            is_delta = metric.sum.aggregation_temporality != _CUMULATIVE
        else:
            self._dropped[Dropped.UNSUPPORTED_TYPE] += 1
            return
        if not self._wanted.includes(metric.name):
            self._dropped[Dropped.NOT_REQUESTED] += 1
            return
        family = metric_name(metric.name, is_counter=is_counter)
        if family is None:
            self._dropped[Dropped.INVALID_NAME] += 1
            return
        for point in points:
            self._visit()
            value = point.as_int if point.WhichOneof("value") == "as_int" else point.as_double
            labels = self._labels(point.attributes)
            self._points.append(
                Point(family, is_counter, is_delta, labels, float(value), metric.name)
            )

    def _labels(self, attributes: "Iterable[KeyValue]") -> Labels:
        labels: dict[str, str] = {}
        for attribute in attributes:
            self._visit()
            name = self._label_name(attribute.key)
            text = _text(attribute.value)
            if name is not None and text and len(labels) < MAX_LABELS:
                labels.setdefault(name, label_value(text))
        return tuple(sorted(labels.items()))

    def _label_name(self, key: str) -> str | None:
        if key not in self._label_names:
            self._label_names[key] = label_name(key)
        return self._label_names[key]


def _text(value: "AnyValue") -> str:
    """A plain value as text; lists, maps and bytes have none."""
    kind = value.WhichOneof("value")
    if kind == "string_value":
        return value.string_value
    if kind == "bool_value":
        return "true" if value.bool_value else "false"
    if kind == "int_value":
        return str(value.int_value)
    return f"{value.double_value:g}" if kind == "double_value" else ""
