"""Consumer groups under churn: no partition has two owners, and the group becomes stable.

Clients join, change their subscription, leave, die and are paused; heartbeats and their answers
get lost; topics come, grow and go; the coordinator restarts; time passes. Each client behaves as
a real one: it drops at once what an answer takes away, takes at once what it gives, reports what
it owns, and starts afresh when it is fenced.
"""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.coordinator.common.errors import CoordinatorError
from headrace.coordinator.group.consumer.consumer_group import ConsumerGroup
from headrace.protocol.errors import ErrorCode
from support.groups.classic_groups import GROUP
from support.groups.consumer_groups import REBALANCE_MS, SESSION_MS, ConsumerDriver

TOPICS = ("t1", "t2", "t3")
NAMES = ("a", "b", "c", "d")
FRESH_START = {ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID}
Partition = tuple[bytes, int]


class Client:
    """One consumer; `owned` is what it reads from."""

    def __init__(self, driver: ConsumerDriver, name: str) -> None:
        self.driver = driver
        self.name = name
        self.epoch = 0
        self.topics: frozenset[str] = frozenset()
        self.owned: set[Partition] = set()
        self.lives = False
        self.says_all = True

    def start(self, topics: frozenset[str]) -> None:
        self.topics = topics
        self.says_all = True
        if not self.lives:
            self.lives = True
            self.rejoin()

    def rejoin(self) -> None:
        self.epoch = 0
        self.owned = set()
        self.says_all = True

    def die(self) -> None:
        self.lives = False
        self.owned = set()

    def leave(self) -> None:
        self.die()
        try:
            self.driver.beat(self.name, -1)
        except CoordinatorError as error:
            assert error.code in FRESH_START | {ErrorCode.GROUP_ID_NOT_FOUND}

    def beat(self, *, lose_answer: bool = False) -> None:
        if not self.lives:
            return
        everything = self.says_all or self.epoch == 0
        try:
            answer = self.driver.beat(
                self.name,
                self.epoch,
                topics=sorted(self.topics) if everything else None,
                owned=self._report(),
                rebalance_ms=REBALANCE_MS if everything else -1,
            )
        except CoordinatorError as error:
            assert error.code in FRESH_START | {ErrorCode.GROUP_ID_NOT_FOUND}
            if not lose_answer:
                self.rejoin()
            return
        if lose_answer:
            self.says_all = True  # as clients do after a time-out
            return
        self.says_all = False
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.owned = {
                (one.topic_id, number)
                for one in answer.assignment.topic_partitions
                for number in one.partitions
            }

    def _report(self) -> dict[bytes, set[int]]:
        report: dict[bytes, set[int]] = {}
        for topic_id, number in self.owned:
            report.setdefault(topic_id, set()).add(number)
        return report


def check(driver: ConsumerDriver, clients: list[Client]) -> None:
    group = driver.shard.groups.get(GROUP)
    if not isinstance(group, ConsumerGroup):
        return
    held = Counter(
        (topic_id, number)
        for member in group.members.values()
        for owned in (member.assigned, member.revoking)
        for topic_id, numbers in owned.items()
        for number in numbers
    )
    assert all(count == 1 for count in held.values()), "the coordinator gave a partition twice"
    for client in clients:
        member = group.members.get(client.name)
        if member is None or client.epoch not in (member.epoch, member.previous_epoch):
            continue  # it will be fenced
        theirs = {
            (topic_id, number)
            for owned in (member.assigned, member.revoking)
            for topic_id, numbers in owned.items()
            for number in numbers
        }
        assert client.owned <= theirs, "a client reads what the coordinator may give to another"


def busy_group() -> tuple[ConsumerDriver, dict[str, Client]]:
    """Two clients share two topics; two more may come."""
    driver = ConsumerDriver(t1=3, t2=2, t3=4)
    clients = {name: Client(driver, name) for name in NAMES}
    for name in NAMES[:2]:
        clients[name].start(frozenset(TOPICS[:2]))
        clients[name].beat()
    return driver, clients


def come_to_rest(driver: ConsumerDriver, clients: list[Client]) -> None:
    """Everybody heartbeats for long enough that the dead are gone and the living have settled."""
    driver.topics_changed(*TOPICS)
    for _ in range(30):
        for client in clients:
            client.beat()
            check(driver, clients)
        driver.advance(SESSION_MS // 10)


subscriptions = st.frozensets(st.sampled_from(TOPICS), min_size=1)
steps = st.one_of(
    st.tuples(st.just("start"), st.sampled_from(NAMES), subscriptions),
    st.tuples(st.just("beat"), st.sampled_from(NAMES)),
    st.tuples(st.just("beat"), st.sampled_from(NAMES)),
    st.tuples(st.just("beat all")),
    st.tuples(st.just("lost"), st.sampled_from(NAMES)),
    st.tuples(st.just("leave"), st.sampled_from(NAMES)),
    st.tuples(st.just("die"), st.sampled_from(NAMES)),
    st.tuples(st.just("advance"), st.sampled_from([1_000, 20_000, SESSION_MS, REBALANCE_MS])),
    st.tuples(st.just("grow"), st.sampled_from(TOPICS)),
    st.tuples(st.just("recreate"), st.sampled_from(TOPICS)),
    st.tuples(st.just("restart")),
)


def perform(driver: ConsumerDriver, clients: dict[str, Client], step: tuple[object, ...]) -> None:
    match step:
        case ("start", str(name), frozenset() as topics):
            clients[name].start(topics)
            clients[name].beat()
        case ("beat", str(name)):
            clients[name].beat()
        case ("beat all",):
            for client in clients.values():
                client.beat()
        case ("lost", str(name)):
            clients[name].beat(lose_answer=True)
        case ("leave", str(name)):
            clients[name].leave()
        case ("die", str(name)):
            clients[name].die()
        case ("advance", int(ms)):
            driver.advance(ms)
        case ("grow", str(name)):
            driver.cluster.grow(name, 1)
            driver.topics_changed(name)
        case ("recreate", str(name)):
            driver.cluster.delete(name)
            driver.cluster.create(name, 2)
            driver.topics_changed(name)
        case ("restart",):
            driver.restart()


@settings(max_examples=50, deadline=None)
@given(plan=st.lists(steps, min_size=5, max_size=40))
def test_no_partition_has_two_owners_and_every_group_becomes_stable(
    plan: list[tuple[object, ...]],
) -> None:
    driver, clients = busy_group()
    for step in plan:
        perform(driver, clients, step)
        check(driver, list(clients.values()))
    come_to_rest(driver, list(clients.values()))
    living = [client for client in clients.values() if client.lives]
    wanted = {
        (topic.topic_id, number)
        for name, topic in driver.cluster.image.topics.items()
        for number in range(len(topic.partitions))
        if any(name in client.topics for client in living)
    }
    owned = [partition for client in living for partition in client.owned]
    assert sorted(owned) == sorted(wanted)
    if living:
        assert driver.consumers.state_name(0) == "Stable"
        assert set(driver.consumers.members) == {client.name for client in living}


@settings(max_examples=25, deadline=None)
@given(plan=st.lists(steps, min_size=5, max_size=30))
def test_a_restart_at_any_moment_restores_the_group(plan: list[tuple[object, ...]]) -> None:
    driver, clients = busy_group()
    for step in plan:
        perform(driver, clients, step)
    before = driver.shard.groups.get(GROUP)
    driver.restart()
    after = driver.shard.groups.get(GROUP)
    assert (before is None) == (after is None)
    if isinstance(before, ConsumerGroup) and isinstance(after, ConsumerGroup):
        for field in ("members", "target", "epoch", "assignment_epoch", "topics", "instances"):
            assert getattr(after, field) == getattr(before, field), field
