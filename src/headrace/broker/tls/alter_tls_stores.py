"""AlterConfigs and IncrementalAlterConfigs of this broker's own TLS stores.

The broker that the request names checks new stores before anyone stores their settings: it alone
has their files. A resource whose stores cannot be used fails, the others of the request succeed.
Setting the same location again makes the broker read a changed file.
"""

from collections.abc import Sequence
from typing import Any, Final, Protocol

from headrace.broker.metadata.standalone_metadata import Metadata
from headrace.broker.network.dispatch import Answer, Context, Handle, Reply, resolve_reply
from headrace.broker.tls.tls_context import InvalidTls
from headrace.broker.tls.tls_listeners import TlsListeners
from headrace.cluster.configs.catalog import base_name
from headrace.cluster.configs.config_def import InvalidConfig
from headrace.cluster.effective_config import EffectiveConfig
from headrace.cluster.resources import ConfigResourceType
from headrace.cluster.settings import BrokerSettings
from headrace.controller.config_changes import ConfigAlteration, ConfigOp
from headrace.protocol.api import ApiKey, ApiSpec
from headrace.protocol.errors import ErrorCode
from headrace.protocol.messages.alter_configs import AlterConfigsResourceResponse
from headrace.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsAlterConfigsResourceResponse,
)
from headrace.protocol.struct import Struct

CHECKED_APIS: Final = (ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS)
_TLS: Final = "ssl."


class TlsStoresHost(Protocol):
    """The part of the broker whose stores are altered."""

    node_id: int
    settings: BrokerSettings

    @property
    def metadata(self) -> Metadata: ...


class AlterTlsStores:
    """Wraps the handlers of both requests."""

    def __init__(self, broker: TlsStoresHost, tls: TlsListeners) -> None:
        self._broker = broker
        self._tls = tls

    def wrap(self, spec: ApiSpec, handle: Handle) -> Handle:
        is_incremental = spec.key is ApiKey.INCREMENTAL_ALTER_CONFIGS

        def either(context: Context, request: Any) -> Reply:  # noqa: ANN401 - of two classes
            own = [each for each in request.resources if self._names_own_stores(each)]
            if not own:
                return handle(context, request)
            return self._answer(handle, context, request, own, is_incremental=is_incremental)

        return either

    def _names_own_stores(self, resource: Any) -> bool:  # noqa: ANN401
        return (
            resource.resource_type == ConfigResourceType.BROKER
            and resource.resource_name == str(self._broker.node_id)
            and any(base_name(config.name).startswith(_TLS) for config in resource.configs)
        )

    async def _answer(
        self,
        handle: Handle,
        context: Context,
        request: Any,  # noqa: ANN401
        own: Sequence[Any],
        *,
        is_incremental: bool,
    ) -> Answer:
        refused: list[Struct] = []
        for resource in own:
            reason = await self._problem_with(resource, is_incremental=is_incremental)
            if reason is not None:
                request.resources.remove(resource)
                refused.append(_refusal(resource, reason, is_incremental=is_incremental))
        answer: Any = await resolve_reply(handle(context, request))
        answer.responses += refused
        if not request.validate_only and len(refused) < len(own):
            await self._tls.reload_changed_files()
        return answer  # type: ignore[no-any-return]

    async def _problem_with(
        self,
        resource: Any,  # noqa: ANN401
        *,
        is_incremental: bool,
    ) -> str | None:
        """Why the stores that the resource would have cannot be used; None if they can."""
        broker = self._broker
        control = broker.metadata.configs
        operations = [
            ConfigOp(config.name, config.value, config.config_operation)
            if is_incremental
            else ConfigOp(config.name, config.value)
            for config in resource.configs
        ]
        alteration = ConfigAlteration(resource.resource_type, resource.resource_name, operations)
        alter = control.incremental_alter if is_incremental else control.alter
        result = alter([alteration])
        if result.results[0].error.code:
            return None  # the controller refuses it, too
        image = control.image.apply(result.records)
        effective = EffectiveConfig(broker.settings.static, broker.node_id, image)
        try:
            await self._tls.check(effective, [operation.name for operation in operations])
        except (InvalidTls, InvalidConfig) as error:
            return str(error)
        return None


def _refusal(resource: Any, reason: str, *, is_incremental: bool) -> Struct:  # noqa: ANN401
    kind = (
        IncrementalAlterConfigsAlterConfigsResourceResponse
        if is_incremental
        else AlterConfigsResourceResponse
    )
    return kind(
        error_code=ErrorCode.INVALID_REQUEST,
        error_message=reason,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
