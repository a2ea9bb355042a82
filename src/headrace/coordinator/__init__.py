"""The framework of every coordinator: pure shards that turn requests into records and responses.

A shard holds the state of one partition of an internal topic. It takes a request and the time, and
returns a `CoordinatorResult`: records to append, the response to send once they are committed,
timers, and effects for the broker to carry out. Its state changes only when those records are
replayed. Another broker, or the same one after a restart, rebuilds the state in the same way.
Nothing here uses an event loop, a file or a clock.
"""
