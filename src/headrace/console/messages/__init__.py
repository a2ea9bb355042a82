"""Reading, filtering, decoding and showing records."""
