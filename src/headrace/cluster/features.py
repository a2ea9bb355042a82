"""Features: the levels that this release supports, and those of a new cluster. Pure.

The names and levels are those of Kafka 4.3, because clients depend on them: Java producers use
the second transaction protocol only if `transaction.version` is finalized at 2.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from headrace.cluster.metadata_records import FeatureSet

METADATA_VERSION: Final = "metadata.version"


class Feature(NamedTuple):
    """A feature and the levels that this release supports. Level 0 means not in use."""

    name: str
    min_level: int
    max_level: int


SUPPORTED_FEATURES: Final = (
    Feature("eligible.leader.replicas.version", 0, 1),
    Feature("group.version", 0, 1),
    Feature(METADATA_VERSION, 7, 30),
    Feature("share.version", 0, 1),
    Feature("streams.version", 0, 1),
    Feature("transaction.version", 0, 2),
)

DEFAULT_LEVELS: Final[Mapping[str, int]] = {
    METADATA_VERSION: 30,
    "group.version": 1,
    "share.version": 1,
    "streams.version": 1,
    "transaction.version": 2,
}
"""The levels of a new cluster: Kafka 4.3's, except that eligible leader replicas are off. With
that feature a broker's own `min.insync.replicas` could no longer be changed, and a single node
does not need it."""

FEATURES_BY_NAME: Final = {feature.name: feature for feature in SUPPORTED_FEATURES}


def initial_features() -> tuple[FeatureSet, ...]:
    return tuple(FeatureSet(name, level) for name, level in DEFAULT_LEVELS.items())
