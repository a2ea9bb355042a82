"""Whole brokers on virtual time: a seeded network, disks that lose power, processes that die.

`Simulation` is one run, which depends only on its seed. `SimulatedCluster` is a cluster in it.
`Producer` and `Reader` are clients; `History` checks what they saw in each partition (`Place`).
`run` runs the whole scenario of a seed: a cluster under load and faults, and the final checks.
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
