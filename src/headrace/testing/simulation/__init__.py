"""Whole brokers on virtual time: a seeded network, disks that lose power, processes that die.

`Simulation` is one run, decided by its seed alone; `SimulatedCluster` is a cluster in it, and
`Place`, `History`, `Producer` and `Reader` are clients and the checker of what they saw. `run`
plays the whole story of a seed: a cluster under load and faults, and the reckoning.
"""

from headrace.testing.simulation.brokers import BrokerProcess, idle
from headrace.testing.simulation.cluster import SimulatedCluster
from headrace.testing.simulation.history import History, Place, Violation
from headrace.testing.simulation.scenario import Outcome, run
from headrace.testing.simulation.simulation import Simulation, SimulationError
from headrace.testing.simulation.workload import Producer, Reader, client_of

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
