"""The removal of delegation tokens whose time is over. Pure."""

from typing import Final

from headrace.cluster.image import MetadataImage
from headrace.cluster.metadata_records import DelegationTokenRemoved
from headrace.controller.result import ControllerResult
from headrace.security.tokens.delegation_token import DelegationToken

MAX_REMOVED_AT_ONCE: Final = 500
"""Expired tokens that one commit removes: the controller's other decisions wait for a commit."""


def remove_expired_tokens(image: MetadataImage, now_ms: int) -> ControllerResult[DelegationToken]:
    """Removes up to `MAX_REMOVED_AT_ONCE` expired tokens, and returns them."""
    expired = [each for each in image.delegation_tokens.values() if each.is_expired(now_ms)]
    del expired[MAX_REMOVED_AT_ONCE:]
    return ControllerResult(
        tuple(DelegationTokenRemoved(each.token_id) for each in expired), expired
    )
