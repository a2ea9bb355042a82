"""Lists, sets and deletes the SCRAM credentials of users.

A password never leaves this process: the broker gets what PBKDF2 makes of it.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from headrace.client.client import ANY, ClusterClient, ToController
from headrace.client.errors import check_error_code
from headrace.client.results import Refusal, moved, refusal, refused
from headrace.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from headrace.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)
from headrace.security.sasl.scram_credential import ScramMechanism


class UserCredential(NamedTuple):
    """One credential of a user, without its secrets."""

    mechanism: ScramMechanism
    iterations: int


@dataclass(frozen=True, slots=True)
class NewCredential:
    """A password for one user and mechanism. `salt` must be fresh and unpredictable."""

    user: str
    mechanism: ScramMechanism
    password: str = field(repr=False)
    salt: bytes = field(repr=False)
    iterations: int

    @property
    def salted_password(self) -> bytes:
        return hashlib.pbkdf2_hmac(
            self.mechanism.algorithm, self.password.encode(), self.salt, self.iterations
        )


class CredentialDeletion(NamedTuple):
    """A credential to delete."""

    user: str
    mechanism: ScramMechanism


async def describe_users(
    client: ClusterClient, users: Sequence[str] = (), *, timeout_s: float
) -> dict[str, list[UserCredential] | Refusal]:
    """The credentials of these users, or of all users."""
    request = DescribeUserScramCredentialsRequest(
        users=[UserName(name=name) for name in users] or None
    )
    answer = await client.send(
        request, DescribeUserScramCredentialsResponse, to=ANY, timeout_s=timeout_s
    )
    check_error_code(answer.error_code, answer.error_message or "cannot list the users")
    return {
        result.user: refused(result.error_code, result.error_message)
        if result.error_code
        else [
            UserCredential(_mechanism(each.mechanism), each.iterations)
            for each in result.credential_infos
        ]
        for result in answer.results
    }


async def alter_users(
    client: ClusterClient,
    changes: Sequence[NewCredential | CredentialDeletion],
    *,
    timeout_s: float,
) -> dict[str, Refusal | None]:
    """Sets and deletes credentials; a broker changes one credential of each user at a time."""
    request = AlterUserScramCredentialsRequest(
        deletions=[
            ScramCredentialDeletion(name=each.user, mechanism=each.mechanism)
            for each in changes
            if isinstance(each, CredentialDeletion)
        ],
        upsertions=[
            ScramCredentialUpsertion(
                name=each.user,
                mechanism=each.mechanism,
                iterations=each.iterations,
                salt=each.salt,
                salted_password=each.salted_password,
            )
            for each in changes
            if isinstance(each, NewCredential)
        ],
    )
    answer = await client.send(
        request,
        AlterUserScramCredentialsResponse,
        to=ToController(),
        timeout_s=timeout_s,
        code_of=lambda got: moved(each.error_code for each in got.results),
    )
    return {each.user: refusal(each.error_code, each.error_message) for each in answer.results}


def _mechanism(code: int) -> ScramMechanism:
    known = set(map(int, ScramMechanism))
    return ScramMechanism(code) if code in known else ScramMechanism.UNKNOWN
