"""Changes of users' SCRAM credentials, and their description without secrets. Pure.

A client sends the salted password, from which both keys follow. The stored keys
do not suffice for a login. A request changes one credential of a user at most, as in Kafka.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from headrace.cluster.image import MetadataImage
from headrace.cluster.metadata_records import MetadataRecord, ScramCredentialChanged
from headrace.cluster.topology import SECURITY_LEVEL
from headrace.controller.metadata_level import require_metadata_level
from headrace.controller.result import NO_ERROR, ApiError, ControllerResult, Refused
from headrace.protocol.errors import ErrorCode
from headrace.security.sasl.scram_credential import (
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    ScramMechanism,
    credential_of,
)

MAX_SALT_BYTES: Final = 1024
"""Larger than that of any tool: a salt is in the metadata of every broker."""
_KNOWN: Final = frozenset(ScramMechanism) - {ScramMechanism.UNKNOWN}


class ScramDeletion(NamedTuple):
    """The deletion of one credential; `mechanism` is the unchecked code of the request."""

    user: str
    mechanism: int


class ScramUpsertion(NamedTuple):
    """A new credential; `mechanism` is the unchecked code of the request."""

    user: str
    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes

    def __repr__(self) -> str:
        return f"ScramUpsertion(user={self.user!r}, mechanism={self.mechanism})"


class AlteredUser(NamedTuple):
    """The result for one user."""

    user: str
    error: ApiError = NO_ERROR


class DescribedUser(NamedTuple):
    """A user's credentials as (mechanism, iterations), or an error."""

    user: str
    credentials: Sequence[tuple[int, int]] = ()
    error: ApiError = NO_ERROR


def alter_credentials(
    image: MetadataImage,
    deletions: Sequence[ScramDeletion],
    upsertions: Sequence[ScramUpsertion],
) -> ControllerResult[AlteredUser]:
    """One result for each user."""
    changes: list[ScramDeletion | ScramUpsertion] = [*deletions, *upsertions]
    times = Counter(change.user for change in changes)
    records: list[MetadataRecord] = []
    results: dict[str, AlteredUser] = {}
    for change in changes:
        if times[change.user] > 1:
            message = "A user credential cannot be altered twice in the same request"
            error = ApiError(ErrorCode.DUPLICATE_RESOURCE, message)
        else:
            error = NO_ERROR
            try:
                records.append(_changed(image, change))
            except Refused as refused:
                error = refused.error
        results[change.user] = AlteredUser(change.user, error)
    return ControllerResult(tuple(records), list(results.values()))


def describe_credentials(image: MetadataImage, users: Sequence[str]) -> list[DescribedUser]:
    """The credentials of these users, or of all if there are none."""
    known = _by_user(image)
    if not users:
        return [DescribedUser(name, known[name]) for name in sorted(known)]
    times = Counter(users)
    return [_describe(known.get(name, ()), name, times[name]) for name in times]


def _changed(image: MetadataImage, change: ScramDeletion | ScramUpsertion) -> MetadataRecord:
    if not change.user:
        raise Refused(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if change.mechanism not in _KNOWN:
        raise Refused(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    mechanism = ScramMechanism(change.mechanism)
    if isinstance(change, ScramDeletion):
        if (change.user, mechanism) not in image.scram_credentials:
            raise Refused(
                ErrorCode.RESOURCE_NOT_FOUND,
                "Attempt to delete a user credential that does not exist",
            )
        return ScramCredentialChanged(change.user, mechanism, None)
    if change.iterations < MIN_ITERATIONS:
        raise Refused(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if change.iterations > MAX_ITERATIONS:
        raise Refused(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    if not 0 < len(change.salt) <= MAX_SALT_BYTES:
        message = f"The salt must have 1 to {MAX_SALT_BYTES} bytes"
        raise Refused(ErrorCode.UNACCEPTABLE_CREDENTIAL, message)
    require_metadata_level(image, SECURITY_LEVEL, "SCRAM credentials")
    credential = credential_of(mechanism, change.salt, change.salted_password, change.iterations)
    return ScramCredentialChanged(change.user, mechanism, credential)


def _describe(credentials: Sequence[tuple[int, int]], name: str, times: int) -> DescribedUser:
    if times > 1:
        message = (
            f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
        )
        return DescribedUser(name, error=ApiError(ErrorCode.DUPLICATE_RESOURCE, message))
    if not credentials:
        message = f"Attempt to describe a user credential that does not exist: {name}"
        return DescribedUser(name, error=ApiError(ErrorCode.RESOURCE_NOT_FOUND, message))
    return DescribedUser(name, credentials)


def _by_user(image: MetadataImage) -> dict[str, list[tuple[int, int]]]:
    found: dict[str, list[tuple[int, int]]] = {}
    for name, mechanism in sorted(image.scram_credentials):
        iterations = image.scram_credentials[name, mechanism].iterations
        found.setdefault(name, []).append((int(mechanism), iterations))
    return found
