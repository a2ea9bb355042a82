"""Committed offsets: the position of each group in each partition.

`OffsetManager` decides about commits, fetches, deletions and expiry. `OffsetTable` holds committed
offsets, `PendingOffsets` those of open transactions.
"""
