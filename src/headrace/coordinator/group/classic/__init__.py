"""Classic groups: members join, the leader assigns, every member heartbeats.

`groups.ClassicGroups` is the entry point. `join`, `sync` and `leave` each decide one request;
`rebalance` takes a group from one generation to the next, along the states of `state`. `group` and
`member` hold the data, and `snapshot` converts it to the record of the group and back.
"""
