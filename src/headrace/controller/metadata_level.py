"""Refuses changes that a live broker of an older version could not read. Pure.

A broker that gets a metadata record that it cannot read stops following the metadata. During a
rolling upgrade, the controller therefore makes no such record until all live brokers can read it.
"""

from headrace.cluster.image import MetadataImage
from headrace.controller.result import Refused
from headrace.protocol.errors import ErrorCode


def require_metadata_level(image: MetadataImage, level: int, what: str) -> None:
    """Raises `Refused` if a live broker has a lower level; `what` names the records."""
    older = [
        str(each.broker_id)
        for each in image.brokers.values()
        if not each.fenced and each.metadata_level < level
    ]
    if older:
        named = f"broker {older[0]} runs" if len(older) == 1 else f"brokers {', '.join(older)} run"
        raise Refused(
            ErrorCode.UNSUPPORTED_VERSION,
            f"{named} a version that cannot read {what}: upgrade every broker first",
        )
