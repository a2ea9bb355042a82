"""Access to configs: the topic's and the group's rights, and the cluster's for all else."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, Protocol

from headrace.broker.access.denied_codes import DENIED_CODE
from headrace.cluster.resources import ConfigResourceType
from headrace.security.authorization.acl import CLUSTER_NAME, AclOperation, AclResourceType

if TYPE_CHECKING:
    from headrace.broker.access.request_check import RequestCheck, Verdict

_NAMED: Final = {
    ConfigResourceType.TOPIC: AclResourceType.TOPIC,
    ConfigResourceType.GROUP: AclResourceType.GROUP,
}
_OF_THE_CLUSTER: Final = (
    ConfigResourceType.BROKER,
    ConfigResourceType.BROKER_LOGGER,
    ConfigResourceType.CLIENT_METRICS,
)


class AskedConfigs(Protocol):
    """A resource in a request."""

    resource_type: int
    resource_name: str


def filter_configs(
    check: RequestCheck, resources: Iterable[AskedConfigs], operation: AclOperation
) -> Verdict:
    """Removes the denied resources from the request. The handler refuses unknown types."""
    denied: dict[tuple[int, str], AclResourceType] = {}
    for asked in resources:
        type_ = _acl_type(asked.resource_type)
        if type_ is None:
            continue
        name = CLUSTER_NAME if type_ is AclResourceType.CLUSTER else asked.resource_name
        if not check.access.allows(check.session, operation, type_, name):
            denied[asked.resource_type, asked.resource_name] = type_

    def type_of(asked: AskedConfigs) -> AclResourceType | None:
        return denied.get((asked.resource_type, asked.resource_name))

    return check.remove_coded_parts(
        "resources",
        lambda asked: None if (type_ := type_of(asked)) is None else DENIED_CODE[type_],
    )


def _acl_type(config_type: int) -> AclResourceType | None:
    try:
        known = ConfigResourceType(config_type)
    except ValueError:
        return None
    if known in _OF_THE_CLUSTER:
        return AclResourceType.CLUSTER
    return _NAMED.get(known)
