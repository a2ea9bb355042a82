"""A controller with registered brokers, for tests."""

from collections.abc import Mapping
from random import Random
from typing import TypeVar

from headrace.cluster.controller_settings import ControllerSettings
from headrace.cluster.image import MetadataImage
from headrace.cluster.topology import Endpoint
from headrace.controller.metadata_controller import MetadataController
from headrace.controller.result import ControllerResult

T = TypeVar("T")


def controller(
    brokers: int = 1, *, static: Mapping[str, str] | None = None, delete_topics: bool = True
) -> MetadataController:
    settings = ControllerSettings(node_id=1, delete_topics=delete_topics, static=static or {})
    made = MetadataController(MetadataImage(), settings, Random(1))
    made.image = made.image.apply(made.bootstrap("cluster"))
    for id_ in range(1, brokers + 1):
        commit(made, made.register_broker(id_, [Endpoint("PLAINTEXT", "localhost", 9000 + id_)]))
    return made


def commit(controller: MetadataController, outcome: ControllerResult[T]) -> T:
    """Applies the outcome and returns its only result."""
    (result,) = outcome.results
    controller.image = controller.image.apply(outcome.records)
    return result
