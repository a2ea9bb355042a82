"""A client for a Confluent-compatible schema registry. Each process caches the schemas."""

import base64
import http.client
import json
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Final, NamedTuple

from headrace.pipeline.formats.errors import FormatError, RegistryError, RegistryUnreachable
from headrace.pipeline.spec.formats import Registry

TIMEOUT_S: Final = 10.0
"""The timeout of a connection and of each read. The whole answer may take twice as long."""
PIECE_BYTES: Final = 1 << 16
TIMED_OUT: Final = 408
TOO_MANY: Final = 429
SERVER_ERROR: Final = 500
MAX_ANSWER_BYTES: Final = 16 * 2**20
_PREFIX_BYTES: Final = 5
MAX_DEPTH: Final = 20
"""The most levels of references between schemas."""


class Access(NamedTuple):
    """The registry's URL and credentials. It is sent to the tasks. Do not print it."""

    url: str
    authorization: str = ""

    def __repr__(self) -> str:
        return f"Access({self.url})"


class Registered(NamedTuple):
    """A schema in the registry, with the schemas that it references, by name."""

    id: int
    kind: str
    text: str
    references: Mapping[str, str]


class NoSuchSchema(LookupError):
    """The registry does not have the schema."""


class NoPrefix(ValueError):
    """The bytes do not start with the registry's prefix."""


def access_of(registry: Registry) -> Access:
    """Returns the access with its secrets resolved. Raises `UnsetVariable`."""
    auth = registry.auth.resolved()
    authorization = ""
    if "token" in auth:
        authorization = f"Bearer {auth['token']}"
    elif "username" in auth:
        pair = f"{auth['username']}:{auth.get('password', '')}"
        authorization = "Basic " + base64.b64encode(pair.encode()).decode()
    return Access(registry.url.rstrip("/"), authorization)


def split_prefix(data: bytes) -> tuple[int, bytes]:
    """Returns the schema's id and the rest. Raises `NoPrefix`."""
    if len(data) < _PREFIX_BYTES or data[0] != 0:
        raise NoPrefix("does not start with the registry's prefix (a zero byte and 4 bytes of id)")
    return int.from_bytes(data[1:_PREFIX_BYTES], "big"), data[_PREFIX_BYTES:]


class RegistryClient:
    """Caches only what never changes: a schema by its id, and that an id does not exist."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._by_id: dict[int, Registered | None] = {}

    def by_id(self, schema_id: int) -> Registered:
        """Returns the schema with this id. Raises `NoSuchSchema` or `RegistryUnreachable`."""
        if schema_id not in self._by_id:
            try:
                answer = self._get(f"/schemas/ids/{schema_id}")
                self._by_id[schema_id] = self._registered(answer, schema_id)
            except NoSuchSchema:
                self._by_id[schema_id] = None
        found = self._by_id[schema_id]
        if found is None:
            raise NoSuchSchema(f"the registry has no schema {schema_id}")
        return found

    def by_subject(self, subject: str, version: int | str) -> Registered:
        """Returns a version of a subject. Raises `FormatError` if it does not exist."""
        name = urllib.parse.quote(subject, safe="")
        try:
            answer = self._get(f"/subjects/{name}/versions/{version}")
        except NoSuchSchema:
            raise FormatError(
                f"the registry {self._access.url} has no version {version} of the subject "
                f"{subject}; set registry.subject, or register the schema"
            ) from None
        found = answer.get("id", 0)
        return self._registered(answer, found if isinstance(found, int) else 0)

    def _registered(self, answer: Mapping[str, object], schema_id: int) -> Registered:
        references: dict[str, str] = {}
        self._collect(answer, references, 0)
        kind, text = str(answer.get("schemaType", "AVRO")), answer.get("schema")
        if not isinstance(text, str):
            raise FormatError(f"the registry {self._access.url} gave no schema for {schema_id}")
        return Registered(schema_id, kind, text, references)

    def _collect(self, answer: Mapping[str, object], into: dict[str, str], depth: int) -> None:
        """Collects inner references first, in the order that a parser needs."""
        listed = answer.get("references") or []
        if depth > MAX_DEPTH:
            raise FormatError("schemas that refer to each other in a circle")
        for each in listed if isinstance(listed, list) else []:
            try:
                name, subject, version = each["name"], str(each["subject"]), each["version"]
            except (TypeError, KeyError):
                raise FormatError(
                    f"the registry {self._access.url} names no schema: {each!r}"
                ) from None
            if name in into:
                continue
            found = self._get(
                f"/subjects/{urllib.parse.quote(subject, safe='')}/versions/{version}"
            )
            self._collect(found, into, depth + 1)
            into[name] = str(found.get("schema"))

    def _get(self, path: str) -> dict[str, object]:
        request = urllib.request.Request(self._access.url + path)  # noqa: S310 - http(s) by the spec
        request.add_header("Accept", "application/vnd.schemaregistry.v1+json, application/json")
        if self._access.authorization:
            request.add_header("Authorization", self._access.authorization)
        url = self._access.url
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:  # noqa: S310
                text = _read(answer)
        except urllib.error.HTTPError as error:
            with error:
                raise self._refused(path, error.code) from None
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise RegistryUnreachable(
                f"the schema registry {url} does not answer: {error}; check the URL "
                "and that it runs"
            ) from None
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise RegistryError(f"{url}{path} returned no JSON object: it is not a schema registry")
        return found

    def _refused(self, path: str, code: int) -> Exception:
        if code == 404:
            return NoSuchSchema(path)
        url = self._access.url
        if code in (401, 403):
            return RegistryError(
                f"the schema registry {url} refuses access ({code}); check registry.auth"
            )
        if code < SERVER_ERROR and code not in (TIMED_OUT, TOO_MANY):
            return RegistryError(f"the schema registry {url}{path} answers {code}; check the URL")
        return RegistryUnreachable(f"the schema registry {url} answers {code}; check its log")


def _read(answer: http.client.HTTPResponse) -> bytes:
    """Reads the whole answer. The deadline also stops a registry that sends very slowly."""
    deadline = time.monotonic() + 2 * TIMEOUT_S
    pieces: list[bytes] = []
    size = 0
    while piece := answer.read1(PIECE_BYTES):
        pieces.append(piece)
        size += len(piece)
        if size > MAX_ANSWER_BYTES:
            raise ValueError(f"the answer is larger than {MAX_ANSWER_BYTES} bytes")
        if time.monotonic() > deadline:
            raise TimeoutError("the answer does not end")
    return b"".join(pieces)


_clients: dict[Access, RegistryClient] = {}
_lock = threading.Lock()


def client_of(access: Access) -> RegistryClient:
    """Returns the client of this registry. Each process has one."""
    with _lock:
        return _clients.setdefault(access, RegistryClient(access))


def registered(registry: Registry, subject: str) -> Registered:
    """Returns the schema of the spec's subject, else of `subject`. Raises `FormatError`."""
    name = registry.subject or subject
    if not name:
        raise FormatError("registry.subject is missing: several topics could mean several schemas")
    return client_of(access_of(registry)).by_subject(name, registry.version)
