/* How soon a broker that was just started is of use: `metadata` (the first answer) and `first`
 * (the first message through it).
 *
 * The first answer is asked for over a plain socket: librdkafka's back-off between connection
 * attempts would round the time up to its own steps. */
#define _GNU_SOURCE
#include "load.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
        METADATA_KEY = 3,
        METADATA_VERSION = 1,
        RETRY_NS = 2000000,       /* finer than any start-up that matters, idle in between */
        BIG_RETRY_NS = 25000000,  /* asking for thousands of partitions is work for the broker */
        MAX_RESPONSE_BYTES = 64 << 20,
};

typedef struct {
        const uint8_t *at;
        const uint8_t *end;
} cursor_t;

static int64_t take(cursor_t *cursor, int bytes) {
        int64_t value = 0;
        if (cursor->end - cursor->at < bytes)
                die("the Metadata response is cut short");
        for (int i = 0; i < bytes; i++)
                value = value << 8 | *cursor->at++;
        if (bytes == 4)
                return (int32_t)value;
        return bytes == 2 ? (int16_t)value : value;
}

static void skip(cursor_t *cursor, int64_t bytes) {
        if (bytes > cursor->end - cursor->at)
                die("the Metadata response is cut short");
        if (bytes > 0)
                cursor->at += bytes;
}

static void skip_string(cursor_t *cursor) { skip(cursor, take(cursor, 2)); }

static void skip_ids(cursor_t *cursor) {
        int64_t count = take(cursor, 4);
        skip(cursor, count * 4);
}

/* Partitions with a leader in a Metadata v1 response, or -1 when it names no broker yet. */
static int64_t count_led(cursor_t *cursor) {
        int64_t led = 0;
        int64_t brokers = take(cursor, 4);
        for (int64_t i = 0; i < brokers; i++) {
                skip(cursor, 4);
                skip_string(cursor);
                skip(cursor, 4);
                skip_string(cursor);
        }
        skip(cursor, 4);
        for (int64_t topics = take(cursor, 4); topics > 0; topics--) {
                skip(cursor, 2);
                skip_string(cursor);
                skip(cursor, 1);
                for (int64_t partitions = take(cursor, 4); partitions > 0; partitions--) {
                        int64_t error = take(cursor, 2);
                        skip(cursor, 4);
                        led += take(cursor, 4) >= 0 && !error;
                        skip_ids(cursor);
                        skip_ids(cursor);
                }
        }
        return brokers ? led : -1;
}

static bool receive(int connection, void *buffer, size_t size) {
        return recv(connection, buffer, size, MSG_WAITALL) == (ssize_t)size;
}

static int open_connection(const char *bootstrap) {
        char host[64];
        const char *colon = strrchr(bootstrap, ':');
        struct sockaddr_in address = {.sin_family = AF_INET};
        struct timeval patience = {.tv_sec = 30};
        int one = 1;
        if (!colon || (size_t)(colon - bootstrap) >= sizeof host)
                die("%s is not address:port", bootstrap);
        memcpy(host, bootstrap, (size_t)(colon - bootstrap));
        host[colon - bootstrap] = 0;
        address.sin_port = htons((uint16_t)atoi(colon + 1));
        if (inet_pton(AF_INET, host, &address.sin_addr) != 1)
                die("%s is not an IPv4 address", host);
        int connection = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
        if (connect(connection, (struct sockaddr *)&address, sizeof address)) {
                close(connection);
                return -1;
        }
        return connection;
}

static bool ask(int connection, bool all_topics) {
        /* size, key, version, correlation id, client id "bench", topics: none or null (all) */
        uint8_t request[] = {0, 0, 0, 19, 0, METADATA_KEY, 0, METADATA_VERSION, 0, 0, 0, 1,
                             0, 5, 'b', 'e', 'n', 'c', 'h', 0, 0, 0, 0};
        if (all_topics)
                memset(request + sizeof request - 4, 0xff, 4);
        return send(connection, request, sizeof request, MSG_NOSIGNAL) == (ssize_t)sizeof request;
}

static int64_t read_led(int connection) {
        uint8_t prefix[4];
        if (!receive(connection, prefix, sizeof prefix))
                return -1;
        cursor_t length = {prefix, prefix + 4};
        int64_t size = take(&length, 4);
        if (size < 4 || size > MAX_RESPONSE_BYTES)
                die("a Metadata response of %lld bytes", (long long)size);
        uint8_t *body = malloc((size_t)size);
        int64_t led = -1;
        if (body && receive(connection, body, (size_t)size)) {
                cursor_t cursor = {body + 4, body + size};
                led = count_led(&cursor);
        }
        free(body);
        return led;
}

/* Returns the moment at which Metadata was answered with at least options->led led partitions. */
static int64_t await_metadata(const options_t *options, int64_t *led) {
        const int64_t deadline = now_ns() + options->timeout_ms * 1000000;
        int connection = -1;
        *led = -1;
        while (now_ns() < deadline) {
                if (connection < 0)
                        connection = open_connection(options->bootstrap);
                if (connection >= 0) {
                        *led = ask(connection, options->led > 0) ? read_led(connection) : -1;
                        if (*led >= options->led) {
                                int64_t answered = now_ns();
                                close(connection);
                                return answered;
                        }
                        if (*led < 0) {
                                close(connection);
                                connection = -1;
                        }
                }
                sleep_until_ns(now_ns() + (*led > 0 ? BIG_RETRY_NS : RETRY_NS));
        }
        die("%lld led partitions after %lld ms, not %lld", (long long)*led,
            (long long)options->timeout_ms, (long long)options->led);
}

int run_metadata(const options_t *options) {
        const int64_t since = options->since_ns ? options->since_ns : now_ns();
        int64_t led;
        const int64_t answered = await_metadata(options, &led);
        printf("{\"mode\":\"metadata\",\"led\":%lld,\"metadata_ms\":%.3f}\n", (long long)led,
               (double)(answered - since) / 1e6);
        return 0;
}

static void produce_first(const options_t *options) {
        rd_kafka_t *client = new_client(RD_KAFKA_PRODUCER, producer_conf(options));
        rd_kafka_topic_t *topic = rd_kafka_topic_new(client, options->topic, NULL);
        await_topic(client, topic, options); /* the producer's question creates the topic */
        if (rd_kafka_produce(topic, 0, RD_KAFKA_MSG_F_COPY, "first", 5, NULL, 0, NULL) ||
            rd_kafka_flush(client, (int)options->timeout_ms))
                die("the first message was not delivered");
}

static int64_t consume_first(const options_t *options) {
        rd_kafka_t *client = new_client(RD_KAFKA_CONSUMER, consumer_conf(options));
        rd_kafka_topic_t *topic = rd_kafka_topic_new(client, options->topic, NULL);
        rd_kafka_queue_t *queue = start_consumer(client, topic, options, NULL);
        const int64_t deadline = now_ns() + options->timeout_ms * 1000000;
        while (now_ns() < deadline) {
                rd_kafka_message_t *message = rd_kafka_consume_queue(queue, 100);
                if (message && !message->err)
                        return now_ns();
        }
        die("the first message was not consumed within %lld ms", (long long)options->timeout_ms);
}

int run_first_message(const options_t *options) {
        int64_t led;
        const int64_t answered = await_metadata(options, &led);
        produce_first(options);
        const int64_t consumed = consume_first(options);
        printf("{\"mode\":\"first\",\"metadata_ms\":%.3f,\"message_ms\":%.3f}\n",
               (double)(answered - options->since_ns) / 1e6,
               (double)(consumed - options->since_ns) / 1e6);
        return 0;
}
