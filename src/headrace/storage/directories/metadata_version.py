"""`metadata-version`: the last version of the cluster's metadata that a directory's broker knew.

Metadata is stored elsewhere, and may be restored from a backup there. What a broker has on disk was
written under this version: an older one does not know all of it. Whoever has nothing newer writes
the word `any` into the file.
"""

from headrace.storage.files.filesystem import FileSystem, read_file, replace_file

METADATA_VERSION = "metadata-version"
UNKNOWN = -1
ANY = -2
ANY_WORD = "any"


def read_metadata_version(fs: FileSystem, directory: str) -> int:
    """The version; UNKNOWN if there is none, ANY if a person says that it does not matter."""
    try:
        text = read_file(fs, f"{directory}/{METADATA_VERSION}").decode().strip()
        return ANY if text == ANY_WORD else int(text)
    except (FileNotFoundError, ValueError):
        return UNKNOWN


def write_metadata_version(fs: FileSystem, directory: str, version: int) -> None:
    replace_file(fs, f"{directory}/{METADATA_VERSION}", b"%d\n" % version)
