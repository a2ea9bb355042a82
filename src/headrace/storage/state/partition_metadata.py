"""`partition.metadata`: the topic id of a partition's directory.

A recreated topic has the same name and another id: the id prevents the new topic from using the old
records.
"""

from headrace.protocol.types import decode_uuid, encode_uuid
from headrace.storage.files.filesystem import FileSystem, read_file, write_file

PARTITION_METADATA = "partition.metadata"
TOPIC_ID_BYTES = 16
VERSION = 0


def decode_topic_id(text: str) -> bytes:
    topic_id = decode_uuid(text)
    if len(topic_id) != TOPIC_ID_BYTES:
        raise ValueError(f"topic id {text!r} is not {TOPIC_ID_BYTES} bytes")
    return topic_id


def write_topic_id(fs: FileSystem, directory: str, topic_id: bytes) -> None:
    """Writes the file. The log's first flush syncs it, before any record is acknowledged as
    flushed."""
    text = f"version: {VERSION}\ntopic_id: {encode_uuid(topic_id)}"
    write_file(fs, f"{directory}/{PARTITION_METADATA}", text.encode(), sync=False)


def read_topic_id(fs: FileSystem, directory: str) -> bytes | None:
    """The topic id; None if the file is missing, torn or empty: then no record was ever flushed."""
    try:
        text = read_file(fs, f"{directory}/{PARTITION_METADATA}").decode()
    except (FileNotFoundError, UnicodeDecodeError):
        return None
    fields = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
    try:
        return decode_topic_id(fields["topic_id"])
    except (KeyError, ValueError):
        return None
