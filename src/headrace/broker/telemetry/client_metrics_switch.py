"""Whether this broker can receive client metrics: a library must be installed."""

import logging
from importlib.util import find_spec

from headrace.cluster.image import MetadataImage
from headrace.cluster.resources import ConfigResourceType

log = logging.getLogger(__package__)


def can_receive_client_metrics(image: MetadataImage) -> bool:
    """Whether the library that decodes them is installed; it is not imported.

    Without it, a warning is logged if the cluster has subscriptions, which then have no effect.
    """
    if is_decoder_installed():
        return True
    names = [item.name for item in image.configs if item.type is ConfigResourceType.CLIENT_METRICS]
    if names:
        log.warning(
            "client metrics are off, because opentelemetry-proto is not installed: the "
            "subscriptions have no effect on clients of this broker; run "
            "pip install 'headrace[telemetry]' and restart the broker",
            extra={"subscriptions": ",".join(sorted(names))},
        )
    return False


def is_decoder_installed() -> bool:
    try:
        return find_spec("opentelemetry.proto") is not None
    except ModuleNotFoundError:
        return False
