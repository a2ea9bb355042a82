"""The broker settings that the controller uses. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    """The broker settings that the controller uses. `static` holds the explicitly set ones."""

    node_id: int
    num_partitions: int = 1
    replication_factor: int = 1
    delete_topics: bool = True
    static: Mapping[str, str] = field(default_factory=dict, repr=False)  # may hold secrets
