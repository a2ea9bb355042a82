"""The records of `__consumer_offsets`: Kafka's keys and values, by kind of group."""
