"""Periodic work: retention, checkpoints, compaction, preloaded imports."""
