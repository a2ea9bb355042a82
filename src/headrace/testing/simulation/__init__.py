"""Whole clusters on virtual time: real brokers on a simulated network, disks and ZooKeeper.

`Simulation` is one run; its seed decides the order of all events. `SimulatedCluster` is a cluster
in it. `Producer` and `Reader` are clients, and `History` checks their results. `run` runs the
complete scenario of a seed: a cluster under load and faults, and the check of its history.
"""

from headrace.testing.simulation.brokers import BrokerProcess, idle
from headrace.testing.simulation.checks.history import History, Place, Violation
from headrace.testing.simulation.clients.workload import Producer, Reader, client_of
from headrace.testing.simulation.cluster import SimulatedCluster
from headrace.testing.simulation.scenario import Outcome, run
from headrace.testing.simulation.simulation import Simulation, SimulationError

__all__ = [
    "BrokerProcess",
    "History",
    "Outcome",
    "Place",
    "Producer",
    "Reader",
    "SimulatedCluster",
    "Simulation",
    "SimulationError",
    "Violation",
    "client_of",
    "idle",
    "run",
]
