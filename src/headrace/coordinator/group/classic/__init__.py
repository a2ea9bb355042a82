"""Classic groups: members join, the leader assigns, every member heartbeats.

`ClassicGroupManager` is the entry point. `join_group`, `sync_group` and `leave_group` each decide
one request; `rebalance` takes a group from one generation to the next, along the states of
`classic_state`. `classic_group` and `member` hold the data, and `group_record` converts it to the
record of the group and back.
"""
