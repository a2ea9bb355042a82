/* Values that compress about as event logs do: repeated field names around changing text. */
#include "load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { POOL = 4096 };

struct payloads {
        size_t size;
        char *bytes;
};

static uint32_t next_random(uint32_t *state) {
        *state ^= *state << 13;
        *state ^= *state >> 17;
        *state ^= *state << 5;
        return *state;
}

static void fill(char *at, size_t size, uint32_t *state) {
        size_t used = 0;
        while (used < size) {
                char piece[96];
                int length =
                    snprintf(piece, sizeof piece, "{\"user\":\"%08x\",\"item\":%u,\"price\":%u.%02u,\"action\":\"%s\"}",
                             next_random(state), next_random(state) % 100000,
                             next_random(state) % 500, next_random(state) % 100,
                             next_random(state) & 1 ? "view" : "purchase");
                size_t take = (size_t)length < size - used ? (size_t)length : size - used;
                memcpy(at + used, piece, take);
                used += take;
        }
}

payloads_t *payloads_new(size_t size) {
        payloads_t *payloads = malloc(sizeof *payloads);
        uint32_t state = 2463534242u;
        if (!payloads || !(payloads->bytes = malloc(size * POOL)))
                die("no memory for payloads");
        payloads->size = size;
        for (size_t i = 0; i < POOL; i++)
                fill(payloads->bytes + i * size, size, &state);
        return payloads;
}

void *payload_at(const payloads_t *payloads, int64_t index) {
        return payloads->bytes + (size_t)(index % POOL) * payloads->size;
}
