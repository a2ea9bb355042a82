"""The broker settings that the controller uses. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    """What the controller takes from its broker's settings. `static` is what a person set."""

    node_id: int
    num_partitions: int = 1
    replication_factor: int = 1
    delete_topics: bool = True
    static: Mapping[str, str] = field(default_factory=dict, repr=False)  # may hold secrets
