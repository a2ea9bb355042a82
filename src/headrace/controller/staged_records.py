"""Records that are decided one after the other, each on the image after the one before. Pure."""

from headrace.cluster.image import MetadataImage
from headrace.cluster.metadata_records import MetadataRecord


class StagedRecords:
    """Collects records; `image` is the image with all of them applied."""

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self.records: list[MetadataRecord] = []

    def add(self, *records: MetadataRecord) -> None:
        if records:
            self.records.extend(records)
            self.image = self.image.apply(records)
