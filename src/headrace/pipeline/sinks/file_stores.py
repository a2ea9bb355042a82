"""File systems of tables: a directory on disk or a bucket, through Arrow's file systems.

A spec has a bucket's settings once, under the names of deltalake, of pyiceberg or of the AWS tools.
Each library that accesses the bucket gets them under its own names.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Final

from pyarrow import fs

from headrace.pipeline.sinks.table_sink import SinkError

S3: Final = ("s3", "s3a")
_PREFIXES: Final = ("aws_", "s3_", "fs_s3a_")
_NAMES: Final[Mapping[str, str]] = {
    "access_key_id": "access_key",
    "access_key": "access_key",
    "secret_access_key": "secret_key",
    "secret_key": "secret_key",
    "session_token": "session_token",
    "token": "session_token",
    "region": "region",
    "default_region": "region",
    "endpoint": "endpoint",
    "endpoint_url": "endpoint",
    "endpoint_url_s3": "endpoint",
    "allow_http": "allow_http",
    "virtual_hosted_style_request": "virtual_hosted",
    "force_virtual_addressing": "virtual_hosted",
    "path_style": "path_style",
    "path_style_access": "path_style",
}
DEFAULT_REGION: Final = "us-east-1"
"""For stores with their own endpoint, which rarely have regions but check the signed region."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """A bucket's settings under one set of names. Unset ones have the AWS tools' defaults."""

    access_key: str = ""
    secret_key: str = field(default="", repr=False)
    session_token: str = field(default="", repr=False)
    region: str = ""
    endpoint: str = ""
    virtual_hosted: bool = False
    """Whether the bucket is part of the host name, not the first part of the path."""

    @property
    def plain_http(self) -> bool:
        return self.endpoint.startswith("http://")


def is_s3(location: str) -> bool:
    return _split(location)[0] in S3


def is_on_disk(location: str) -> bool:
    return _split(location)[0] in ("", "file")


def open_store(location: str, options: Mapping[str, str] | None) -> tuple[fs.FileSystem, str]:
    """The file system of a location, and the path of the location in it."""
    if is_on_disk(location):
        return fs.LocalFileSystem(), path_of(location)
    if is_s3(location):
        bucket, _ = bucket_of(options or {})
        return _s3(bucket), path_of(location)
    try:
        store, path = fs.FileSystem.from_uri(location)
    except (ValueError, OSError) as error:
        raise SinkError(f"{location}: not a supported location for files ({error})") from error
    return store, path


def path_of(location: str) -> str:
    """The path of a location in its file system."""
    path = _split(location)[1]
    return str(Path(path).absolute()) if is_on_disk(location) else path.rstrip("/")


def _split(location: str) -> tuple[str, str]:
    """Scheme and path. File names may contain characters that would end the path of a URL."""
    scheme, named, path = location.partition("://")
    return (scheme.lower(), path) if named else ("", location)


def rooted(location: str) -> str:
    """A path that is the same in every process: workers run in other directories."""
    return path_of(location) if is_on_disk(location) else location


def delta_options(location: str, options: Mapping[str, str] | None) -> dict[str, str] | None:
    """Options for deltalake. Commits to a bucket are conditional: of two writers, one fails."""
    if not is_s3(location):
        return dict(options or {}) or None
    bucket, others = bucket_of(options or {})
    found = {
        "AWS_ACCESS_KEY_ID": bucket.access_key,
        "AWS_SECRET_ACCESS_KEY": bucket.secret_key,
        "AWS_SESSION_TOKEN": bucket.session_token,
        "AWS_REGION": bucket.region,
        "AWS_ENDPOINT_URL": bucket.endpoint,
        "AWS_ALLOW_HTTP": "true" if bucket.plain_http else "",
        "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "true" if bucket.virtual_hosted else "",
    }
    given = {name: value for name, value in found.items() if value}
    if not any("conditional_put" in name.lower() for name in others):
        given["AWS_CONDITIONAL_PUT"] = "etag"
    return {**given, **others}


def iceberg_options(options: Mapping[str, str] | None) -> dict[str, str]:
    """Options for pyiceberg's catalogs and files; empty if nothing is set."""
    bucket, others = bucket_of(options or {})
    found = {
        "s3.access-key-id": bucket.access_key,
        "s3.secret-access-key": bucket.secret_key,
        "s3.session-token": bucket.session_token,
        "s3.region": bucket.region,
        "s3.endpoint": bucket.endpoint,
        "s3.force-virtual-addressing": "true" if bucket.virtual_hosted else "",
    }
    return {**{name: value for name, value in found.items() if value}, **others}


def bucket_of(options: Mapping[str, str]) -> tuple[Bucket, dict[str, str]]:
    """The settings that all libraries share, and the remaining ones."""
    known: dict[str, str] = {}
    others: dict[str, str] = {}
    for name, value in options.items():
        meant = _NAMES.get(_setting_name(name))
        if meant is None:
            others[name] = value
        else:
            known[meant] = value
    path_style = known.pop("path_style", "true")
    hosted = known.pop("virtual_hosted", "false" if _is_true(path_style) else "true")
    allow_http = known.pop("allow_http", "true")
    if known.get("endpoint") and not known.get("region"):
        known["region"] = DEFAULT_REGION
    endpoint = known.get("endpoint", "")
    if endpoint and "://" not in endpoint:
        known["endpoint"] = f"https://{endpoint}"
    bucket = Bucket(**known, virtual_hosted=_is_true(hosted))
    if bucket.plain_http and not _is_true(allow_http):
        raise SinkError(
            f"the store's endpoint is {endpoint}, but allow_http is false: use an https:// endpoint"
        )
    return bucket, others


def _setting_name(name: str) -> str:
    """`AWS_ACCESS_KEY_ID`, `s3.access-key-id` and `access_key_id` are one name."""
    plain = name.lower().replace("-", "_").replace(".", "_")
    for prefix in _PREFIXES:
        plain = plain.removeprefix(prefix)
    return plain


def _is_true(text: str) -> bool:
    return text.strip().lower() in ("true", "1", "yes", "on")


@lru_cache(maxsize=8)
def _s3(bucket: Bucket) -> fs.S3FileSystem:
    """One client per process, so that all files share its connections."""
    settings: dict[str, object] = {"force_virtual_addressing": bucket.virtual_hosted}
    if bucket.endpoint:
        scheme, _, host = bucket.endpoint.rpartition("://")
        settings.update(endpoint_override=host.rstrip("/"), scheme=scheme)
    if bucket.access_key:
        settings.update(access_key=bucket.access_key, secret_key=bucket.secret_key)
    if bucket.session_token:
        settings["session_token"] = bucket.session_token
    if bucket.region:
        settings["region"] = bucket.region
    return fs.S3FileSystem(**settings)
