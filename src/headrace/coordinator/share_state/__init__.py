"""The persisted state of share groups in `__share_group_state` (KIP-932). Pure.

A shard holds one partition of that topic. Group coordinators initialize and delete the state of a
share partition; the partition's leader reads it once and then writes every change.
"""
