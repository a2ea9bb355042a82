/* Frames, answers and connections of wire.h. */
#define _GNU_SOURCE
#include "wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

static const char CLIENT_ID[] = "headrace-bench";
enum { FIRST_CAPACITY = 512, SIZE_BYTES = 4, MAX_EVENTS = 256, ACCEPT_QUEUE = 25 };

bool is_passing(int16_t error) {
        return error == ERROR_LOAD_IN_PROGRESS || error == ERROR_NOT_AVAILABLE ||
               error == ERROR_NOT_COORDINATOR;
}

/* --- writing ------------------------------------------------------------------------------- */

static void append(frame_t *frame, const void *bytes, size_t length) {
        if (frame->length + length > frame->capacity) {
                frame->capacity = 2 * (frame->length + length);
                frame->bytes = realloc(frame->bytes, frame->capacity);
                if (!frame->bytes)
                        die("out of memory");
        }
        memcpy(frame->bytes + frame->length, bytes, length);
        frame->length += length;
}

static void big_endian(uint8_t *at, uint64_t value, int width) {
        for (int i = width - 1; i >= 0; i--, value >>= 8)
                at[i] = (uint8_t)value;
}

static void put_number(frame_t *frame, int64_t value, int width) {
        uint8_t bytes[8];
        big_endian(bytes, (uint64_t)value, width);
        append(frame, bytes, (size_t)width);
}

void put_i8(frame_t *frame, int8_t value) { put_number(frame, value, 1); }
void put_i16(frame_t *frame, int16_t value) { put_number(frame, value, 2); }
void put_i32(frame_t *frame, int32_t value) { put_number(frame, value, 4); }
void put_i64(frame_t *frame, int64_t value) { put_number(frame, value, 8); }
void patch_i32(uint8_t *at, int32_t value) { big_endian(at, (uint32_t)value, 4); }
void patch_i64(uint8_t *at, int64_t value) { big_endian(at, (uint64_t)value, 8); }

void put_text(frame_t *frame, const char *text) {
        put_i16(frame, text ? (int16_t)strlen(text) : -1);
        if (text)
                append(frame, text, strlen(text));
}

void put_compact_text(frame_t *frame, const char *text) {
        if (text && strlen(text) > 126)
                die("%s is too long a name", text);
        put_i8(frame, text ? (int8_t)(strlen(text) + 1) : 0);
        if (text)
                append(frame, text, strlen(text));
}

void put_bytes(frame_t *frame, const void *bytes, size_t length) {
        put_i32(frame, (int32_t)length);
        append(frame, bytes, length);
}

void frame_begin(frame_t *frame, int16_t api, int16_t version, bool flexible) {
        frame->length = 0;
        put_i32(frame, 0); /* size */
        put_i16(frame, api);
        put_i16(frame, version);
        put_i32(frame, 0); /* correlation id */
        put_text(frame, CLIENT_ID);
        if (flexible)
                put_i8(frame, 0); /* no tags */
}

void frame_end(frame_t *frame) {
        patch_i32(frame->bytes, (int32_t)(frame->length - SIZE_BYTES));
}

/* --- reading ------------------------------------------------------------------------------- */

static uint64_t get_number(answer_t *answer, int width) {
        uint64_t value = 0;
        if (answer->end - answer->at < width)
                die("an answer is too short");
        while (width--)
                value = value << 8 | *answer->at++;
        return value;
}

int16_t get_i16(answer_t *answer) { return (int16_t)get_number(answer, 2); }
int32_t get_i32(answer_t *answer) { return (int32_t)get_number(answer, 4); }

void skip(answer_t *answer, size_t length) {
        if ((size_t)(answer->end - answer->at) < length)
                die("an answer is too short");
        answer->at += length;
}

void get_text(answer_t *answer, char *into, size_t capacity) {
        const int16_t length = get_i16(answer);
        const size_t size = length < 0 ? 0 : (size_t)length;
        const uint8_t *text = answer->at;
        if (size >= capacity)
                die("an answer has a text of %zu bytes", size);
        skip(answer, size);
        memcpy(into, text, size);
        into[size] = 0;
}

/* --- connections --------------------------------------------------------------------------- */

typedef struct {
        int fd;
        uint8_t *bytes; /* what has come and is not a whole answer yet */
        size_t length;
        size_t capacity;
} connection_t;

struct pool {
        int epoll;
        int count;
        connection_t *connections;
};

static struct sockaddr_in address_of(const char *bootstrap) {
        char host[64];
        const char *colon = strrchr(bootstrap, ':');
        struct sockaddr_in address = {.sin_family = AF_INET};
        if (!colon || (size_t)(colon - bootstrap) >= sizeof host)
                die("%s is not host:port", bootstrap);
        memcpy(host, bootstrap, (size_t)(colon - bootstrap));
        host[colon - bootstrap] = 0;
        address.sin_port = htons((uint16_t)atoi(colon + 1));
        if (inet_pton(AF_INET, host, &address.sin_addr) != 1)
                die("%s is not an IPv4 address", host);
        return address;
}

/* Asks for the supported versions, as every client does first, and reads the answer away. */
static void greet(int fd) {
        frame_t frame = {0};
        uint8_t answer[4096];
        frame_begin(&frame, API_VERSIONS, 0, false);
        frame_end(&frame);
        if (send(fd, frame.bytes, frame.length, MSG_NOSIGNAL) != (ssize_t)frame.length ||
            recv(fd, answer, SIZE_BYTES, MSG_WAITALL) != SIZE_BYTES)
                die("the broker does not answer");
        free(frame.bytes);
        answer_t head = {answer, answer + SIZE_BYTES};
        const int32_t size = get_i32(&head);
        if (size < 0 || (size_t)size > sizeof answer ||
            recv(fd, answer, (size_t)size, MSG_WAITALL) != size)
                die("the broker's supported versions cannot be read");
}

/* Connections wait in a queue until the broker accepts them, and a full queue costs a second. So
 * one of each few is waited for before the next ones are made. */
pool_t *pool_new(const char *bootstrap, int count) {
        const struct sockaddr_in address = address_of(bootstrap);
        const int yes = 1;
        pool_t *pool = calloc(1, sizeof *pool);
        pool->epoll = epoll_create1(0);
        pool->count = count;
        pool->connections = calloc((size_t)count, sizeof *pool->connections);
        for (int i = 0; i < count; i++) {
                connection_t *connection = &pool->connections[i];
                struct epoll_event event = {.events = EPOLLIN, .data.u32 = (uint32_t)i};
                connection->fd = socket(AF_INET, SOCK_STREAM, 0);
                if (connection->fd < 0 ||
                    connect(connection->fd, (const struct sockaddr *)&address, sizeof address))
                        die("connection %d: %s", i, strerror(errno));
                setsockopt(connection->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
                if (i % ACCEPT_QUEUE == ACCEPT_QUEUE - 1)
                        greet(connection->fd);
                fcntl(connection->fd, F_SETFL, O_NONBLOCK);
                connection->capacity = FIRST_CAPACITY;
                connection->bytes = malloc(connection->capacity);
                if (epoll_ctl(pool->epoll, EPOLL_CTL_ADD, connection->fd, &event))
                        die("epoll: %s", strerror(errno));
        }
        return pool;
}

/* One small request is outstanding at most: it always fits the socket's buffer. */
void pool_send(pool_t *pool, int connection, const uint8_t *bytes, size_t length) {
        const ssize_t sent = send(pool->connections[connection].fd, bytes, length, MSG_NOSIGNAL);
        if (sent != (ssize_t)length)
                die("connection %d: a request was not sent: %s", connection, strerror(errno));
}

static void hand_on(connection_t *connection, int index, on_answer_t on_answer, void *opaque) {
        size_t done = 0;
        while (connection->length - done >= SIZE_BYTES) {
                answer_t head = {connection->bytes + done, connection->bytes + connection->length};
                const size_t size = (size_t)get_i32(&head);
                if (connection->length - done < SIZE_BYTES + size)
                        break;
                answer_t answer = {head.at, head.at + size};
                skip(&answer, 4); /* correlation id: one request is outstanding */
                done += SIZE_BYTES + size;
                on_answer(opaque, index, answer);
        }
        memmove(connection->bytes, connection->bytes + done, connection->length - done);
        connection->length -= done;
}

static void receive(pool_t *pool, int index, on_answer_t on_answer, void *opaque) {
        connection_t *connection = &pool->connections[index];
        for (;;) {
                if (connection->length == connection->capacity) {
                        connection->capacity *= 2;
                        connection->bytes = realloc(connection->bytes, connection->capacity);
                        if (!connection->bytes)
                                die("out of memory");
                }
                const size_t room = connection->capacity - connection->length;
                const ssize_t got =
                    recv(connection->fd, connection->bytes + connection->length, room, 0);
                if (got < 0 && errno == EAGAIN)
                        return;
                if (got <= 0)
                        die("the broker closed connection %d: %s", index, strerror(errno));
                connection->length += (size_t)got;
                hand_on(connection, index, on_answer, opaque);
                if ((size_t)got < room)
                        return;
        }
}

void pool_poll(pool_t *pool, int timeout_ms, on_answer_t on_answer, void *opaque) {
        struct epoll_event events[MAX_EVENTS];
        const int ready = epoll_wait(pool->epoll, events, MAX_EVENTS, timeout_ms);
        if (ready < 0 && errno != EINTR)
                die("epoll: %s", strerror(errno));
        for (int i = 0; i < ready; i++)
                receive(pool, (int)events[i].data.u32, on_answer, opaque);
}

void pool_close(pool_t *pool) {
        for (int i = 0; i < pool->count; i++) {
                close(pool->connections[i].fd);
                free(pool->connections[i].bytes);
        }
        close(pool->epoll);
        free(pool->connections);
        free(pool);
}

/* --- what several modes do first ------------------------------------------------------------ */

void say_ready(void) {
        puts("{\"ready\":1}");
        fflush(stdout);
}

enum { UNANSWERED = INT16_MIN };

static void on_coordinator(void *opaque, int connection, answer_t answer) {
        (void)connection;
        skip(&answer, 4); /* throttle time */
        *(int16_t *)opaque = get_i16(&answer);
}

void await_coordinator(const options_t *options, const char *group) {
        const int64_t deadline = now_ns() + options->timeout_ms * 1000000;
        pool_t *pool = pool_new(options->bootstrap, 1);
        frame_t frame = {0};
        int16_t error = ERROR_NOT_AVAILABLE;
        frame_begin(&frame, API_FIND_COORDINATOR, 2, false);
        put_text(&frame, group);
        put_i8(&frame, 0); /* a group's */
        frame_end(&frame);
        while (error) {
                if (now_ns() > deadline)
                        die("no coordinator: error %d", error);
                error = UNANSWERED;
                pool_send(pool, 0, frame.bytes, frame.length);
                while (error == UNANSWERED && now_ns() < deadline)
                        pool_poll(pool, 10, on_coordinator, &error);
                if (error)
                        sleep_until_ns(now_ns() + 20000000);
        }
        pool_close(pool);
        free(frame.bytes);
}
