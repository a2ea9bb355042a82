"""The options of `format("headrace")`: those of Spark's own Kafka source, checked.

Users switch by changing the format's name, so names, defaults and meanings are Spark's. There are
two differences: a new partition is read from its first offset, and by default readers see committed
records only.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

from headrace.client.login.security import InvalidSecurity, Security
from headrace.client.results import TopicPartition
from headrace.name_suggestion import nearest_name
from headrace.pipeline.core.offsets import (
    EARLIEST,
    LATEST,
    BadOffsets,
    OffsetRange,
    offsets_from_json,
    partitions_from_json,
)
from headrace.pipeline.source.client_security import client_security
from headrace.pipeline.source.ranges import ranges_from_json
from headrace.pipeline.source.settings import ReadSettings

T = TypeVar("T")

KAFKA: Final = "kafka."
DAMAGE: Final = "headrace.damage"
"""Only for the runner: adds a column `damage`, and a row for each damaged batch."""
CHOICES: Final = ("subscribe", "subscribepattern", "assign", "headrace.ranges")
KNOWN: Final = {
    name.lower(): name
    for name in (
        "subscribe",
        "subscribePattern",
        "assign",
        "startingOffsets",
        "startingTimestamp",
        "startingOffsetsByTimestamp",
        "startingOffsetsByTimestampStrategy",
        "endingOffsets",
        "endingTimestamp",
        "endingOffsetsByTimestamp",
        "maxOffsetsPerTrigger",
        "minPartitions",
        "maxRecordsPerPartition",
        "includeHeaders",
        "failOnDataLoss",
        "headrace.ranges",
        DAMAGE,
    )
}
# Options for internals of Spark's source. They have no effect here.
WITHOUT_MEANING: Final = frozenset(
    {
        "groupidprefix",
        "minoffsetspertrigger",
        "maxtriggerdelay",
        "kafkaconsumer.polltimeoutms",
        "fetchoffset.numretries",
        "fetchoffset.retryintervalms",
        "path",
    }
)


class BadOption(ValueError):
    """An invalid option. The message gives its name, its value and the allowed values."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f'option "{name}": {reason}')
        self.name = name


@dataclass(frozen=True, slots=True)
class Where:
    """A place in each partition: an offset, `EARLIEST`/`LATEST`, or the first record of a time."""

    default: int
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    timestamp_ms: int | None = None
    timestamps_ms: Mapping[TopicPartition, int] = field(default_factory=dict)
    late_is_error: bool = True
    """Whether a time after the last record is an error or means the end of the log."""

    @property
    def moves(self) -> bool:
        """Whether a later query may return another offset."""
        if self.timestamp_ms is not None or self.timestamps_ms:
            return True
        return LATEST in (self.offsets.values() or [self.default])


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The topics to read, the start and the end, and the read settings."""

    read: ReadSettings
    start: Where
    end: Where
    topics: tuple[str, ...] = ()
    pattern: str = ""
    partitions: tuple[TopicPartition, ...] = ()
    ranges: tuple[OffsetRange, ...] = ()
    max_offsets_per_trigger: int | None = None
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    fail_on_data_loss: bool = True

    def matches(self, topic: str) -> bool:
        return bool(self.pattern) and re.fullmatch(self.pattern, topic) is not None


def read_options(given: Mapping[str, str], *, streaming: bool) -> SourceOptions:
    """Checks all options; raises `BadOption`."""
    options = {name.lower(): str(value) for name, value in given.items()}
    _check_names(options)
    chosen = [name for name in CHOICES if name in options]
    if len(chosen) != 1:
        named = ", ".join(KNOWN[name] for name in chosen) or "none is"
        raise BadOption("subscribe", f"give one of subscribe, subscribePattern, assign; {named}")
    pattern = options.get("subscribepattern", "")
    _check_pattern(pattern)
    topics = tuple(_names(options["subscribe"])) if "subscribe" in options else ()
    partitions = tuple(_json(options, "assign", partitions_from_json) or ())
    return SourceOptions(
        read=_read_settings(options),
        start=_where(options, "starting", LATEST if streaming else EARLIEST, may_be=streaming),
        end=_ending(options, streaming=streaming),
        topics=topics,
        pattern=pattern,
        partitions=partitions,
        ranges=tuple(_json(options, "headrace.ranges", ranges_from_json) or ()),
        max_offsets_per_trigger=_count(options, "maxOffsetsPerTrigger"),
        min_partitions=_count(options, "minPartitions"),
        max_records_per_partition=_count(options, "maxRecordsPerPartition"),
        fail_on_data_loss=_flag(options, "failOnDataLoss", default=True),
    )


def _check_names(options: Mapping[str, str]) -> None:
    for name in options:
        if name in KNOWN or name in WITHOUT_MEANING or name.startswith(KAFKA):
            continue
        near = nearest_name(name, KNOWN)
        hint = "" if near is None else f"; did you mean {KNOWN[near]}?"
        raise BadOption(name, f"there is no such option{hint}")


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise BadOption("subscribe", "names no topic; give one or more, separated by commas")
    return names


def _check_pattern(pattern: str) -> None:
    try:
        re.compile(pattern)
    except re.error as error:
        raise BadOption("subscribePattern", f"{pattern!r} is not a pattern: {error}") from None


def _read_settings(options: Mapping[str, str]) -> ReadSettings:
    kafka = {
        name.removeprefix(KAFKA): value for name, value in options.items() if name.startswith(KAFKA)
    }
    servers = kafka.get("bootstrap.servers", "").strip()
    if not servers:
        raise BadOption("kafka.bootstrap.servers", "is missing, e.g. localhost:9092")
    defaults = ReadSettings(servers)
    isolation = kafka.get("isolation.level", "read_committed")
    if isolation not in ("read_committed", "read_uncommitted"):
        raise BadOption(
            "kafka.isolation.level", f"is read_committed or read_uncommitted, not {isolation!r}"
        )
    request_ms = _number(kafka, "request.timeout.ms", int(defaults.request_timeout_s * 1000))
    return ReadSettings(
        servers,
        security=_security(kafka),
        client_id=kafka.get("client.id", defaults.client_id),
        fetch_bytes=_number(kafka, "max.partition.fetch.bytes", defaults.fetch_bytes),
        max_wait_ms=_number(kafka, "fetch.max.wait.ms", defaults.max_wait_ms),
        request_timeout_s=request_ms / 1000,
        api_timeout_s=_number(kafka, "default.api.timeout.ms", 2 * request_ms) / 1000,
        read_committed=isolation == "read_committed",
        with_headers=_flag(options, "includeHeaders", default=False),
        with_damage=_flag(options, DAMAGE, default=False),
        rack=kafka.get("client.rack", ""),
    )


def _security(kafka: Mapping[str, str]) -> Security:
    try:
        return client_security(kafka)
    except InvalidSecurity as error:
        raise BadOption("kafka.security.protocol", str(error)) from None


def _ending(options: Mapping[str, str], *, streaming: bool) -> Where:
    if not streaming:
        return _where(options, "ending", LATEST, may_be=True)
    for name in ("endingoffsets", "endingtimestamp", "endingoffsetsbytimestamp"):
        if name in options:
            raise BadOption(KNOWN[name], "is for batch reads; a stream has no end")
    return Where(LATEST)


def _where(options: Mapping[str, str], which: str, default: int, *, may_be: bool) -> Where:
    """Uses one timestamp, else timestamps by partition, else offsets: Spark's order."""
    single, each, offsets = f"{which}Timestamp", f"{which}OffsetsByTimestamp", f"{which}Offsets"
    strategy = options.get("startingoffsetsbytimestampstrategy", "error")
    if strategy not in ("error", "latest"):
        raise BadOption(
            "startingOffsetsByTimestampStrategy", f"is error or latest, not {strategy!r}"
        )
    late = which == "starting" and strategy == "error"
    if single.lower() in options:
        return Where(default, timestamp_ms=_count(options, single), late_is_error=late)
    if each.lower() in options:
        times = _json(options, each, offsets_from_json) or {}
        return Where(default, timestamps_ms=times, late_is_error=late)
    text = options.get(offsets.lower(), "").strip()
    if not text or text == ("latest" if default == LATEST else "earliest"):
        return Where(default)
    if text == "earliest" and which == "starting":
        return Where(EARLIEST)
    if text == "latest" and may_be:
        return Where(LATEST)
    if text in ("earliest", "latest"):
        raise BadOption(offsets, f"{text} makes no sense here: nothing would be read")
    named = _json(options, offsets, offsets_from_json) or {}
    return Where(default, offsets=named)


def _json(options: Mapping[str, str], name: str, parse: Callable[[str], T]) -> T | None:
    text = options.get(name.lower())
    if text is None:
        return None
    try:
        return parse(text)
    except BadOffsets as error:
        raise BadOption(name, str(error)) from None


def _count(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name.lower())
    if text is None:
        return None
    if not text.strip().isdecimal() or int(text) < 1:
        raise BadOption(name, f"{text!r} is not a whole number above 0")
    return int(text)


def _number(kafka: Mapping[str, str], name: str, default: int) -> int:
    text = kafka.get(name)
    if text is None:
        return default
    if not text.strip().isdecimal() or int(text) < 1:
        raise BadOption(KAFKA + name, f"{text!r} is not a whole number above 0")
    return int(text)


def _flag(options: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = options.get(name.lower(), str(default)).strip().lower()
    if text not in ("true", "false"):
        raise BadOption(name, f"is true or false, not {text!r}")
    return text == "true"
