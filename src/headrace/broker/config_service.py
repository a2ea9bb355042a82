"""What each topic's and broker's configuration comes to, from all the places it may be set."""

from headrace.broker.log_config import log_config
from headrace.cluster.configs.catalog import TOPIC
from headrace.cluster.image import MetadataImage
from headrace.cluster.resources import topic_resource
from headrace.cluster.settings import BrokerSettings
from headrace.storage.config import LogConfig


class ConfigService:
    """Reads configurations out of an image and the broker's own settings."""

    def __init__(self, settings: BrokerSettings) -> None:
        self._settings = settings

    def log_config(self, image: MetadataImage, topic: str) -> LogConfig:
        overrides = image.config(topic_resource(topic))

        def value(name: str):
            d = TOPIC[name]
            if name in overrides:
                return d.parse(overrides[name])
            for syn in d.synonyms:
                raw = self._settings.raw(syn.name)
                if raw is not None:
                    v = d.parse(raw)
                    return v * syn.factor if syn.factor != 1 else v
            return d.parse(d.default)

        return log_config(value)
