"""Simulated brokers: the real `Broker` as the program of a simulated process."""

import asyncio
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Final

from headrace.broker.maintenance.preload_imports import MODULES
from headrace.broker.node import Broker
from headrace.cluster.settings import BrokerSettings
from headrace.testing.simulation.process import Incarnation, SimulatedProcess
from headrace.testing.simulation.simulation import Simulation

PORT: Final = 9092

for _name in MODULES:
    # Otherwise the first broker of an interpreter would import them, in additional loop iterations.
    import_module(_name)

# These settings depend on the machine by default.
_FIXED: Final = {"log.dirs": "/data", "headrace.max.open.files": "1000"}


class BrokerProcess:
    """A broker that can be started, stopped, killed and started again on its disk."""

    def __init__(self, simulation: Simulation, broker_id: int, settings: Mapping[str, str]) -> None:
        self.id = broker_id
        self.host = f"broker-{broker_id}"
        self._named = {
            "broker.id": str(broker_id),
            "listeners": f"PLAINTEXT://{self.host}:{PORT}",
            **_FIXED,
            **settings,
        }
        self._stop: asyncio.Event | None = None
        self.on_failure: Callable[[], None] | None = None
        self.process: SimulatedProcess = simulation.process(self.host, self._main)

    @property
    def address(self) -> str:
        """The address for clients, `host:port`."""
        return f"{self.host}:{PORT}"

    @property
    def node(self) -> Broker | None:
        """The `Broker` object; None while the process does not run."""
        incarnation = self.process.incarnation
        thing = incarnation.thing if incarnation is not None else None
        return thing if isinstance(thing, Broker) else None

    def stop(self) -> None:
        """Sends SIGTERM: the process ends after a clean shutdown."""
        if self._stop is not None:
            self._stop.set()

    async def _main(self, incarnation: Incarnation) -> None:
        self._stop = stop = asyncio.Event()
        broker = Broker(BrokerSettings.parse(self._named), environment=incarnation.world)
        await broker.start()
        incarnation.thing = broker
        await broker.wait_until_ended(asyncio.create_task(stop.wait()))
        if not broker.ended.done():
            await broker.stop()
        if broker.ended.done():
            if self.on_failure is not None:
                self.on_failure()
            raise broker.ended.result()


async def idle(_incarnation: Incarnation) -> None:
    """The program of a process for clients: it runs until it is killed."""
    await asyncio.get_running_loop().create_future()
