"""The common part of all coordinators: results, shards, record formats, keys."""
