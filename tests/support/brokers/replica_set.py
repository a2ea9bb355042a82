"""One partition on several brokers, without sockets: real logs, real elections, faults on demand.

Each broker keeps its log in memory files. `PartitionChange` makes the controller's decisions. Each
step is one call. `check` compares the acknowledged records with the replicas.
"""

from collections.abc import Iterator
from random import Random

from headrace.clock import SystemClock
from headrace.cluster.topology import NO_LEADER, Partition
from headrace.controller.leader_election import ElectionContext
from headrace.controller.partition_change import PartitionChange
from headrace.protocol.errors import ErrorCode
from headrace.records.batch_header import headers
from headrace.records.record import Record, build_batch, iter_records
from headrace.replication.follower import Follower
from headrace.replication.leader import IsrProposal, Leader
from headrace.replication.replica import Replica
from headrace.storage.directories.log_manager import LogManager
from headrace.storage.log.log import Log
from headrace.storage.state.log_config import LogConfig
from headrace.testing.memory_files import MemoryFileSystem

TOPIC = "t"
TOPIC_ID = b"t" * 16
NOW_MS = 1_700_000_000_000
MAX_LAG_S = 10.0


class Node:
    """One broker's replica; `role` is None while it is down."""

    def __init__(self, broker_id: int, *, flush: bool) -> None:
        self.id = broker_id
        self.epoch = 0
        self.files = MemoryFileSystem()
        self.files.mkdir("/data")
        self.files.fsync_dir("/")
        self.config = LogConfig(flush_messages=1) if flush else LogConfig()
        self.role: Leader | Follower | None = None
        self.logs: LogManager | None = None

    def boot(self) -> None:
        self.epoch += 1
        new_id = Random(self.id).randbytes
        self.logs = LogManager(
            ["/data"], self.files, SystemClock(), new_id=lambda: new_id(16), node_id=self.id
        )
        self.logs.open(lambda _topic: self.config)

    def open_log(self, _replica: Replica) -> Log:
        assert self.logs is not None
        log = self.logs.get_or_create(TOPIC, 0, TOPIC_ID, self.config)
        log.load()
        return log

    @property
    def watermark(self) -> int:
        assert self.logs is not None
        return max(
            self.role.high_watermark if self.role is not None else -1,
            self.logs.high_watermark(TOPIC, 0) or 0,
        )


class ReplicaSet:
    """The partition, its brokers, and the records that were acknowledged to producers."""

    def __init__(self, brokers: int = 3, *, min_isr: int = 2, flush: bool = False) -> None:
        self.nodes = {id_: Node(id_, flush=flush) for id_ in range(1, brokers + 1)}
        self.min_isr = min_isr
        self.now = 0.0
        self.live: set[int] = set(self.nodes)
        self.cut_off: set[int] = set()  # isolated; the controller takes them for dead
        replicas = tuple(self.nodes)
        self.partition = Partition(replicas=replicas, isr=replicas, leader=1)
        self.sent = 0
        self.acknowledged: list[tuple[int, bytes]] = []  # (offset, value)
        self.consumed: dict[int, bytes] = {}
        self.late: set[int] = set()  # brokers whose metadata updates wait for `tell`
        self._asked: list[tuple[int, IsrProposal]] = []  # proposals in flight to the controller
        for node in self.nodes.values():
            node.boot()
        self._roles()

    # --- the controller -------------------------------------------------------------------------

    def change(self) -> PartitionChange:
        return PartitionChange(self.partition, ElectionContext(frozenset(self.live), self.min_isr))

    def decide(self, change: PartitionChange) -> None:
        after = change.result()
        if after is not None:
            assert not change.was_unclean
            self.partition = after
            self._roles()

    def _roles(self) -> None:
        """Every broker that receives metadata takes the role in it."""
        for id_ in sorted(self.live - self.late):
            self._assign(self.nodes[id_])

    def tell(self, broker_id: int) -> None:
        """Delivers the waiting metadata updates."""
        self.late.discard(broker_id)
        if broker_id in self.live:
            self._assign(self.nodes[broker_id])

    def _assign(self, node: Node) -> None:
        partition, role = self.partition, node.role
        if partition.leader == node.id:
            if isinstance(role, Leader) and role.epoch == partition.leader_epoch:
                role.partition_changed(partition, self.now)
                return
            watermark = node.watermark
            if role is not None:
                role.close()
            node.role = Leader(
                TOPIC,
                TOPIC_ID,
                0,
                partition,
                node.open_log,
                broker_id=node.id,
                min_isr=self.min_isr,
                high_watermark=watermark,
                now=self.now,
            )
            log = node.role.log
            if node.role.flush_pending:
                log.flush()
                node.role.flushed(log.log_end_offset)
            return
        if isinstance(role, Follower) and role.epoch == partition.leader_epoch:
            return
        watermark = node.watermark
        if role is not None:
            role.close()
        node.role = Follower(
            TOPIC,
            TOPIC_ID,
            0,
            partition.leader_epoch,
            node.open_log,
            leader_id=partition.leader,
            high_watermark=watermark,
        )

    @property
    def leader(self) -> Leader | None:
        """The leader in the controller's metadata, if that broker has the update."""
        if self.partition.leader == NO_LEADER:
            return None
        role = self.nodes[self.partition.leader].role
        return role if isinstance(role, Leader) else None

    def isr_check(self, broker_id: int) -> None:
        """A broker that considers itself the leader checks the ISR and sends a proposal."""
        leader = self.nodes[broker_id].role
        if isinstance(leader, Leader):
            live = {id_: self.nodes[id_].epoch for id_ in self.live}
            proposal = leader.propose(live, self.now, MAX_LAG_S)
            if proposal is not None:
                self._asked.append((broker_id, proposal))

    def isr_decide(self) -> None:
        """The controller decides the oldest proposal; its answer is a metadata update."""
        if not self._asked:
            return
        broker_id, proposal = self._asked.pop(0)
        partition = self.partition
        role = self.nodes[broker_id].role
        if (
            broker_id not in self.live
            or partition.leader != broker_id
            or proposal.leader_epoch != partition.leader_epoch
            or proposal.partition_epoch != partition.partition_epoch
        ):
            return  # the metadata update will reach it
        alive = {id_: self.nodes[id_].epoch for id_ in self.live}
        if any(alive.get(id_) != epoch for id_, epoch in proposal.isr):
            if isinstance(role, Leader):
                role.refused(proposal)
            return
        change = self.change()
        change.set_isr(id_ for id_ in partition.replicas if id_ in proposal.ids)
        self.decide(change)

    # --- clients --------------------------------------------------------------------------------

    def produce(self, broker_id: int, *, acks_all: bool = True) -> None:
        """Produces one record to a broker that considers itself the leader."""
        leader = self.nodes[broker_id].role
        if not isinstance(leader, Leader) or (acks_all and not leader.enough_in_sync):
            return
        self.sent += 1
        value = b"%d" % self.sent
        batch = build_batch([Record(0, NOW_MS, None, value, ())])
        result = leader.append(memoryview(bytearray(batch)), NOW_MS)
        offset = result.first_offset

        def told(code: ErrorCode) -> None:
            if code is ErrorCode.NONE:
                self.acknowledged.append((offset, value))

        if acks_all:
            leader.when_committed(result.last_offset + 1, told)
        if result.needs_flush:
            leader.log.flush()
            leader.flushed(leader.log.log_end_offset)

    def consume(self) -> None:
        """Reads the records that the leader considers committed."""
        if self.leader is not None and self.partition.leader not in self.late:
            watermark = self.leader.high_watermark
            self.consumed |= self.values(self.partition.leader, watermark)

    # --- followers ------------------------------------------------------------------------------

    def replicate(self, broker_id: int, *, max_bytes: int = 200) -> None:
        """One fetch by one follower, like in a broker."""
        node = self.nodes[broker_id]
        follower = node.role
        if not isinstance(follower, Follower) or follower.leader_id == NO_LEADER:
            return
        if broker_id in self.cut_off or follower.leader_id in self.cut_off:
            return  # the connection is cut in both directions
        leader = self.nodes[follower.leader_id].role
        if not isinstance(leader, Leader) or leader.check_epoch(follower.epoch):
            return
        position = follower.position()
        log = leader.log
        if position.last_epoch >= 0:
            epoch, end = log.end_offset_for_epoch(position.last_epoch)
            if epoch < position.last_epoch or end < position.offset:
                follower.truncate_to(epoch, end)
                return
        if not leader.fetched(broker_id, node.epoch, position.offset, position.log_start, self.now):
            return
        live = {id_: self.nodes[id_].epoch for id_ in self.live}
        proposal = leader.propose_joining([broker_id], live)
        if proposal is not None:
            self._asked.append((follower.leader_id, proposal))
        read = log.read(position.offset, max_bytes=max_bytes)
        taken = follower.append_fetched(
            bytearray(read.data), leader.high_watermark, log.log_start_offset, NOW_MS
        )
        if taken is not None and taken.needs_flush:
            follower.log.flush()

    # --- faults ---------------------------------------------------------------------------------

    def kill(self, broker_id: int, *, noticed: bool = True) -> None:
        """Kills the process; its page cache survives. The controller may notice it later."""
        node = self.nodes[broker_id]
        if node.role is None:
            return
        node.role = None
        assert node.logs is not None
        node.logs.close(clean=False)
        node.files = node.files.after_kill()
        self.live.discard(broker_id)
        self.cut_off.discard(broker_id)
        if noticed:
            self.decide(self.change())

    def isolate(self, broker_id: int) -> None:
        """The broker runs without metadata updates; the controller takes it for dead."""
        if self.nodes[broker_id].role is not None and broker_id in self.live:
            self.live.discard(broker_id)
            self.cut_off.add(broker_id)
            self.decide(self.change())

    def rejoin(self, broker_id: int) -> None:
        """The broker gets updates again, registers again and takes its current role."""
        if broker_id in self.cut_off:
            self.cut_off.discard(broker_id)
            self.nodes[broker_id].epoch += 1
            self.live.add(broker_id)
            self.decide(self.change())
            self._assign(self.nodes[broker_id])

    def lose_power(self, broker_id: int, rng: Random) -> None:
        node = self.nodes[broker_id]
        if node.role is None:
            return
        node.role = None
        node.files = node.files.after_power_loss(rng)
        self.live.discard(broker_id)
        self.cut_off.discard(broker_id)
        self.decide(self.change())

    def restart(self, broker_id: int, *, intact: bool = True) -> None:
        node = self.nodes[broker_id]
        if node.role is not None:
            return
        node.boot()
        self.live.add(broker_id)
        change = self.change()
        if not intact:
            change.mark_unclean(broker_id)
        self.decide(change)
        self._assign(node)

    # --- verification ---------------------------------------------------------------------------

    def values(self, broker_id: int, below: int | None = None) -> dict[int, bytes]:
        """The values in a replica's log, by offset."""
        role = self.nodes[broker_id].role
        assert role is not None
        log = role.log
        limit = log.log_end_offset if below is None else below
        held: dict[int, bytes] = {}
        offset = log.log_start_offset
        while offset < limit:
            data = log.read(offset, max_bytes=1_000_000, max_offset=limit).data
            if not data:
                break
            for at, value in _values(data):
                held[at] = value
                offset = at + 1
        return held

    def heal(self) -> None:
        """Starts all brokers and lets them catch up."""
        for id_ in self.nodes:
            self.restart(id_)
            self.rejoin(id_)
        for _ in range(200):
            for id_ in self.nodes:
                self.tell(id_)
                self.replicate(id_, max_bytes=1_000_000)
                self.isr_check(id_)
            while self._asked:
                self.isr_decide()
            leader = self.leader
            if leader is None:
                continue
            ends = {node.role.log.log_end_offset for node in self.nodes.values() if node.role}
            if len(ends) == 1 and len(self.partition.isr) == len(self.nodes):
                return
        raise AssertionError(f"the replicas do not converge: {self.partition}")

    def check(self) -> None:
        """The leader has all acknowledged records; below the high watermark all replicas agree."""
        leader = self.leader
        if leader is None:
            return
        if self.partition.leader in self.late:
            return
        held = self.values(self.partition.leader)
        for offset, value in (*self.acknowledged, *self.consumed.items()):
            assert held.get(offset) == value, f"offset {offset} was promised and is gone"
        for id_ in self.partition.isr:
            role = self.nodes[id_].role
            if role is None:
                continue
            below = min(role.high_watermark, leader.high_watermark)
            theirs = self.values(id_, below)
            assert theirs == {at: held[at] for at in theirs}


def _values(data: bytes) -> Iterator[tuple[int, bytes]]:
    for position, header in headers(data, partial_tail=True):
        batch = data[position : position + header.size]
        for record in iter_records(batch, max_bytes=1_000_000):
            assert record.value is not None
            yield record.offset, record.value
