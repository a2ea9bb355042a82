"""Committed offsets: where each group goes on reading each partition.

`Offsets` decides about commits, fetches, deletions and expiry. `table` holds what is committed,
`pending` what open transactions have written and may still take back.
"""
