"""What the HTTP port and its metrics cost."""
