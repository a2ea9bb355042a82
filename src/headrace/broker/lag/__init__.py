"""Consumer lag in records and in seconds, for groups of every kind; locks of share groups."""
