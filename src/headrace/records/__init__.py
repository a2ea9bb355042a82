"""Record batches: header, checksum, codecs, records, control records, partitioners. Pure."""
