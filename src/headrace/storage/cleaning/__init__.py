"""Compaction: the latest record of each key is kept, earlier ones are removed.

`log_to_clean` and `segment_groups` choose the segments to clean. `cleaning_pass` reads and writes,
in a worker process. `swap` replaces the old segments by the result. `interrupted_swaps` completes
or undoes a swap after a crash.
"""
