"""Classic groups: members join, a leader assigns, everybody heartbeats.

`groups.ClassicGroups` is the way in; `join`, `sync` and `leave` each decide one request,
`rebalance` moves a group from generation to generation, `group` and `member` keep the books and
`snapshot` turns them into the record of the group and back.
"""
