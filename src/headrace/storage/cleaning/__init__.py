"""Compaction: the latest record of each key is kept, earlier ones are removed.

`plan` and `groups` decide what to clean, `run` does the reading and writing (in a worker process),
`swap` replaces the old segments by the result, `leftovers` cleans up after a crash.
"""
