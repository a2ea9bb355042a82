"""A Confluent-compatible schema registry, asked once for each schema and process."""

import base64
import json
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Final, NamedTuple

from headrace.pipeline.formats.errors import FormatError, RegistryUnreachable
from headrace.pipeline.spec.formats import Registry

TIMEOUT_S: Final = 10
MAX_ANSWER_BYTES: Final = 16 * 2**20
_PREFIX_BYTES: Final = 5
MAX_DEPTH: Final = 20
"""Of schemas that refer to schemas."""


class Access(NamedTuple):
    """Where the registry is and how to be let in. Goes to the tasks; not to be printed."""

    url: str
    authorization: str = ""

    def __repr__(self) -> str:
        return f"Access({self.url})"


class Registered(NamedTuple):
    """A schema as the registry holds it, with those that it refers to, by name."""

    id: int
    kind: str
    text: str
    references: Mapping[str, str]


class NoSuchSchema(LookupError):
    """The registry answers, and does not know it."""


class NoPrefix(ValueError):
    """The bytes do not start with the registry's prefix."""


def access_of(registry: Registry) -> Access:
    """With the secrets filled in; raises `UnsetVariable`."""
    auth = registry.auth.resolved()
    authorization = ""
    if "token" in auth:
        authorization = f"Bearer {auth['token']}"
    elif "username" in auth:
        pair = f"{auth['username']}:{auth.get('password', '')}"
        authorization = "Basic " + base64.b64encode(pair.encode()).decode()
    return Access(registry.url.rstrip("/"), authorization)


def split_prefix(data: bytes) -> tuple[int, bytes]:
    """The schema's id and the rest; raises `NoPrefix`."""
    if len(data) < _PREFIX_BYTES or data[0] != 0:
        raise NoPrefix("does not start with the registry's prefix (a zero byte and 4 bytes of id)")
    return int.from_bytes(data[1:_PREFIX_BYTES], "big"), data[_PREFIX_BYTES:]


class RegistryClient:
    """Caches what never changes: a schema by its id, and that an id does not exist."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._by_id: dict[int, Registered | None] = {}

    def by_id(self, schema_id: int) -> Registered:
        """Raises `NoSuchSchema` or `RegistryUnreachable`."""
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
        """Raises `FormatError` where there is none."""
        name = urllib.parse.quote(subject, safe="")
        try:
            answer = self._get(f"/subjects/{name}/versions/{version}")
        except NoSuchSchema:
            raise FormatError(
                f"the registry {self._access.url} has no version {version} of the subject "
                f"{subject}; set registry.subject, or register the schema"
            ) from None
        return self._registered(answer, int(str(answer.get("id", 0))))

    def _registered(self, answer: Mapping[str, object], schema_id: int) -> Registered:
        references: dict[str, str] = {}
        self._collect(answer, references, 0)
        kind, text = str(answer.get("schemaType", "AVRO")), answer.get("schema")
        if not isinstance(text, str):
            raise FormatError(f"the registry {self._access.url} gave no schema for {schema_id}")
        return Registered(schema_id, kind, text, references)

    def _collect(self, answer: Mapping[str, object], into: dict[str, str], depth: int) -> None:
        """Inner references first, as a reader needs them."""
        listed = answer.get("references") or []
        if depth > MAX_DEPTH:
            raise FormatError("schemas that refer to each other in a circle")
        for each in listed if isinstance(listed, list) else []:
            if each["name"] in into:
                continue
            subject = urllib.parse.quote(each["subject"], safe="")
            found = self._get(f"/subjects/{subject}/versions/{each['version']}")
            self._collect(found, into, depth + 1)
            into[each["name"]] = str(found["schema"])

    def _get(self, path: str) -> dict[str, object]:
        request = urllib.request.Request(self._access.url + path)  # noqa: S310 - http(s) by the spec
        request.add_header("Accept", "application/vnd.schemaregistry.v1+json, application/json")
        if self._access.authorization:
            request.add_header("Authorization", self._access.authorization)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:  # noqa: S310
                found = json.loads(answer.read(MAX_ANSWER_BYTES))
        except urllib.error.HTTPError as error:
            with error:
                raise self._refused(path, error.code) from None
        except (OSError, ValueError) as error:
            raise RegistryUnreachable(
                f"the schema registry {self._access.url} does not answer: {error}; check the URL "
                "and that it runs"
            ) from None
        if not isinstance(found, dict):
            raise RegistryUnreachable(f"{self._access.url} is no schema registry")
        return found

    def _refused(self, path: str, code: int) -> Exception:
        if code == 404:
            return NoSuchSchema(path)
        if code in (401, 403):
            return RegistryUnreachable(
                f"the schema registry {self._access.url} refuses access ({code}); "
                "check registry.auth"
            )
        return RegistryUnreachable(f"the schema registry {self._access.url} answers {code}")


_clients: dict[Access, RegistryClient] = {}
_lock = threading.Lock()


def client_of(access: Access) -> RegistryClient:
    """One for each registry and process."""
    with _lock:
        return _clients.setdefault(access, RegistryClient(access))


def registered(registry: Registry, subject: str) -> Registered:
    """The schema of the subject that the spec names, else of `subject`; raises `FormatError`."""
    name = registry.subject or subject
    if not name:
        raise FormatError("registry.subject is missing: several topics could mean several schemas")
    return client_of(access_of(registry)).by_subject(name, registry.version)
