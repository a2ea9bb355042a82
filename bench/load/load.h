/* Shared by every mode of the load generator: options, clocks, payloads, latency samples.
 *
 * The program drives a broker, through librdkafka or (wire.h) through sockets of its own, and
 * prints one JSON object on one line. A mode that has to set the stage first prints a line
 * {"ready":1} before, at the moment when the timed part begins. It is
 * written in C so that what is measured is the broker and not an interpreter on the client's side;
 * it reports its own CPU time, so that a reader can see where the client was the limit. */
#ifndef HEADRACE_BENCH_LOAD_H
#define HEADRACE_BENCH_LOAD_H

#include <librdkafka/rdkafka.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MAX_THREADS = 16, MAX_PARTITIONS = 1024, MAX_MESSAGE_BYTES = 1 << 20,
       MAX_CONNECTIONS = 15000, MAX_CLIENT_SETTINGS = 32 };

/* conf.NAME=VALUE: a setting of librdkafka, such as those of TLS. */
typedef struct {
        const char *name;
        const char *value;
} client_setting_t;

typedef struct {
        const char *mode;
        const char *bootstrap;
        const char *topic;
        const char *codec;
        const char *acks;
        const char *group;      /* its name, or the beginning of its name; the transactional id */
        const char *isolation;  /* consume: the isolation level */
        int64_t count;          /* messages to send or to receive */
        int64_t size;           /* bytes of each value */
        int64_t partitions;     /* 0 .. partitions - 1 are used */
        int64_t linger_ms;
        int64_t batch_messages; /* 1 = one record a request */
        int64_t in_flight;      /* requests per connection */
        int64_t idempotence;
        int64_t keyed;
        int64_t threads;
        int64_t rate;           /* messages a second, paced modes */
        int64_t tail;           /* consume: the last N offsets of each partition, 0 = from the start */
        int64_t since_ns;       /* CLOCK_MONOTONIC moment that timers count from */
        int64_t led;            /* metadata: partitions that must have a leader */
        int64_t timeout_ms;     /* whole run */
        int64_t keys;           /* keyed: about so many different ones */
        int64_t groups;
        int64_t members;        /* of each group, one connection each */
        int64_t joined;         /* commits: as members of the groups, not as strangers */
        int64_t heartbeat_ms;   /* pause of a member between heartbeats */
        int64_t duration_ms;    /* timed part of commits and heartbeats */
        int64_t rounds;         /* rebalances */
        int64_t per_transaction; /* records */
        client_setting_t client[MAX_CLIENT_SETTINGS];
        int client_count;
} options_t;

/* options.c */
options_t parse_options(int argc, char **argv);
rd_kafka_conf_t *client_conf(const options_t *options);
void set(rd_kafka_conf_t *conf, const char *name, const char *value);
void set_number(rd_kafka_conf_t *conf, const char *name, int64_t value);
rd_kafka_t *new_client(rd_kafka_type_t type, rd_kafka_conf_t *conf);
_Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* timing.c */
int64_t now_ns(void);
double cpu_seconds(void);
void sleep_until_ns(int64_t deadline_ns);

/* payload.c: a fixed pool of JSON-like values of which no two neighbours are equal */
typedef struct payloads payloads_t;
payloads_t *payloads_new(size_t size);
void *payload_at(const payloads_t *payloads, int64_t index);

/* samples.c: latencies in ns, kept whole so that p99.9 is exact */
typedef struct {
        int64_t *values;
        size_t count;
        size_t capacity;
} samples_t;
samples_t samples_new(size_t capacity);
void samples_add(samples_t *samples, int64_t value);
void samples_print(samples_t *samples); /* sorts, prints JSON members without braces */

/* The modes. Each prints its line and returns the exit status. */
int run_produce(const options_t *options);
int run_consume(const options_t *options);
int run_latency(const options_t *options);
int run_end_to_end(const options_t *options);
int run_metadata(const options_t *options);
int run_first_message(const options_t *options);
int run_transactions(const options_t *options);
int run_commits(const options_t *options);
int run_heartbeats(const options_t *options);
int run_rebalance(const options_t *options);
int run_steady(const options_t *options);

/* consume.c: a queue that all partitions of the topic feed, each from its offset (NULL: 0) */
rd_kafka_queue_t *start_consumer(rd_kafka_t *client, rd_kafka_topic_t *topic,
                                 const options_t *options, const int64_t *offsets);
rd_kafka_conf_t *consumer_conf(const options_t *options);
rd_kafka_conf_t *producer_conf(const options_t *options);

/* Asks for the topic's metadata until it has all its partitions led, so that connecting is not
 * part of what a rate measures. */
void await_topic(rd_kafka_t *client, rd_kafka_topic_t *topic, const options_t *options);

#endif
