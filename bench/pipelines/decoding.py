"""Measures the speed of record decoding and its first call; a program: `decoding.py SIZE`.

Each measurement uses a new process: the first call loads the compiled decoder, as in a new Python
worker. Prints one JSON object.
"""

import json
import sys
import time

SECONDS = 2.0
BATCH_RECORDS = 1000
CHUNK_BYTES = 16 << 20
"""The size of one fetch."""


def chunk(size: int) -> tuple[bytes, int]:
    """Consecutive batches of records of that size, and the number of records."""
    from headrace.records.batch_header import stamp
    from headrace.records.record import Record, build_batch

    value = bytes(index % 251 for index in range(size))
    records = [Record(index, 1_700_000_000_000, None, value, ()) for index in range(BATCH_RECORDS)]
    batch = bytearray(build_batch(records))
    batches = max(1, CHUNK_BYTES // len(batch))
    whole = bytearray()
    for index in range(batches):
        stamp(batch, 0, index * BATCH_RECORDS, 0)
        whole += batch
    return bytes(whole), batches * BATCH_RECORDS


def main(size: int) -> None:
    data, count = chunk(size)
    began = time.perf_counter()
    from headrace.records.arrow.decoder import decode_batches

    list(decode_batches(data, start=0, end=1))
    first_call_s = time.perf_counter() - began
    used, decoded = time.process_time(), 0
    while time.process_time() - used < SECONDS:
        decoded += sum(len(each.records) for each in decode_batches(data, start=0, end=count))
    rate = decoded / (time.process_time() - used)
    print(json.dumps({"rate": rate, "first_call_s": first_call_s}))


if __name__ == "__main__":
    main(int(sys.argv[1]))
