"""A minimal broker on a real loopback socket; the test defines its responses."""

import asyncio
import ssl
from collections.abc import Callable
from typing import Self, TypeAlias

from headrace.protocol.api import APIS, ApiKey
from headrace.protocol.header import read_request_header, response_header
from headrace.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from headrace.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from headrace.protocol.struct import Struct

Answer: TypeAlias = Struct | bytes | None
Handler: TypeAlias = Callable[[Struct, int], Answer]

SERVED = [
    ApiVersion(api_key=key, min_version=spec.min_version, max_version=spec.max_version)
    for key, spec in APIS.items()
]


class FakeBroker:
    """Answers requests with `handlers`: a message, raw bytes for the body, or None for no response.

    Each of the `dropped` requests closes the connection instead.
    """

    def __init__(self, node_id: int = 1, tls: ssl.SSLContext | None = None) -> None:
        self.node_id = node_id
        self._tls = tls
        self.port = 0
        self.seen: list[tuple[ApiKey, int]] = []
        self.dropped: list[ApiKey] = []
        self.connections = 0
        self.handlers: dict[ApiKey, Handler] = {
            ApiKey.API_VERSIONS: lambda request, version: ApiVersionsResponse(api_keys=SERVED),
            ApiKey.METADATA: lambda request, version: self.layout({}),
        }
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: list[asyncio.Task[None]] = []
        self._progress = asyncio.Condition()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def count(self, key: ApiKey) -> int:
        return sum(1 for seen, _ in self.seen if seen == key)

    async def until_seen(self, key: ApiKey, times: int = 1) -> None:
        async with asyncio.timeout(5), self._progress:
            await self._progress.wait_for(lambda: self.count(key) >= times)

    def layout(self, topics: dict[str, list[int]], *others: "FakeBroker") -> MetadataResponse:
        """Metadata with this broker as the controller; `topics` lists partition leaders."""
        return MetadataResponse(
            controller_id=self.node_id,
            cluster_id="test",
            brokers=[
                MetadataResponseBroker(node_id=each.node_id, host="127.0.0.1", port=each.port)
                for each in (self, *others)
            ],
            topics=[
                MetadataResponseTopic(
                    name=name,
                    topic_id=name.encode().ljust(16, b"."),
                    partitions=[
                        MetadataResponsePartition(partition_index=index, leader_id=leader)
                        for index, leader in enumerate(leaders)
                    ],
                )
                for name, leaders in topics.items()
            ],
        )

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(
            self._serve, "127.0.0.1", self.port, ssl=self._tls
        )
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._server.close()
        for writer in list(self._writers):
            writer.close()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.append(task)
        self._writers.add(writer)
        try:
            while await self._serve_one(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
            self._writers.discard(writer)

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
        header, pos = read_request_header(frame, 0, len(frame))
        key, version = ApiKey(header.request_api_key), header.request_api_version
        self.seen.append((key, version))
        async with self._progress:
            self._progress.notify_all()
        if key in self.dropped:
            self.dropped.remove(key)
            return False
        request = APIS[key].request.decode(frame[pos:], version)
        answer = self.handlers[key](request, version)
        if answer is None:
            return True
        body = answer if isinstance(answer, bytes) else answer.encode(version)
        response = response_header(key, version, header.correlation_id) + body
        writer.write(len(response).to_bytes(4, "big") + response)
        await writer.drain()
        return True
