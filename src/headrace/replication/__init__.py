"""The leader of one partition: its log, its epoch and how far its records may be read."""
