"""Subscriptions by pattern: RE2 regular expressions, matched by the coordinator.

A pattern is stored with the topics that it matched, so that it has the same topics for all members
and after a move of the coordinator. A heartbeat starts a new matching when a member has a new
pattern, when topics were created, and every `group.consumer.regex.refresh.interval.ms`. Matching
all topics may take long, so it is an effect: the broker works through `PatternMatching` in slices
and returns with the result. RE2 takes time proportional to the length of the topic's name, for
every pattern.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import islice
from typing import Any, Final

from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.group.consumer import group_records
from headrace.coordinator.group.consumer.consumer_group import ConsumerGroup
from headrace.coordinator.group.consumer.member import ConsumerMember, ResolvedPattern
from headrace.coordinator.group.result_builder import ResultBuilder
from headrace.protocol.errors import ErrorCode
from headrace.security.session import UNKNOWN_CLIENT, Session

MIN_REFRESH_INTERVAL_MS: Final = 1_000
"""The minimum time between two matchings of a group, however often its members change their
patterns. Kafka waits for ten seconds, which is long after the creation of a topic."""

_NEVER: Final = -(2**63)


class PatternChange(Enum):
    """The state of a member's new pattern."""

    NONE = auto()
    CHANGED = auto()
    """The topics that it matches are not known yet."""
    RESOLVED = auto()
    """Its topics are known: the group can get a new assignment at once."""


@dataclass(frozen=True, slots=True)
class ResolvePatterns:
    """An effect: match these patterns, and call `ConsumerGroupManager.patterns_resolved`."""

    group_id: str
    patterns: frozenset[str]
    topics: Iterable[str] = field(repr=False)
    version: int
    """The version of the metadata that the topics are from."""
    session: Session = UNKNOWN_CLIENT
    """Only topics that the member may describe match, as in Kafka."""


class PatternMatching:
    """Matches patterns against topic names, a slice at a time."""

    def __init__(self, work: ResolvePatterns, shows: Callable[[str], bool] | None = None) -> None:
        """`shows` is whether the member may describe a topic; without it, all topics match."""
        self._topics = iter(work.topics)
        self._shows = shows
        self._compiled: list[tuple[str, Any]] = []
        self.found: dict[str, set[str]] = {}
        for pattern in work.patterns:
            self.found[pattern] = set()
            # Kafka's RE2 may have accepted a pattern that this one does not: it matches nothing.
            with suppress(CoordinatorError):
                self._compiled.append((pattern, compile_pattern(pattern)))

    def step(self, limit: int) -> bool:
        """Matches the next `limit` topics; returns whether there are more."""
        names = list(islice(self._topics, limit))
        shown = names if self._shows is None else list(filter(self._shows, names))
        for pattern, compiled in self._compiled:
            self.found[pattern].update(name for name in shown if compiled.fullmatch(name))
        return len(names) == limit


def compile_pattern(pattern: str) -> Any:  # noqa: ANN401
    """Compiles the pattern; raises if RE2 does not support it."""
    # Imported here, because few groups subscribe by pattern and a broker should start fast.
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0] if error.args else ""
        if isinstance(reason, bytes):
            reason = reason.decode(errors="replace")
        raise CoordinatorError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {reason}.",
        ) from None


class RegexSubscriptions:
    """Resolves the patterns of all groups of a shard."""

    def __init__(self) -> None:
        self._resolving: set[str] = set()
        """Soft state: groups whose patterns are being matched."""
        self.topics_version = -1
        """Soft state: the version of the metadata in which a topic was last created."""

    def change(
        self,
        group: ConsumerGroup,
        before: ConsumerMember,
        after: ConsumerMember,
        result: ResultBuilder,
    ) -> PatternChange:
        """The effect of a member's change from one pattern to another."""
        old, new = before.pattern, after.pattern
        if old == new:
            return PatternChange.NONE
        if old and group.patterns[old] == 1:
            result.changes.append(group_records.pattern_tombstone(group.group_id, old))
        if not new or new in group.resolved:
            return PatternChange.RESOLVED
        if not group.patterns[new]:
            compile_pattern(new)
        return PatternChange.CHANGED

    def refresh(
        self,
        group: ConsumerGroup,
        before: ConsumerMember,
        after: ConsumerMember,
        result: ResultBuilder,
        now_ms: int,
        session: Session,
        *,
        topics: Mapping[str, object],
        version: int,
        interval_ms: int,
    ) -> None:
        """Starts the matching of the patterns if it is due."""
        if not after.pattern and not group.patterns:
            return
        if group.group_id in self._resolving:
            return
        any_resolved = next(iter(group.resolved.values()), None)
        last_ms = _NEVER if any_resolved is None else any_resolved.resolved_at_ms
        # Negative if a coordinator's clock was ahead, or ours was set back: due as well.
        age_ms = now_ms - last_ms
        if 0 <= age_ms <= MIN_REFRESH_INTERVAL_MS:
            return
        wanted = _patterns_after(group, before, after)
        if not wanted:
            return
        if wanted == group.resolved.keys() and any_resolved is not None:
            # A later version than the current one is from a former store: versions have restarted.
            fresh = self.topics_version <= any_resolved.version <= version
            if fresh and 0 <= age_ms <= interval_ms:
                return
        self._resolving.add(group.group_id)
        result.effects.append(
            ResolvePatterns(group.group_id, frozenset(wanted), topics.keys(), version, session)
        )
        result.add_undo(lambda error: self.done(group.group_id))

    def done(self, group_id: str) -> None:
        """The matching has ended, with or without a result."""
        self._resolving.discard(group_id)


def resolutions(
    group: ConsumerGroup, found: Mapping[str, set[str]], version: int, now_ms: int
) -> dict[str, ResolvedPattern]:
    """The result for the patterns that a member still subscribes to."""
    return {
        pattern: ResolvedPattern(frozenset(topics), version, now_ms)
        for pattern, topics in found.items()
        if group.patterns[pattern]
    }


def _patterns_after(
    group: ConsumerGroup, before: ConsumerMember, after: ConsumerMember
) -> set[str]:
    counts = Counter(group.patterns)
    counts[before.pattern] -= 1
    counts[after.pattern] += 1
    return {pattern for pattern, count in counts.items() if pattern and count > 0}
