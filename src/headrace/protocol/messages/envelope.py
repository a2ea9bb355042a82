"""Envelope (key 58): version 0, flexible from 0. Between brokers.

A broker forwards a client's request to the active controller, with the client's principal
(KIP-590). Fields with tags from 10,000 on are Headrace's own; Kafka ignores them.
"""

from headrace.protocol.struct import Struct, field
from headrace.protocol.types import boolean, bytes_, int16, nullable_bytes, string


class DefaultPrincipalData(Struct, versions=(0, 0), flexible_since=0):
    """The client's principal, and Headrace's own fields about its session."""

    type: string = ""
    name: string = ""
    token_authenticated: boolean = False
    listener: string = field(since=0, tag=10_000, ignorable=True, default="")
    security_protocol: string = field(since=0, tag=10_001, ignorable=True, default="")
    token_id: string = field(since=0, tag=10_002, ignorable=True, default="")


class EnvelopeRequest(Struct, versions=(0, 0), flexible_since=0):
    request_data: bytes_ = b""
    """The client's request, with its header."""
    request_principal: nullable_bytes = b""
    """`DefaultPrincipalData` after its version, an int16."""
    client_host_address: bytes_ = b""


class EnvelopeResponse(Struct, versions=(0, 0), flexible_since=0):
    response_data: nullable_bytes = None
    error_code: int16 = 0
