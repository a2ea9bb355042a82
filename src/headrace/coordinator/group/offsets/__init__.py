"""Committed offsets: the position of each group in each partition.

`Offsets` decides about commits, fetches, deletions and expiry. `table` holds committed offsets,
`pending` those of open transactions.
"""
