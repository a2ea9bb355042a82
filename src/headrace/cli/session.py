"""A command's session: the client for the cluster, and the output."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from random import SystemRandom
from typing import Final, TypeVar

from headrace.cli.error_messages import no_partition, not_found, refused, usage
from headrace.cli.id_ranges import parse_ids
from headrace.cli.output import Output
from headrace.cli.profiles import SERVERS
from headrace.cli.secrets import resolve_secrets
from headrace.client.admin.topics import list_topics
from headrace.client.client import DEFAULT_CONNECT_TIMEOUT_S, ClusterClient
from headrace.client.errors import ConnectionFailed, ConnectionLost
from headrace.client.login.rdkafka_settings import rdkafka_settings
from headrace.client.login.security import Credentials, security_of
from headrace.client.metadata import TopicInfo, metadata_request
from headrace.client.network.retry import Deadline
from headrace.client.results import Refusal, TopicPartition
from headrace.clock import SystemClock
from headrace.protocol.messages.metadata import MetadataResponse

T = TypeVar("T")

CLIENT_ID: Final = "headrace-cli"
DEFAULT_TIMEOUT_S: Final = 15.0
# A broker that has just started may need a moment before it accepts connections.
REACH_ATTEMPTS: Final = 3
REACH_PAUSE_S: Final = 0.15
REACH_PATIENCE_S: Final = 2.0  # an address that drops packets is not retried


@dataclass(frozen=True, slots=True)
class Session:
    """What every command receives: client settings, output and timeout."""

    settings: Mapping[str, str] = field(repr=False)
    output: Output
    timeout_s: float = DEFAULT_TIMEOUT_S
    servers_named: bool = False
    """Whether the command line names the servers."""
    _resolved: dict[str, str] = field(default_factory=dict, init=False, repr=False)

    @property
    def servers(self) -> str:
        return self.settings[SERVERS]

    @property
    def resolved(self) -> Mapping[str, str]:
        """The settings, with the secrets that are in files or that commands print."""
        if not self._resolved:
            self._resolved.update(resolve_secrets(self.settings))
        return self._resolved

    def run(self, work: Callable[[ClusterClient], Awaitable[T]]) -> T:
        """Runs `work` with a client that has reached the cluster; raises `ClientError`."""

        async def main() -> T:
            async with self._client() as client:
                await self._reach(client)
                return await work(client)

        with asyncio.Runner() as runner:
            return runner.run(main())

    def _client(self) -> ClusterClient:
        security = security_of(self.resolved)
        try:
            return ClusterClient(
                self.servers,
                client_id=self.settings.get("client.id", CLIENT_ID),
                clock=SystemClock(),
                random=SystemRandom(),
                security=security,
                request_timeout_s=self.timeout_s,
                connect_timeout_s=min(self.timeout_s, DEFAULT_CONNECT_TIMEOUT_S),
            )
        except ValueError as error:
            raise usage(f"bootstrap servers: {error}") from error

    async def _reach(self, client: ClusterClient) -> None:
        """Fails early if no broker listens, instead of retrying until the timeout."""
        patience = Deadline(SystemClock(), REACH_PATIENCE_S)
        for attempt in range(1, REACH_ATTEMPTS + 1):
            try:
                answer = await client.send(
                    metadata_request([]), MetadataResponse, retry=False, timeout_s=self.timeout_s
                )
            except (ConnectionFailed, ConnectionLost):
                if attempt == REACH_ATTEMPTS or not patience.remaining_s():
                    raise
                await asyncio.sleep(REACH_PAUSE_S)
            else:
                client.metadata.update(answer)
                return

    def rdkafka(self, **options: object) -> dict[str, object]:
        """Settings for confluent-kafka. The user's settings override `options` (_ for dots)."""
        quiet = logging.getLogger("headrace.rdkafka")
        quiet.propagate = False
        if not quiet.handlers:
            quiet.addHandler(logging.NullHandler())
        ours = {name.replace("_", "."): value for name, value in options.items()}
        theirs: dict[str, object] = dict(rdkafka_settings(self.resolved))
        sasl = security_of(self.resolved).sasl
        if sasl is not None and sasl.token_source is not None:
            theirs["oauth_cb"] = _token_callback(sasl, self.timeout_s)
        # Without a logger, librdkafka writes to stderr. The command reports the errors.
        return {"client.id": CLIENT_ID, **ours, **theirs, "logger": quiet}


def _token_callback(
    credentials: Credentials, timeout_s: float
) -> Callable[[str], tuple[str, float, str, dict[str, str]]]:
    """librdkafka asks it for an OAUTHBEARER token, and again before the token expires."""
    from headrace.client.login.bearer_token import lifetime_s, read_token

    source = credentials.token_source
    assert source is not None

    def fetch(_: str) -> tuple[str, float, str, dict[str, str]]:
        token = read_token(source, timeout_s=timeout_s)
        now_s = SystemClock().wall_ms() / 1000
        return token, now_s + lifetime_s(token, now_s), "", dict(credentials.extensions)

    return fetch


async def find_topics(
    client: ClusterClient, names: Sequence[str], *, timeout_s: float
) -> list[TopicInfo]:
    """The topics with these names. Raises `CommandFailed` for the first that does not exist."""
    known = {topic.name: topic for topic in await list_topics(client, timeout_s=timeout_s)}
    for name in names:
        if name not in known:
            raise not_found("topic", name, known)
    return [known[name] for name in names]


async def match_topics(
    client: ClusterClient, words: Sequence[str], *, timeout_s: float
) -> list[TopicInfo]:
    """The topics that match these names and patterns such as `orders*`, each once.

    Patterns never match internal topics. Raises `CommandFailed` for the first word without a match.
    """
    known = {topic.name: topic for topic in await list_topics(client, timeout_s=timeout_s)}
    found: dict[str, TopicInfo] = {}
    for word in words:
        names = topics_like(word, known) if is_pattern(word) else [word] * (word in known)
        if not names:
            kind = "topic that matches" if is_pattern(word) else "topic"
            raise not_found(kind, word, () if is_pattern(word) else known)
        found |= {name: known[name] for name in names}
    return list(found.values())


def is_pattern(word: str) -> bool:
    """Whether a word is a pattern: topic names cannot contain these characters."""
    return any(each in word for each in "*?[")


def topics_like(pattern: str, known: Mapping[str, TopicInfo]) -> list[str]:
    """The names of the matching topics, without internal topics."""
    return [
        name
        for name, topic in known.items()
        if fnmatchcase(name, pattern) and not topic.is_internal
    ]


def partitions_of(topic: TopicInfo, wanted: Sequence[int] | None = None) -> list[TopicPartition]:
    """The wanted partitions of a topic; all if `wanted` is None."""
    chosen = sorted(topic.partitions) if wanted is None else list(wanted)
    for index in chosen:
        if index not in topic.partitions:
            last = max(topic.partitions, default=-1)
            raise no_partition(topic.name, index, last)
    return [TopicPartition(topic.name, index) for index in chosen]


def values_of(answers: Mapping[TopicPartition, T | Refusal]) -> dict[TopicPartition, T]:
    """The answers of all partitions. Raises `CommandFailed` for the first refusal."""
    found: dict[TopicPartition, T] = {}
    for partition, answer in answers.items():
        if isinstance(answer, Refusal):
            raise refused(str(partition), answer)
        found[partition] = answer
    return found


def parse_partitions(text: str | None) -> list[int] | None:
    """`0,2-4` as numbers; None if the option was not given."""
    return parse_ids(text, "partitions")
