"""Consumer groups (KIP-848): members heartbeat, the coordinator assigns.

`groups.ConsumerGroups` is the entry point. `heartbeat` decides what one heartbeat changes: the
member (`membership`), its subscription (`patterns`), the target assignment (`updater`,
`assignors`), and the member's next step towards it (`reconciliation`). `departure` removes members.
`group` and `member` hold the data; `log` converts it to records and `replaying` back. `upgrade`,
`downgrade` and `classic_members` are for groups and members of the classic protocol.
"""
