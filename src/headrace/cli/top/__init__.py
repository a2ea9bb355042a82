"""`headrace top`: a live view of brokers, topics, groups and requests."""
