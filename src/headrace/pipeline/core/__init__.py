"""Small values that every part of a pipeline uses: columns, offsets, packed records."""
