"""The transaction coordinator: which producer may write in which transaction, and how it ends.
Pure.

A shard (`transaction_shard`) holds the transactional ids of one partition of `__transaction_state`.
`records` has its records, `transaction` the state of one id. `init_producer_id`, `add_partitions`
and `end_txn` decide what a request changes, `transaction_timeout` and `transactional_id_expiration`
what time changes; `transaction_listing` answers tools. A transaction whose end is
decided always ends, also after a crash. Writing its markers is an effect of the result that wrote
the decision, and also of loading a shard that finds a decision without an end.
"""
