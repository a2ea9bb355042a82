"""Security decisions: principals, ACLs, SASL exchanges, credentials, quotas. Pure.

A module here takes time, randomness and file contents as arguments. Sockets, TLS contexts and
key downloads are in `headrace.broker` and `headrace.client`.
"""
