"""Consumer groups (KIP-848): members heartbeat, the coordinator assigns.

`groups.ConsumerGroups` is the way in. `heartbeat` decides what one heartbeat changes: who the
member is (`membership`), what it subscribes to (`patterns`), the target (`targets`, `assignors`),
and its next step towards it (`reconciliation`). `departure` lets members go. `group` and `member`
keep the books, `log` turns them into records and `replaying` back. `upgrade`, `downgrade` and
`classic_members` are for groups and members of the classic protocol.
"""
