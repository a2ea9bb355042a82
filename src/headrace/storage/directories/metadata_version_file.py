"""`metadata-version`: the last version of the cluster's metadata that the broker knew.

Metadata is stored elsewhere, and may be restored there from a backup. The logs in this directory
belong to this version; an older version may lack some partitions. If there is no newer backup, the
operator writes the word `any` into the file.
"""

from headrace.storage.files.filesystem import FileSystem, read_file, replace_file

METADATA_VERSION = "metadata-version"
UNKNOWN = -1
ANY = -2
ANY_WORD = "any"


def read_metadata_version(fs: FileSystem, directory: str) -> int:
    """The version; UNKNOWN if there is none, ANY if an operator has allowed any version."""
    try:
        text = read_file(fs, f"{directory}/{METADATA_VERSION}").decode().strip()
        return ANY if text == ANY_WORD else int(text)
    except (FileNotFoundError, ValueError):
        return UNKNOWN


def write_metadata_version(fs: FileSystem, directory: str, version: int) -> None:
    replace_file(fs, f"{directory}/{METADATA_VERSION}", b"%d\n" % version)
