"""The copies of partitions on several brokers: what leaders and followers need of each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.broker.catch_up_pace import CatchUpPace
from headrace.broker.isr_keeper import AskController, IsrKeeper
from headrace.broker.isr_leaving import IsrLeaving
from headrace.broker.peers import Peers
from headrace.broker.replica_fetchers import ReplicaFetchers
from headrace.broker.replica_session import ReplicaSessions, Waiting
from headrace.broker.throttles import Throttles
from headrace.replication.follower import Follower
from headrace.replication.replicated_leader import ReplicatedLeader

if TYPE_CHECKING:
    from headrace.broker.node import Broker


class Replication:
    """The followers that fetch from here, and what is fetched from other brokers."""

    def __init__(self, broker: Broker) -> None:
        throttles = Throttles(broker)
        self.sessions = ReplicaSessions(broker.random, throttles, self._pace)
        self.waiting: dict[Waiting, None] = {}  # in the order in which they came
        self._broker = broker
        self._throttles = throttles
        self._keeper: IsrKeeper | None = None
        self._leaving: IsrLeaving | None = None
        self._fetchers: ReplicaFetchers | None = None

    def start(self, peers: Peers, ask: AskController) -> None:
        """This broker is a member of a cluster: it follows, and keeps in-sync sets."""
        self._keeper = IsrKeeper(self._broker, ask)
        self._keeper.start()
        self._leaving = IsrLeaving(self._broker, ask)
        self._fetchers = fetchers = ReplicaFetchers(self._broker, peers, self._throttles)
        self._broker.on_roles_changed(fetchers.role_changed)
        for replica in self._broker.partitions.replicas:
            if isinstance(replica, Follower):
                fetchers.follow(replica)

    def _pace(self) -> CatchUpPace:
        rate = self._broker.effective.broker_value("headrace.replica.catch.up.rate")
        assert isinstance(rate, int)
        return CatchUpPace(rate)

    def followers_fetched(self, replica_id: int, leaders: Sequence[ReplicatedLeader]) -> None:
        """These leaders have heard how far a follower is."""
        if self._keeper is not None:
            self._keeper.followers_fetched(replica_id, leaders)

    def resign_from_failed(self) -> None:
        """Gives up what is in a log directory that does not work any more.

        Others are to lead what was led there, and nobody is to wait for what was copied there.
        """
        keeper, leaving = self._keeper, self._leaving
        if keeper is None or leaving is None:
            return
        if all(home.is_online for home in self._broker.logs.homes):
            return
        for leader in self._broker.partitions:
            if isinstance(leader, ReplicatedLeader) and self._has_failed(leader):
                keeper.resign(leader)
        replicas = self._broker.partitions.replicas
        followers = [each for each in replicas if isinstance(each, Follower)]
        leaving.leave([each for each in followers if self._is_on_failed_disk(each)])

    def _has_failed(self, leader: ReplicatedLeader) -> bool:
        log = self._broker.logs.get(leader.topic, leader.index)
        return log is None or log.directory.failure is not None

    def _is_on_failed_disk(self, follower: Follower) -> bool:
        """One that has no log yet may get it on a disk that works."""
        log = self._broker.logs.get(follower.topic, follower.index)
        return log is not None and log.directory.failure is not None

    def finish_waits(self) -> None:
        """Answers every follower that waits."""
        for waiting in tuple(self.waiting):
            waiting.finish()

    def stop(self) -> None:
        if self._fetchers is not None:
            self._fetchers.close()
        if self._keeper is not None:
            self._keeper.close()
        if self._leaving is not None:
            self._leaving.close()
