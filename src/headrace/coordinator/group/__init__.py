"""The group coordinator: classic, consumer (KIP-848) and share groups, and committed offsets.

`GroupShard` holds the groups of one partition of `__consumer_offsets`. All of it is pure, as
`headrace.coordinator` says: decisions come in as requests and a time and go out as turns.
"""
