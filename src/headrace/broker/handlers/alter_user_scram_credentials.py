"""AlterUserScramCredentials (key 51), version 0: sets and deletes the SCRAM credentials of users.

The request has salted passwords. Only the keys that are derived from them are stored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.broker.network.dispatch import Context
from headrace.controller.scram_changes import ScramDeletion, ScramUpsertion
from headrace.protocol.api import ApiKey
from headrace.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from headrace.security.sasl.scram_credential import ScramMechanism

if TYPE_CHECKING:
    from headrace.broker.node import Broker


async def handle(
    broker: Broker, context: Context, request: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse:
    deletions = [ScramDeletion(each.name, each.mechanism) for each in request.deletions]
    upsertions = [
        ScramUpsertion(
            each.name,
            each.mechanism,
            each.iterations,
            bytes(each.salt),
            bytes(each.salted_password),
        )
        for each in request.upsertions
    ]
    results = await broker.metadata.decide(
        lambda controller: controller.alter_scram_credentials(deletions, upsertions)
    )
    changed = {altered.user for altered in results if not altered.error.code}
    changes: list[ScramDeletion | ScramUpsertion] = [*deletions, *upsertions]
    for change in (each for each in changes if each.user in changed):
        broker.access.audit.log_change(
            context.session,
            ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
            "deleted a SCRAM credential"
            if isinstance(change, ScramDeletion)
            else "set a SCRAM credential",
            user=change.user,
            mechanism=ScramMechanism(change.mechanism).mechanism_name,
        )
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(
                user=altered.user,
                error_code=altered.error.code,
                error_message=altered.error.message,
            )
            for altered in results
        ]
    )
