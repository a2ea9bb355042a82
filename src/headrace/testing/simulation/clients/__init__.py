"""The simulated clients: producers, readers, groups, transactions and an administrator."""
