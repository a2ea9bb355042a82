"""Where files are: a folder on disk or a bucket, behind Arrow's file systems."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from pyarrow import fs

from headrace.pipeline.sinks.table import SinkError

# The names that deltalake and its kin use for a bucket's settings.
_S3_OPTIONS: Final = {
    "AWS_ACCESS_KEY_ID": "access_key",
    "AWS_SECRET_ACCESS_KEY": "secret_key",
    "AWS_SESSION_TOKEN": "session_token",
    "AWS_REGION": "region",
}


def open_store(location: str, options: Mapping[str, str] | None) -> tuple[fs.FileSystem, str]:
    """The file system of a location, and the path of the location in it."""
    parts = urlsplit(location)
    if parts.scheme in ("", "file"):
        return fs.LocalFileSystem(), str(Path(parts.path).absolute())
    if parts.scheme in ("s3", "s3a"):
        return _s3(options or {}), f"{parts.netloc}{parts.path}".rstrip("/")
    try:
        store, path = fs.FileSystem.from_uri(location)
    except (ValueError, OSError) as error:
        raise SinkError(f"{location}: no files can be kept there ({error})") from error
    return store, path


def _s3(options: Mapping[str, str]) -> fs.FileSystem:
    settings = {_S3_OPTIONS[name]: value for name, value in options.items() if name in _S3_OPTIONS}
    endpoint = options.get("AWS_ENDPOINT_URL", "")
    if endpoint:
        scheme, _, host = endpoint.rpartition("://")
        settings["endpoint_override"] = host
        settings["scheme"] = scheme or "https"
    return fs.S3FileSystem(**settings)
