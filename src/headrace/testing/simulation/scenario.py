"""The scenario of one seed: a cluster, clients that use it, faults, and the final checks.

outcome = run(seed=42, seconds=60) outcome.violation # None, or the broken guarantee
"""

from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from logging import ERROR, Handler, LogRecord, getLogger
from random import Random
from typing import Final

from headrace.client.admin.configs import (
    ConfigChange,
    Operation,
    Resource,
    ResourceKind,
    alter_configs,
)
from headrace.client.admin.topics import NewTopic, create_topics
from headrace.client.client import ClusterClient
from headrace.client.results import Refusal
from headrace.storage.errors import StorageError
from headrace.testing.simulation.brokers import BrokerProcess, idle
from headrace.testing.simulation.checks.fetch_audit import FetchAudit, auditing
from headrace.testing.simulation.checks.history import History, Place, Violation
from headrace.testing.simulation.checks.invariants import InvariantChecker
from headrace.testing.simulation.checks.replica_comparison import all_is_committed, check_replicas
from headrace.testing.simulation.clients.administrator import Administrator
from headrace.testing.simulation.clients.classic_group import SimulatedClassicMember
from headrace.testing.simulation.clients.committed_offsets import CommitLedger
from headrace.testing.simulation.clients.compacted_topic import CONFIG, TableWriter, check_table
from headrace.testing.simulation.clients.group import GroupMember
from headrace.testing.simulation.clients.guarded_topic import (
    GUARDED,
    GuardedProducer,
    GuardedReader,
    RightsAdministrator,
    RightWatch,
    give_right,
)
from headrace.testing.simulation.clients.guarded_topic import SETTINGS as GUARDED_SETTINGS
from headrace.testing.simulation.clients.share_group import GROUP as SHARE_GROUP
from headrace.testing.simulation.clients.share_group import ShareDeliveries, SimulatedShareMember
from headrace.testing.simulation.clients.transactions import (
    CommittedReader,
    TransactionalProducer,
    TransactionHistory,
)
from headrace.testing.simulation.clients.workload import Producer, Reader, client_of
from headrace.testing.simulation.cluster import SimulatedCluster
from headrace.testing.simulation.nemesis import FaultProfile, Nemesis
from headrace.testing.simulation.process import Incarnation
from headrace.testing.simulation.schedule import EndlessWork
from headrace.testing.simulation.simulation import Simulation, SimulationError

DEFAULT_SECONDS: Final = 60.0
HEALING_S: Final = 90.0
"""The time in which a cluster must recover after all faults have ended."""

START_S: Final = 30.0
MEAN_PAUSE_S: Final = 0.3
PRODUCERS_PER_PARTITION: Final = 1
PARTITIONS: Final = 2
MEMBERS: Final = 3
CLASSIC_MEMBERS: Final = 3
SHARE_MEMBERS: Final = 3  # for two partitions: some members share one
TRANSACTIONAL_PRODUCERS: Final = 2
PLAIN: Final = "plain"
SAFE: Final = "safe"
BANK: Final = "bank"
TABLE: Final = "table"
HEALS: Final = "a cluster recovers when its faults end"
NO_ERRORS: Final = "no code fails unexpectedly"
NO_CIRCLES: Final = "no code loops without end"

Client = (
    Producer
    | Reader
    | GroupMember
    | SimulatedClassicMember
    | SimulatedShareMember
    | Administrator
    | TransactionalProducer
    | RightsAdministrator
)


@dataclass(slots=True)
class Outcome:
    """The result of a seed. Without acknowledgements and faults it proves nothing."""

    seed: int
    profile: FaultProfile
    brokers: int
    digest: str = ""
    events: int = 0
    acknowledged: int = 0
    read: int = 0
    commits: int = 0
    classic_commits: int = 0
    deliveries: int = 0
    transactions: int = 0
    denied: int = 0
    faults: dict[str, int] = field(default_factory=dict)
    violation: Violation | None = None
    recent: list[str] = field(default_factory=list)


class _Errors(Handler):
    """Collects exceptions that the code under test only logged."""

    def __init__(self) -> None:
        super().__init__(ERROR)
        self.found: list[str] = []

    def emit(self, record: LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            if not isinstance(error, OSError | StorageError):  # from the simulated disk
                self.found.append(f"{record.name}: {record.getMessage()}: {error!r}")


@contextmanager
def _collecting_errors() -> Iterator[_Errors]:
    logger = getLogger("headrace")
    errors = _Errors()
    level, propagate = logger.level, logger.propagate
    logger.addHandler(errors)
    logger.setLevel(ERROR)
    logger.propagate = False
    try:
        yield errors
    finally:
        logger.removeHandler(errors)
        logger.setLevel(level)
        logger.propagate = propagate


def run(seed: int, seconds: float = DEFAULT_SECONDS, *, guarded: bool = False) -> Outcome:
    """Runs the scenario of this seed; `guarded` adds an authorizer and a topic with ACLs."""
    with _collecting_errors() as errors, auditing() as witness, Simulation(seed) as simulation:
        story = Scenario(simulation, witness, guarded=guarded)
        outcome = story.outcome
        try:
            story.play(seconds)
            if errors.found or simulation.errors:
                raise Violation(NO_ERRORS, "; ".join([*errors.found, *simulation.errors][:3]))
        except Violation as violation:
            outcome.violation = violation
        except SimulationError as error:
            outcome.violation = Violation(HEALS, f"{error}; {errors.found[:2]}")
        except EndlessWork as error:
            outcome.violation = Violation(NO_CIRCLES, f"{simulation.now_s:.3f} s: {error}")
        outcome.digest = simulation.trace.digest
        outcome.events = simulation.trace.events
        outcome.recent = list(simulation.trace.recent)
        return outcome


class Scenario:
    """The events of one simulation."""

    def __init__(
        self, simulation: Simulation, witness: FetchAudit, *, guarded: bool = False
    ) -> None:
        self.simulation = simulation
        self._witness = witness
        self._random: Random = simulation.schedule.random_of("story")
        profile = FaultProfile.STORM if self._random.random() < 0.25 else FaultProfile.MINORITY
        brokers = 3 if self._random.random() < 0.75 else self._random.randint(4, 5)
        self.outcome = Outcome(simulation.seed, profile, brokers)
        settings = GUARDED_SETTINGS if guarded else None
        self.cluster = SimulatedCluster(simulation, brokers, settings)
        self.rights = RightWatch(self.cluster.brokers.values())
        self.guarded = [Place(GUARDED, index) for index in range(PARTITIONS if guarded else 0)]
        self.history = History()
        self.ledger = CommitLedger()
        self.classic_ledger = CommitLedger()
        self.books = TransactionHistory()
        self.invariants = InvariantChecker(
            self.cluster.brokers, compacted={TABLE}, flushed={SAFE, GUARDED}
        )
        self.deliveries = ShareDeliveries(self.invariants.led)
        for broker in self.cluster.brokers.values():
            broker.process.after_turn = lambda broker=broker: self._after_iteration(broker)
        self._clients: Incarnation = simulation.process("clients", idle).start()
        topics = [SAFE] if profile is FaultProfile.STORM else [SAFE, PLAIN]
        self.places = [Place(topic, index) for topic in topics for index in range(PARTITIONS)]
        # Not in a storm: records of a coordinator are not flushed and may be lost there.
        banks = 0 if profile is FaultProfile.STORM else PARTITIONS
        self.table = Place(TABLE, 0)
        self.shared = [place for place in self.places if place.topic == PLAIN]
        self.banks = [Place(BANK, index) for index in range(banks)]

    def _after_iteration(self, broker: BrokerProcess) -> None:
        self._witness.check()
        self.invariants.check_broker(broker)
        if self.guarded:
            self.rights.update()

    def play(self, seconds: float) -> None:
        simulation, cluster = self.simulation, self.cluster
        cluster.start()
        admin = self._client("admin")
        self._create_topics(admin)
        clients: list[Client] = [*self._producers(), *self._readers(), *self._members()]
        clients += [*self._classic_members(), *self._share_members()]
        clients += [*self._transactional_producers(), *self._table_clients(), self._administrator()]
        clients += self._guarded_clients()
        tasks = [self._clients.run(each.run()) for each in clients]
        chance = simulation.schedule.random_of("nemesis")
        nemesis = Nemesis(cluster, self.outcome.profile, chance)
        nemesis.start()
        simulation.run(seconds)
        nemesis.stop()
        self.outcome.faults = nemesis.faults
        simulation.run_until(cluster.is_whole, HEALING_S, "all replicas in sync again")
        for each in clients:
            each.stopping = True
        simulation.run_until(
            lambda: all(task.done() for task in tasks), HEALING_S, "the clients end"
        )
        for task in tasks:
            task.result()
        if self.guarded:
            simulation.do(self._clients, lambda: give_right(admin), HEALING_S)
        places = [*self.places, *self.banks, *self.guarded]
        simulation.run_until(
            # A follower that fetches from a host without power is out of sync until it notices.
            lambda: cluster.is_whole() and all_is_committed(cluster.brokers, [*places, self.table]),
            HEALING_S,
            "all that leaders have is committed",
        )
        check_replicas(cluster.brokers, places)
        self.outcome.denied = self.rights.denied
        self.outcome.acknowledged = self.history.acknowledged
        self.outcome.read = self.history.read
        self.outcome.commits = self.ledger.commits
        self.outcome.classic_commits = self.classic_ledger.commits
        self.outcome.transactions = self.books.committed
        self._drain_share_group()
        self.outcome.deliveries = self.deliveries.count
        for place in [*self.places, *self.guarded]:
            log = simulation.do(
                self._clients, Reader(admin, None, place, self._clients.random).read_all
            )
            self.history.check(place, log)
        shown = {
            place: simulation.do(
                self._clients, CommittedReader(admin, None, place, self._clients.random).read_all
            )
            for place in self.banks
        }
        self.books.check(shown)
        reader = Reader(admin, None, self.table, self._clients.random)
        left = simulation.do(self._clients, reader.read_all)
        check_table(self.history, self.table, left)

    def _create_topics(self, admin: ClusterClient) -> None:
        replicas = 3
        wanted = [
            NewTopic(SAFE, PARTITIONS, replicas, {"flush.messages": "1"}),
            NewTopic(PLAIN, PARTITIONS, replicas),
            NewTopic(BANK, PARTITIONS, replicas),
            NewTopic(TABLE, 1, replicas, CONFIG),
        ]
        if self.guarded:
            wanted.append(NewTopic(GUARDED, PARTITIONS, replicas, {"flush.messages": "1"}))

        async def create() -> Mapping[str, Refusal | None]:
            group = Resource(ResourceKind.GROUP, SHARE_GROUP)
            reset = ConfigChange("share.auto.offset.reset", Operation.SET, "earliest")
            altered = await alter_configs(admin, {group: [reset]}, timeout_s=START_S)
            assert not any(altered.values()), altered
            if self.guarded:
                await give_right(admin)
            return await create_topics(admin, wanted, timeout_s=START_S)

        self.simulation.run_until(self.cluster.is_known, START_S, "all brokers are registered")
        refused = self.simulation.do(self._clients, create, START_S)
        assert not any(refused.values()), refused
        self.simulation.run_until(self.cluster.is_whole, START_S, "the cluster has started")

    def _producers(self) -> list[Producer]:
        return [
            Producer(
                self._client(f"producer-{place}-{number}"),
                self.history,
                place,
                f"{place}/{number}",
                mean_pause_s=MEAN_PAUSE_S,
                chance=self._clients.random,
                acknowledged=self.invariants.acknowledged,
            )
            for place in self.places
            for number in range(PRODUCERS_PER_PARTITION)
        ]

    def _readers(self) -> list[Reader]:
        return [
            Reader(self._client(f"reader-{place}"), self.history, place, self._clients.random)
            for place in self.places
        ]

    def _members(self) -> list[GroupMember]:
        """Not in a storm: commits of a group are not flushed and may be lost there."""
        if self.outcome.profile is FaultProfile.STORM:
            return []
        topics = self._topics({place.topic for place in self.places})
        return [
            GroupMember(self._client(f"member-{number}"), self.ledger, topics, self._clients.random)
            for number in range(MEMBERS)
        ]

    def _classic_members(self) -> list[SimulatedClassicMember]:
        """Not in a storm, as the others."""
        if self.outcome.profile is FaultProfile.STORM:
            return []
        return [
            SimulatedClassicMember(
                self._client(f"classic-{number}"),
                self.classic_ledger,
                self.places,
                self._clients.random,
            )
            for number in range(CLASSIC_MEMBERS)
        ]

    def _share_members(self) -> list[SimulatedShareMember]:
        """Not in a storm, as the others."""
        return [self._share_member(number) for number in range(SHARE_MEMBERS if self.shared else 0)]

    def _share_member(self, number: int) -> SimulatedShareMember:
        (topic,) = self._topics({PLAIN}).items()
        return SimulatedShareMember(
            self._client(f"share-{number}"),
            self.deliveries,
            self.history,
            topic,
            self._clients.world.clock,
            self._clients.random,
        )

    def _drain_share_group(self) -> None:
        """One more member gets all records that the share group has not finished."""
        if self.shared:
            member = self._share_member(SHARE_MEMBERS)
            self.simulation.do(self._clients, lambda: member.drain(self.shared), 2 * HEALING_S)

    def _topics(self, names: Container[str]) -> dict[bytes, str]:
        """The topics by their ids."""
        node = next(each.node for each in self.cluster.brokers.values() if each.node is not None)
        return {
            topic.topic_id: name
            for name, topic in sorted(node.metadata.image.topics.items())
            if name in names
        }

    def _table_clients(self) -> list[Client]:
        place, chance = self.table, self._clients.random
        return [
            TableWriter(
                self._client(f"producer-{place}"),
                self.history,
                place,
                self._clients.world.clock,
                chance,
                self.invariants.acknowledged,
            ),
            Reader(self._client(f"reader-{place}"), self.history, place, chance),
        ]

    def _transactional_producers(self) -> list[TransactionalProducer | Reader]:
        """Transactional producers, and a reader of each partition that they write to."""
        tellers: list[TransactionalProducer | Reader] = []
        if not self.banks:
            return tellers
        for number in range(TRANSACTIONAL_PRODUCERS):
            name = f"teller-{number}"
            client = self._client(name)
            clock, chance = self._clients.world.clock, self._clients.random
            tellers.append(
                TransactionalProducer(client, self.books, self.banks, name, clock, chance)
            )
        for place in self.banks:
            client = self._client(f"reader-{place}")
            reader = CommittedReader(client, None, place, self._clients.random)
            reader.books = self.books
            tellers.append(reader)
        return tellers

    def _guarded_clients(self) -> list[Client]:
        chance = self._clients.random
        found: list[Client] = []
        for place in self.guarded:
            name = f"producer-{place}"
            acked = self.invariants.acknowledged
            found.append(
                GuardedProducer(self._client(name), self.history, place, self.rights, chance, acked)
            )
            reader = self._client(f"reader-{place}")
            found.append(GuardedReader(reader, self.history, place, self.rights, chance))
        if self.guarded:
            rights = self.simulation.schedule.random_of("rights")
            found.append(RightsAdministrator(self._client("rights"), rights))
        return found

    def _administrator(self) -> Administrator:
        return Administrator(
            self._client("administrator"),
            [*self.places, *self.banks, self.table, *self.guarded],
            list(self.cluster.brokers),
            self.simulation.schedule.random_of("administrator"),
        )

    def _client(self, name: str) -> ClusterClient:
        return client_of(self._clients, self.cluster.bootstrap, name)
