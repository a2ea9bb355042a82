"""The transaction coordinator: who may write in which transaction, and how it ends. Pure.

A shard (`shard`) holds the transactional ids of one partition of `__transaction_state`. `records`
is what it writes there, `transaction` the state of one id; `initialising` and `ending` say what a
request makes of it, `directory` shows it to tools.

A transaction whose end is decided will end, whatever happens: writing its markers is an effect of
the turn that wrote the decision, and of loading a shard that finds a decision without an end.
"""
