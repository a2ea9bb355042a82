"""Compaction: the last value of each key is kept, what it replaced goes.

`plan` and `groups` decide what to clean, `run` does the reading and writing (in a worker process),
`swap` puts the result in the place of the old segments, `leftovers` tidies up after a crash.
"""
