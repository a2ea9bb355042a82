"""The metadata stores: SQLite for a single node, ZooKeeper for a cluster."""
