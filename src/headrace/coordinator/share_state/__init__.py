"""What share groups have decided about records, kept in `__share_group_state` (KIP-932). Pure.

A shard holds one partition of that topic. Group coordinators start and delete the state of a share
partition, the leader of the partition reads it once and then writes every change.
"""
