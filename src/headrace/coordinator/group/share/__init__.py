"""Share groups (KIP-932): members, assignments, and the partitions with initialized state.

A partition is assigned only once its state is stored, so that no member can read from a share
partition that does not exist yet. Several members may have the same partition.
"""
