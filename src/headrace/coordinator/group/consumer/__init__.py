"""Consumer groups (KIP-848): members heartbeat, the coordinator assigns.

`ConsumerGroupManager` is the entry point. `heartbeat` decides what one heartbeat changes: the
member (`member_checks`), its subscription (`regex_subscriptions`), the target assignment
(`target_assignment`, `assignors`), and the member's next step towards it (`reconciliation`).
`leave_group` removes members. `consumer_group` and `member` hold the data; `group_records` converts
it to records and `record_replay` back. `upgrade`, `downgrade` and `classic_members` are for groups
and members of the classic protocol.
"""
