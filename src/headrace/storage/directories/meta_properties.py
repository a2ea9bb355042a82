"""`meta.properties`: the cluster and the node of a log directory."""

from typing import NamedTuple

from headrace.storage.errors import InconsistentLogDir
from headrace.storage.files.filesystem import FileSystem, read_file, replace_file

META_PROPERTIES = "meta.properties"
VERSION = "1"


class MetaProperties(NamedTuple):
    """The ids, as text."""

    cluster_id: str
    node_id: int
    directory_id: str


def read_meta(fs: FileSystem, directory: str) -> MetaProperties | None:
    """The properties of the directory; None if it is new."""
    try:
        text = read_file(fs, f"{directory}/{META_PROPERTIES}").decode()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise InconsistentLogDir(f"{directory}/{META_PROPERTIES} is not text") from None
    fields = {}
    for line in text.splitlines():
        name, found, value = line.partition("=")
        if found and not line.startswith(("#", "!")):
            fields[name.strip()] = value.strip().replace("\\=", "=").replace("\\:", ":")
    try:
        # Version 0 calls it `broker.id`.
        node_id = int(fields.get("node.id") or fields["broker.id"])
        return MetaProperties(fields["cluster.id"], node_id, fields.get("directory.id", ""))
    except (KeyError, ValueError):
        raise InconsistentLogDir(
            f"{directory}/{META_PROPERTIES} lacks cluster.id or node.id"
        ) from None


def write_meta(fs: FileSystem, directory: str, meta: MetaProperties) -> None:
    lines = [
        f"cluster.id={meta.cluster_id}",
        f"directory.id={meta.directory_id}",
        f"node.id={meta.node_id}",
        f"version={VERSION}",
        "",
    ]
    replace_file(fs, f"{directory}/{META_PROPERTIES}", "\n".join(lines).encode())
