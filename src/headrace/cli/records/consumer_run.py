"""One run of `headrace consume`: a librdkafka consumer from its first poll to its last commit.

If the broker refuses the member, the run fails after --timeout. If a topic is deleted and created
again, the run continues at the beginning of the new topic, and says so.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from headrace.cli.error_messages import usage
from headrace.cli.exit_codes import CommandFailed
from headrace.cli.output import counted, remark
from headrace.cli.records.broker_errors import GROUP, BrokerErrors, full_disks
from headrace.cli.records.consume_loop import BATCH, ConsumeLoop, Ends
from headrace.cli.records.topic_watch import TopicWatch, finder
from headrace.cli.session import Session
from headrace.client.admin.groups import GroupDescription, describe_group
from headrace.client.client import ClusterClient
from headrace.client.metadata import TopicInfo
from headrace.client.results import Refusal, TopicPartition

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message
    from confluent_kafka import TopicPartition as Assigned

METADATA_REFRESH_MS: Final = 3000
"""A member of a classic group joins again when it sees new partitions, for example those of a topic
that was created again with more of them. librdkafka's default is five minutes."""

Store: TypeAlias = Callable[["Message"], None]
Handle: TypeAlias = Callable[["list[Message]", Store], None]
"""Handles a batch, and calls `Store` for each message whose offset may be committed."""


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """The partitions to read, their start offsets, and when to stop."""

    topics: Sequence[str]
    ids: Mapping[str, bytes]
    """The current id of each topic."""
    starts: Mapping[TopicPartition, int]
    ends: Ends
    reset: str
    group: str | None = None
    chosen: Sequence[int] | None = None
    """The partitions of --partitions; None means all."""


def read_records(
    session: Session,
    plan: ReadPlan,
    count: int | None,
    options: Mapping[str, object],
    handle: Handle,
    *,
    batch: int = BATCH,
    check_output: Callable[[], None] = lambda: None,
) -> None:
    """Reads records; in a group, commits the offsets that `handle` stored.

    `check_output` is called before each poll; it raises if the output of `handle` is closed.
    """
    from confluent_kafka import Consumer, KafkaException

    errors = BrokerErrors(GROUP)
    config = session.rdkafka(
        **options,
        group_id=plan.group or "headrace-cli",
        auto_offset_reset=plan.reset,
        enable_auto_commit=plan.group is not None,
        enable_auto_offset_store=False,
        topic_metadata_refresh_interval_ms=METADATA_REFRESH_MS,
    )
    if plan.group is not None:
        config = {**errors.settings, **config, "logger": errors.settings["logger"]}
    try:
        consumer = Consumer(config)
    except KafkaException as error:
        raise usage(error.args[0].str()) from error
    try:
        _ConsumerRun(session, plan, consumer, errors, check_output).read(count, handle, batch)
    except KafkaException as error:
        raise CommandFailed(f"reading failed: {error.args[0].str()}") from error
    finally:
        _close_consumer(session, consumer, errors, plan.group)


class _ConsumerRun:
    """The consumer, and the checks between its polls."""

    def __init__(
        self,
        session: Session,
        plan: ReadPlan,
        consumer: "Consumer",
        errors: BrokerErrors,
        check_output: Callable[[], None],
    ) -> None:
        self._plan = plan
        self._check_output = check_output
        self._consumer = consumer
        self._watch = TopicWatch(plan.ids, finder(session, plan.ids))
        self._join = None
        if plan.group is not None:
            self._join = GroupJoin(session, plan.group, errors)

    def read(self, count: int | None, handle: Handle, batch: int) -> None:
        reader = ConsumeLoop(self._consumer, self._plan.ends, count, self._check_before_poll)
        if self._join is None:
            self._assign_partitions()
        else:
            self._subscribe_to_topics(reader, self._join)
        for messages in reader.batches(batch):
            handle(messages, self._store_offset)

    def _assign_partitions(self) -> None:
        from confluent_kafka import TopicPartition as Assigned

        starts = self._plan.starts
        self._consumer.assign([Assigned(*each, offset) for each, offset in starts.items()])
        self._plan.ends.assign(starts)

    def _subscribe_to_topics(self, reader: ConsumeLoop, join: "GroupJoin") -> None:
        def on_assign(consumer: "Consumer", partitions: "list[Assigned]") -> None:
            join.has_joined = True
            reader.on_assign(consumer, partitions)

        self._consumer.subscribe(
            list(self._plan.topics),
            on_assign=on_assign,
            on_revoke=reader.on_revoke,
            on_lost=reader.on_revoke,
        )

    def _store_offset(self, message: "Message") -> None:
        from confluent_kafka import KafkaException

        if self._plan.group is None:
            return
        try:
            self._consumer.store_offsets(message=message)
        except KafkaException:
            return  # the partition moved to another member, which reads the record again

    def _check_before_poll(self) -> None:
        self._check_output()
        if self._join is not None:
            self._join.check()
        changes = self._watch.changes()
        for name in changes.deleted:
            if self._plan.ends.bounded:
                raise CommandFailed(f"topic {name!r} was deleted during the run")
            remark(f"topic {name!r} was deleted; waiting until it is created again")
        for topic in changes.recreated:
            self._restart_topic(topic)

    def _restart_topic(self, topic: TopicInfo) -> None:
        if self._plan.ends.stops:
            raise CommandFailed(f"topic {topic.name!r} was deleted and created again")
        remark(
            f"topic {topic.name!r} was deleted and created again; "
            "reading continues at the beginning of the new topic"
        )
        chosen = self._plan.chosen
        partitions = [each for each in topic.partitions if chosen is None or each in chosen]
        if self._plan.group is None:
            self._assign_from_beginning(topic.name, partitions)
            self._plan.ends.reopen(topic.name, partitions)
        else:
            self._seek_to_beginning(topic.name)

    def _assign_from_beginning(self, topic: str, partitions: Sequence[int]) -> None:
        from confluent_kafka import OFFSET_BEGINNING
        from confluent_kafka import TopicPartition as Assigned

        old = [each for each in self._consumer.assignment() if each.topic == topic]
        self._consumer.incremental_unassign(old)
        new = [Assigned(topic, index, OFFSET_BEGINNING) for index in partitions]
        self._consumer.incremental_assign(new)

    def _seek_to_beginning(self, topic: str) -> None:
        from confluent_kafka import OFFSET_BEGINNING, KafkaException
        from confluent_kafka import TopicPartition as Assigned

        for each in self._consumer.assignment():
            if each.topic == topic:
                try:
                    self._consumer.seek(Assigned(topic, each.partition, OFFSET_BEGINNING))
                except KafkaException:
                    continue  # the partition is being revoked; its next owner starts again


class GroupJoin:
    """Limits the wait for the group's first assignment."""

    def __init__(self, session: Session, group: str, errors: BrokerErrors) -> None:
        self._session = session
        self._group = group
        self._errors = errors
        self._due = time.monotonic() + session.timeout_s
        self._has_warned = False
        self.has_joined = False

    def check(self) -> None:
        """Raises `CommandFailed` if --timeout has passed and the broker refuses the member.

        Without a broker error, the group may be waiting for another member, up to that member's
        session timeout. The run then says so and keeps waiting.
        """
        if self.has_joined or time.monotonic() < self._due:
            return
        waited = (
            f"group {self._group!r} assigned no partitions within {self._session.timeout_s:g} s"
        )
        error = self._errors.recent()
        if error is not None:
            disks = full_disks(self._session)
            raise CommandFailed(
                f"{waited}; last broker error: {error}" + (f"; {disks}" if disks else "")
            )
        found = self._session.run(self._describe_group)
        if not self._has_warned:
            members = "" if isinstance(found, Refusal) else counted(len(found.members), "member")
            state = "" if isinstance(found, Refusal) else f" (state {found.state}, {members})"
            remark(f"{waited}{state}; still waiting")
        self._has_warned = True
        self._due = time.monotonic() + self._session.timeout_s

    async def _describe_group(self, client: ClusterClient) -> GroupDescription | Refusal:
        return await describe_group(client, self._group, timeout_s=self._session.timeout_s)


def _close_consumer(
    session: Session, consumer: "Consumer", errors: BrokerErrors, group: str | None
) -> None:
    """Commits the offsets and leaves the group.

    librdkafka retries a refused commit for minutes; this waits no longer than --timeout.
    """
    if group is None:
        consumer.close()
        return
    failures: list[str] = []
    ending = threading.Thread(
        target=_commit_and_close, args=(consumer, failures), name="commit", daemon=True
    )
    ending.start()
    ending.join(session.timeout_s)
    if ending.is_alive():
        error = errors.recent()
        failures.append(
            f"not done within {session.timeout_s:g} s" + (f", {error}" if error else "")
        )
    for failure in failures:
        remark(f"the last offsets of group {group!r} were not committed: {failure}")


def _commit_and_close(consumer: "Consumer", failures: list[str]) -> None:
    from confluent_kafka import KafkaError, KafkaException

    try:
        consumer.commit(asynchronous=False)
    except KafkaException as error:
        if error.args[0].code() != KafkaError._NO_OFFSET:
            failures.append(error.args[0].str())
    finally:
        consumer.close()
