"""AddRaftVoter (key 80): versions 0-1, flexible from 0.

Adds a controller to the quorum.
"""

from headrace.protocol.struct import Struct, field
from headrace.protocol.types import (
    ZERO_UUID,
    boolean,
    int16,
    int32,
    nullable_string,
    string,
    uint16,
    uuid,
)


class AddRaftVoterListener(Struct):
    name: string = ""
    host: string = ""
    port: uint16 = 0


class AddRaftVoterRequest(Struct, versions=(0, 1), flexible_since=0):
    cluster_id: nullable_string = ""
    timeout_ms: int32 = 0
    voter_id: int32 = 0
    voter_directory_id: uuid = ZERO_UUID
    listeners: list[AddRaftVoterListener] = field(default_factory=list)
    ack_when_committed: boolean = field(since=1, default=True)


class AddRaftVoterResponse(Struct, versions=(0, 1), flexible_since=0):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: nullable_string = ""
