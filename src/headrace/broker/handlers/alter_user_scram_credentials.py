"""AlterUserScramCredentials (key 51), version 0: sets and deletes the SCRAM credentials of users.

The request has salted passwords. Only the keys that are derived from them are stored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.broker.network.dispatch import Context
from headrace.controller.scram_changes import ScramDeletion, ScramUpsertion
from headrace.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)

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
    changes = {each.user: "deleted a credential" for each in deletions}
    changes |= {each.user: "set a credential" for each in upsertions}
    for altered in results:
        if not altered.error.code:
            broker.access.audit.log_change(
                context.session, changes[altered.user], user=altered.user
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
