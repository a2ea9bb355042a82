"""The group coordinator: classic, consumer (KIP-848) and share groups, and committed offsets.

`GroupShard` holds the groups of one partition of `__consumer_offsets`. It is pure, as
`headrace.coordinator` describes: it takes a request and the time, and returns the records to write
and the answer.
"""
