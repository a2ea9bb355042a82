"""RemoveRaftVoter (key 81): versions 0, flexible from 0.

Removes a controller from the quorum.
"""

from headrace.protocol.struct import Struct
from headrace.protocol.types import ZERO_UUID, int16, int32, nullable_string, uuid


class RemoveRaftVoterRequest(Struct, versions=(0, 0), flexible_since=0):
    cluster_id: nullable_string = ""
    voter_id: int32 = 0
    voter_directory_id: uuid = ZERO_UUID


class RemoveRaftVoterResponse(Struct, versions=(0, 0), flexible_since=0):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: nullable_string = ""
