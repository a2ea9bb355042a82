"""Many reads in one request: ZooKeeper supports them since 3.6, kazoo does not."""

from collections.abc import Sequence

from kazoo.exceptions import EXCEPTIONS, KazooException, NoNodeError
from kazoo.protocol.serialization import GetData, MultiHeader, int_struct, read_buffer, stat_struct

from headrace.cluster.stores.zookeeper_client import Stat


class MultiRead:
    """A request that reads many znodes, in the form that kazoo serializes."""

    type = 22

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = paths

    def serialize(self) -> bytearray:
        parts = bytearray()
        for path in self._paths:
            parts += MultiHeader(GetData.type, False, -1).serialize()
            parts += GetData(path, None).serialize()
        parts += MultiHeader(-1, True, -1).serialize()
        return parts

    @classmethod
    def deserialize(cls, data: bytes, offset: int) -> list[tuple[bytes, Stat] | None]:
        found: list[tuple[bytes, Stat] | None] = []
        header, offset = MultiHeader.deserialize(data, offset)
        while not header.done:
            if header.type == GetData.type:
                content, offset = read_buffer(data, offset)
                fields = stat_struct.unpack_from(data, offset)
                offset += stat_struct.size
                stat = Stat(fields[4], fields[0], fields[1], fields[7], child_count=fields[9])
                found.append((content or b"", stat))
            else:
                (code,) = int_struct.unpack_from(data, offset)
                offset += int_struct.size
                if code != NoNodeError.code:
                    raise _read_error(code)
                found.append(None)
            header, offset = MultiHeader.deserialize(data, offset)
        return found


def _read_error(code: int) -> KazooException:
    error: KazooException = EXCEPTIONS[code]()
    return error
