"""The frame of every coordinator: pure shards that turn requests into records and answers.

A shard holds the state of one partition of an internal topic. It takes a request and the time, and
returns a `Turn`: records to append, the answer to give once they are committed, timers, and
effects outside. Its state changes only when those records are replayed, which is also how another
broker, or the same one after a restart, rebuilds it. Nothing here knows a loop, a file or a clock.
"""
