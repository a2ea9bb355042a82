"""The assignors that the broker offers to consumer groups, by name."""

from collections.abc import Mapping
from typing import Final

from headrace.coordinator.group.consumer.assignors.range import assign_ranges
from headrace.coordinator.group.consumer.assignors.uniform import assign_uniformly
from headrace.coordinator.group.modern.assignor_spec import Assignor

ASSIGNORS: Final[Mapping[str, Assignor]] = {"uniform": assign_uniformly, "range": assign_ranges}
