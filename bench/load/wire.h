/* Kafka's protocol over plain sockets, for loads that a client library cannot make: thousands of
 * connections in one thread, each with one request outstanding, served by epoll. */
#ifndef HEADRACE_BENCH_WIRE_H
#define HEADRACE_BENCH_WIRE_H

#include "load.h"

enum {
        API_OFFSET_COMMIT = 8, API_FIND_COORDINATOR = 10, API_JOIN_GROUP = 11, API_HEARTBEAT = 12,
        API_LEAVE_GROUP = 13, API_SYNC_GROUP = 14, API_VERSIONS = 18,
};
enum {
        ERROR_NONE = 0, ERROR_LOAD_IN_PROGRESS = 14, ERROR_NOT_AVAILABLE = 15,
        ERROR_NOT_COORDINATOR = 16, ERROR_REBALANCE_IN_PROGRESS = 27, ERROR_MEMBER_ID_REQUIRED = 79,
};

/* Whether the coordinator only needs time: its topic is new, or it still reads it. */
bool is_passing(int16_t error);

/* A request being written. It grows as needed; frame_begin empties it. */
typedef struct {
        uint8_t *bytes;
        size_t length;
        size_t capacity;
} frame_t;
void frame_begin(frame_t *frame, int16_t api, int16_t version, bool flexible);
void frame_end(frame_t *frame); /* fills in the size */
void put_i8(frame_t *frame, int8_t value);
void put_i16(frame_t *frame, int16_t value);
void put_i32(frame_t *frame, int32_t value);
void put_i64(frame_t *frame, int64_t value);
void put_text(frame_t *frame, const char *text);         /* NULL is null */
void put_compact_text(frame_t *frame, const char *text); /* up to 126 bytes; NULL is null */
void put_bytes(frame_t *frame, const void *bytes, size_t length);
void patch_i32(uint8_t *at, int32_t value);
void patch_i64(uint8_t *at, int64_t value);
enum { CORRELATION_AT = 8 };

/* An answer being read, after its correlation id. Reading past the end ends the program. */
typedef struct {
        const uint8_t *at;
        const uint8_t *end;
} answer_t;
int16_t get_i16(answer_t *answer);
int32_t get_i32(answer_t *answer);
void get_text(answer_t *answer, char *into, size_t capacity); /* null becomes "" */
void skip(answer_t *answer, size_t length);

/* Connections 0 .. count - 1 to one broker. */
typedef struct pool pool_t;
pool_t *pool_new(const char *bootstrap, int count);
void pool_send(pool_t *pool, int connection, const uint8_t *bytes, size_t length);
typedef void (*on_answer_t)(void *opaque, int connection, answer_t answer);
/* Waits up to timeout_ms (0 .. ) for answers and hands each on. */
void pool_poll(pool_t *pool, int timeout_ms, on_answer_t on_answer, void *opaque);
void pool_close(pool_t *pool);

/* Says on standard output that the timed part begins, so that the broker's CPU can be read. */
void say_ready(void);

/* Asks for the group's coordinator until there is one, so that its topic exists. */
void await_coordinator(const options_t *options, const char *group);

#endif
