"""Members of a share group (KIP-932), and the invariants of their deliveries.

A record is finished when a member accepted or rejected it and got a response without an error: it
is not delivered again. A record that was released, with a response, is delivered again with a
higher count. A record that is not finished is delivered until it is: after all faults have ended,
one more member gets all remaining records that were acknowledged to producers.

Kafka guarantees no more than that. A leader that was replaced, and does not know it yet, may
deliver records that its successor has finished. So a delivery is checked with the epoch of its
leader, and with the time of the request, because a response may be delayed. Locks expire: without a
response to its acknowledgement, a record may be delivered again, to any member. Two members may
both get a success for the same record: a member whose lock had expired gets no error if everything
up to that record is finished.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final, NamedTuple

from headrace.client.client import ClusterClient, ToBroker
from headrace.client.coordinators import CoordinatorNode
from headrace.client.errors import ClientError
from headrace.clock import Clock
from headrace.protocol.messages.share_acknowledge import (
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeAcknowledgementBatch,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
)
from headrace.protocol.messages.share_fetch import (
    ShareFetchAcknowledgementBatch,
    ShareFetchFetchPartition,
    ShareFetchFetchTopic,
    ShareFetchPartitionData,
    ShareFetchRequest,
    ShareFetchResponse,
)
from headrace.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from headrace.share.record_state import AcknowledgeType
from headrace.testing.simulation.checks.history import History, Place, Violation
from headrace.testing.simulation.clients.workload import records_in

GROUP: Final = "share"
JOINING: Final = 0
LEAVING: Final = -1
NEW_SESSION: Final = 0
LAST_OF_SESSION: Final = -1

API_TIMEOUT_S: Final = 10.0
DRAIN_S: Final = 60.0
RETRY_S: Final = 0.3
MEAN_PAUSE_S: Final = 0.8
BEAT_EVERY_S: Final = 2.0
FETCH_WAIT_MS: Final = 300
FETCH_BYTES: Final = 1 << 20
MOST_RECORDS: Final = 12
DELIVERIES: Final = 10
"""Kafka's largest limit. After this number of deliveries a record is archived, processed or not.
Members release records so rarely that only many lost responses lead to this."""

LAST_RELEASE: Final = 3
LEAVES: Final = 0.03  # share of the rounds
ENDS_SESSION: Final = 0.03  # share of the rounds; leaves records without acknowledgement
FORGETS: Final = 0.05  # share of the fetched records: their locks expire
RELEASES: Final = 0.2  # share of the records
REJECTS: Final = 0.05

FINISHED: Final = "finished records of a share group are not delivered again"
COUNTS_GROW: Final = "delivery counts of released records grow"
ALL_DELIVERED: Final = "a share group gets every record until it is finished"

_FINAL: Final = (AcknowledgeType.ACCEPT, AcknowledgeType.REJECT)

Spot = tuple[Place, int]  # one record: partition and offset
Led = Callable[[Place, int], int]
"""The latest epoch in which a broker led a partition."""


class Moment(NamedTuple):
    """The time of a request or response, and the latest epoch in which its broker led."""

    number: int
    epoch: int


@dataclass(slots=True)
class ShareDeliveries:
    """The deliveries to all members, and their results as far as the members know."""

    led: Led
    finished: dict[Spot, Moment] = field(default_factory=dict)
    released: dict[Spot, tuple[Moment, int]] = field(default_factory=dict)
    settled: set[Spot] = field(default_factory=set)
    """Records that may be missing: a member sent their acknowledgement, or their deliveries are
    used up."""
    count: int = 0
    _moments: int = 0

    def moment(self, place: Place, broker_id: int) -> Moment:
        self._moments += 1
        return Moment(self._moments, self.led(place, broker_id))

    def delivered(self, place: Place, offset: int, deliveries: int, asked: Moment) -> None:
        spot = place, offset
        done = self.finished.get(spot)
        if done is not None and _is_after(asked, done):
            raise Violation(FINISHED, f"{place} offset {offset}: {done}, delivered {asked}")
        moment, before = self.released.get(spot, (asked, 0))
        if deliveries <= before and _is_after(asked, moment):
            said = f"released as number {before}, delivered as number {deliveries}"
            raise Violation(COUNTS_GROW, f"{place} offset {offset}: {said}")
        self.count += 1
        if deliveries >= DELIVERIES:
            self.settled.add(spot)

    def asked(self, place: Place, said: Mapping[int, "Verdict"]) -> None:
        """Records a sent acknowledgement, with or without a response."""
        self.settled.update((place, at) for at, each in said.items() if each.kind in _FINAL)

    def confirmed(self, place: Place, said: Mapping[int, "Verdict"], now: Moment) -> None:
        for offset, verdict in said.items():
            spot = place, offset
            if verdict.kind not in _FINAL:
                self.released[spot] = (now, verdict.deliveries)
            else:
                self.finished.setdefault(spot, now)

    def missing(self, history: History, places: Iterable[Place]) -> list[Spot]:
        """The offsets of produced records that no member could finish."""
        return [
            (place, offset)
            for place in places
            for offset in sorted(history.of(place).acknowledged.values())
            if offset >= 0 and (place, offset) not in self.settled
        ]


def _is_after(asked: Moment, answered: Moment) -> bool:
    """Whether the request came after the other response, to the same leader or a later one."""
    return asked.number > answered.number and asked.epoch >= answered.epoch


class Verdict(NamedTuple):
    """The acknowledgement type of a delivered record, and its delivery count."""

    kind: AcknowledgeType
    deliveries: int


Said = dict[Place, dict[int, Verdict]]


@dataclass(slots=True)
class _Session:
    """A share session with one broker: its partitions, and records not acknowledged yet."""

    places: list[Place]
    epoch: int = NEW_SESSION
    held: Said = field(default_factory=dict)


class SimulatedShareMember:
    """Joins, fetches, accepts, releases and rejects; sometimes forgets records or leaves."""

    def __init__(
        self,
        client: ClusterClient,
        deliveries: ShareDeliveries,
        history: History,
        topic: tuple[bytes, str],
        clock: Clock,
        chance: Random,
    ) -> None:
        self._client = client
        self._deliveries = deliveries
        self._history = history
        self._topic_id, self._topic = topic
        self._clock = clock
        self._random = chance
        self._id = ""
        self._epoch = JOINING
        self._beat_at = 0.0
        self._assigned: list[Place] = []
        self._sessions: dict[int, _Session] = {}
        self._draining = False
        self.stopping = False

    async def run(self) -> None:
        while not self.stopping:
            self._restart()
            try:
                while not self.stopping and await self._round():
                    await asyncio.sleep(self._random.expovariate(1 / MEAN_PAUSE_S))
                    if self._random.random() < LEAVES:
                        break
                await self._heartbeat(LEAVING)
            except ClientError:
                await asyncio.sleep(RETRY_S)

    async def drain(self, places: Sequence[Place]) -> None:
        """Accepts all remaining records after all faults have ended, while other locks expire."""
        self._draining = True
        self._restart()
        began = self._clock.monotonic()
        while missing := self._deliveries.missing(self._history, places):
            if self._clock.monotonic() > began + DRAIN_S:
                raise Violation(ALL_DELIVERED, f"{len(missing)} are not, the first is {missing[0]}")
            try:
                if not await self._round():
                    self._restart()
            except ClientError:
                self._restart()
            await asyncio.sleep(RETRY_S)

    def _restart(self) -> None:
        """Starts again with another member id."""
        self._id = f"{self._random.getrandbits(128):032x}"
        self._epoch = JOINING
        self._beat_at = 0.0
        self._assigned = []
        self._sessions = {}

    async def _round(self) -> bool:
        """Sends a heartbeat if it is due, and fetches; False if the group does not know the
        member."""
        now = self._clock.monotonic()
        if now >= self._beat_at:
            answer = await self._heartbeat(self._epoch)
            if answer.error_code:
                return False
            self._beat_at = now + BEAT_EVERY_S
            self._epoch = answer.member_epoch
            if answer.assignment is not None:
                self._assigned = [
                    Place(self._topic, index)
                    for each in answer.assignment.topic_partitions
                    for index in sorted(each.partitions)
                ]
        for broker_id, places in (await self._leaders()).items():
            session = self._sessions.get(broker_id)
            if session is None or session.places != places:
                # Records of that session are not acknowledged any more: their locks expire.
                session = self._sessions[broker_id] = _Session(places)
            await self._fetch_from(broker_id, session)
        return True

    async def _leaders(self) -> dict[int, list[Place]]:
        """The leaders of the assigned partitions."""
        metadata = self._client.metadata
        if metadata.topic(self._topic) is None:
            await self._client.refresh([self._topic], timeout_s=API_TIMEOUT_S)
        leaders: dict[int, list[Place]] = {}
        known = metadata.topic(self._topic)
        for place in self._assigned if known is not None else ():
            leaders.setdefault(metadata.leader_of(*place), []).append(place)
        return leaders

    async def _fetch_from(self, broker_id: int, session: _Session) -> None:
        """Sends one or two requests; after an error the next one begins another session."""
        try:
            well = True
            if session.epoch != NEW_SESSION and self._random.random() < ENDS_SESSION:
                await self._acknowledge(broker_id, session, LAST_OF_SESSION)
                well = False
            elif session.held and self._random.random() < 0.5:
                well = await self._acknowledge(broker_id, session, session.epoch)
            well = well and await self._fetch(broker_id, session)
        except ClientError:
            well = False
        if not well:
            self._sessions.pop(broker_id, None)
            self._client.metadata.forget(self._topic)

    # --- requests -------------------------------------------------------------------------------

    async def _heartbeat(self, epoch: int) -> ShareGroupHeartbeatResponse:
        return await self._client.send(
            ShareGroupHeartbeatRequest(
                group_id=GROUP,
                member_id=self._id,
                member_epoch=epoch,
                subscribed_topic_names=[self._topic] if epoch == JOINING else None,
            ),
            ShareGroupHeartbeatResponse,
            to=CoordinatorNode(GROUP),
            timeout_s=API_TIMEOUT_S,
        )

    async def _acknowledge(self, broker_id: int, session: _Session, epoch: int) -> bool:
        said = self._take_acknowledgements(session)
        topic = AcknowledgeTopic(
            topic_id=self._topic_id,
            partitions=[
                AcknowledgePartition(
                    partition_index=place.partition,
                    acknowledgement_batches=[
                        ShareAcknowledgeAcknowledgementBatch(
                            first_offset=first, last_offset=last, acknowledge_types=types
                        )
                        for first, last, types in _runs(verdicts)
                    ],
                )
                for place, verdicts in said.items()
            ],
        )
        answer = await self._client.send(
            ShareAcknowledgeRequest(
                group_id=GROUP,
                member_id=self._id,
                share_session_epoch=epoch,
                topics=[topic] if said else [],
            ),
            ShareAcknowledgeResponse,
            to=ToBroker(broker_id),
            timeout_s=API_TIMEOUT_S,
            retry=False,
        )
        if answer.error_code:
            return False
        session.epoch += 1
        codes = {
            Place(self._topic, each.partition_index): each.error_code
            for topic_answer in answer.responses
            for each in topic_answer.partitions
        }
        self._handle_acknowledgement_codes(broker_id, said, codes)
        return not any(codes.values())

    async def _fetch(self, broker_id: int, session: _Session) -> bool:
        said = self._take_acknowledgements(session)
        named = session.places if session.epoch == NEW_SESSION else list(said)
        topic = ShareFetchFetchTopic(
            topic_id=self._topic_id,
            partitions=[
                ShareFetchFetchPartition(
                    partition_index=place.partition,
                    acknowledgement_batches=[
                        ShareFetchAcknowledgementBatch(
                            first_offset=first, last_offset=last, acknowledge_types=types
                        )
                        for first, last, types in _runs(said.get(place, {}))
                    ],
                )
                for place in named
            ],
        )
        asked = {place: self._deliveries.moment(place, broker_id) for place in session.places}
        answer = await self._client.send(
            ShareFetchRequest(
                group_id=GROUP,
                member_id=self._id,
                share_session_epoch=session.epoch,
                max_wait_ms=FETCH_WAIT_MS,
                min_bytes=1,
                max_bytes=FETCH_BYTES,
                max_records=MOST_RECORDS,
                batch_size=MOST_RECORDS,
                share_acquire_mode=self._random.randint(0, 1),
                topics=[topic] if named else [],
            ),
            ShareFetchResponse,
            to=ToBroker(broker_id),
            timeout_s=API_TIMEOUT_S,
            retry=False,
        )
        if answer.error_code:
            return False
        session.epoch += 1
        found = {
            Place(self._topic, each.partition_index): each
            for topic_answer in answer.responses
            for each in topic_answer.partitions
        }
        codes = {place: each.acknowledge_error_code for place, each in found.items()}
        self._handle_acknowledgement_codes(broker_id, said, codes)
        for place, data in found.items():
            if not data.error_code:
                self._take_delivered(session, place, data, asked[place])
        return not any(each.error_code or each.acknowledge_error_code for each in found.values())

    # --- acknowledgements -----------------------------------------------------------------------

    def _take_acknowledgements(self, session: _Session) -> Said:
        """Takes the pending acknowledgements out of the session, to send them."""
        said, session.held = session.held, {}
        for place, verdicts in said.items():
            self._deliveries.asked(place, verdicts)
        return said

    def _handle_acknowledgement_codes(
        self, broker_id: int, said: Said, codes: Mapping[Place, int]
    ) -> None:
        for place, verdicts in said.items():
            if codes.get(place) == 0:
                now = self._deliveries.moment(place, broker_id)
                self._deliveries.confirmed(place, verdicts, now)

    def _take_delivered(
        self, session: _Session, place: Place, data: ShareFetchPartitionData, asked: Moment
    ) -> None:
        counts = {
            offset: run.delivery_count
            for run in data.acquired_records
            for offset in range(run.first_offset, run.last_offset + 1)
        }
        records = [each for each in records_in(data.records or b"") if each[0] in counts]
        self._history.consumed(place, records)
        for offset, _ in records:
            self._deliveries.delivered(place, offset, counts[offset], asked)
        if self._draining or self._random.random() >= FORGETS:
            session.held.setdefault(place, {}).update(
                (offset, self._choose_type(counts[offset])) for offset, _ in records
            )

    def _choose_type(self, deliveries: int) -> Verdict:
        chance = self._random.random()
        kind = AcknowledgeType.ACCEPT
        if not self._draining and deliveries <= LAST_RELEASE and chance < RELEASES:
            kind = AcknowledgeType.RELEASE
        elif not self._draining and chance < RELEASES + REJECTS:
            kind = AcknowledgeType.REJECT
        return Verdict(kind, deliveries)


def _runs(verdicts: Mapping[int, Verdict]) -> Iterator[tuple[int, int, list[int]]]:
    """Ranges of consecutive offsets, with a type for each offset."""
    first, types = -1, list[int]()
    for offset, verdict in sorted(verdicts.items()):
        if types and offset != first + len(types):
            yield first, first + len(types) - 1, types
            types = []
        if not types:
            first = offset
        types.append(verdict.kind)
    if types:
        yield first, first + len(types) - 1, types
