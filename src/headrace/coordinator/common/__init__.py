"""What all coordinators share: results, shards, record formats, keys."""
