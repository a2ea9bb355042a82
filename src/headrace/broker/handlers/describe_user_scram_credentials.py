"""DescribeUserScramCredentials (key 50), version 0: lists the SCRAM credentials of users.

The response has mechanisms and iterations, and no secret. The names are those of the request, or
all users if it has none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.broker.network.dispatch import Context
from headrace.controller.scram_changes import describe_credentials
from headrace.protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

if TYPE_CHECKING:
    from headrace.broker.node import Broker


def handle(
    broker: Broker, context: Context, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    names = [each.name for each in request.users or ()]
    return DescribeUserScramCredentialsResponse(
        results=[
            DescribeUserScramCredentialsResult(
                user=described.user,
                error_code=described.error.code,
                error_message=described.error.message or "",
                credential_infos=[
                    CredentialInfo(mechanism=mechanism, iterations=iterations)
                    for mechanism, iterations in described.credentials
                ],
            )
            for described in describe_credentials(broker.metadata.image, names)
        ],
    )
