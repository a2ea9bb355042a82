"""The first records of a controller."""

from random import Random

from headrace.cluster.controller_settings import ControllerSettings
from headrace.cluster.image import MetadataImage
from headrace.controller.metadata_controller import MetadataController
from support.brokers.controllers import controller


def test_a_new_store_gets_a_cluster_id_features_and_a_controller() -> None:
    made = MetadataController(MetadataImage(), ControllerSettings(node_id=4), Random(7))
    image = MetadataImage().apply(made.bootstrap())
    assert len(image.cluster_id) == 22
    assert image.features["transaction.version"] == 2
    assert (image.controller_id, image.controller_epoch) == (4, 1)


def test_an_old_store_keeps_its_id_and_features_and_raises_the_controller_epoch() -> None:
    made = controller()
    before = made.image
    made.image = made.image.apply(made.bootstrap("another"))
    assert made.image.cluster_id == before.cluster_id
    assert made.image.features == before.features
    assert made.image.controller_epoch == before.controller_epoch + 1
