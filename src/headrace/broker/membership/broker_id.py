"""The id of a broker whose settings have none (`broker.id.generation.enable`)."""

import logging

from headrace.broker.runtime.environment import Environment
from headrace.broker.runtime.errors import StartupError
from headrace.cluster.settings import BrokerSettings
from headrace.storage.directories.meta_properties import read_meta

log = logging.getLogger(__package__)


async def find_broker_id(settings: BrokerSettings, environment: Environment) -> int:
    """The id stored in the log directories, or a new one from the cluster."""
    for directory in settings.log_dirs:
        meta = read_meta(environment.files, directory)
        if meta is not None:
            return meta.node_id
    store = environment.cluster_store(settings, environment.clock)
    if store is None:
        raise StartupError("broker.id is not set, and no cluster is there to choose one")
    try:
        await store.open()
        chosen = await store.next_broker_id(settings.integer("reserved.broker.max.id"))
    finally:
        await store.close()
    log.info("the cluster assigned a broker id", extra={"broker": chosen})
    return chosen
