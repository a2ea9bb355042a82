/* Command line (`load MODE name=value ...`) and librdkafka configuration. */
#include "load.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void die(const char *format, ...) {
        va_list arguments;
        va_start(arguments, format);
        fputs("load: ", stderr);
        vfprintf(stderr, format, arguments);
        fputc('\n', stderr);
        va_end(arguments);
        exit(1);
}

static int64_t number(const char *name, const char *text) {
        char *end;
        errno = 0;
        long long value = strtoll(text, &end, 10);
        if (errno || end == text || *end || value < 0)
                die("%s=%s is not a number that is zero or more", name, text);
        return value;
}

static void assign(options_t *options, const char *name, const char *value) {
        struct { const char *name; const char **at; } texts[] = {
            {"bootstrap", &options->bootstrap}, {"topic", &options->topic},
            {"codec", &options->codec},         {"acks", &options->acks},
            {"group", &options->group},         {"isolation", &options->isolation},
        };
        struct { const char *name; int64_t *at; } numbers[] = {
            {"count", &options->count},           {"size", &options->size},
            {"partitions", &options->partitions}, {"linger_ms", &options->linger_ms},
            {"batch_messages", &options->batch_messages},
            {"in_flight", &options->in_flight},   {"idempotence", &options->idempotence},
            {"keyed", &options->keyed},           {"threads", &options->threads},
            {"rate", &options->rate},             {"tail", &options->tail},
            {"since_ns", &options->since_ns},     {"led", &options->led},
            {"timeout_ms", &options->timeout_ms},
            {"keys", &options->keys},             {"groups", &options->groups},
            {"members", &options->members},       {"heartbeat_ms", &options->heartbeat_ms},
            {"duration_ms", &options->duration_ms},
            {"joined", &options->joined},         {"rounds", &options->rounds},
            {"per_transaction", &options->per_transaction},
        };
        for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
                if (!strcmp(texts[i].name, name)) {
                        *texts[i].at = value;
                        return;
                }
        for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
                if (!strcmp(numbers[i].name, name)) {
                        *numbers[i].at = number(name, value);
                        return;
                }
        if (!strncmp(name, "conf.", 5) && options->client_count < MAX_CLIENT_SETTINGS) {
                options->client[options->client_count++] =
                    (client_setting_t){.name = name + 5, .value = value};
                return;
        }
        die("unknown option %s", name);
}

options_t parse_options(int argc, char **argv) {
        options_t options = {
            .bootstrap = "127.0.0.1:9092", .topic = "bench", .codec = "none", .acks = "1",
            .count = 100000, .size = 100, .partitions = 1, .linger_ms = 5, .batch_messages = 10000,
            .in_flight = 5, .threads = 1, .rate = 500, .timeout_ms = 120000, .group = "bench",
            .isolation = "read_committed", .keys = 1 << 20, .groups = 1, .members = 1,
            .heartbeat_ms = 3000, .duration_ms = 5000, .rounds = 5, .per_transaction = 100,
        };
        if (argc < 2)
                die("usage: load MODE name=value ... (the modes are in main.c)");
        options.mode = argv[1];
        for (int i = 2; i < argc; i++) {
                char *equals = strchr(argv[i], '=');
                if (!equals)
                        die("%s is not name=value", argv[i]);
                *equals = 0;
                assign(&options, argv[i], equals + 1);
        }
        if (options.size < 16 || options.size > MAX_MESSAGE_BYTES)
                die("size must be 16 to %d bytes", MAX_MESSAGE_BYTES);
        if (options.threads < 1 || options.threads > MAX_THREADS)
                die("threads must be 1 to %d", MAX_THREADS);
        if (options.partitions < 1 || options.partitions > MAX_PARTITIONS)
                die("partitions must be 1 to %d", MAX_PARTITIONS);
        if (options.count < 1 || options.rate < 1)
                die("count and rate must be 1 or more");
        if (options.keys < 1 || options.rounds < 1 || options.per_transaction < 1)
                die("keys, rounds and per_transaction must be 1 or more");
        if (options.groups < 1 || options.members < 1 ||
            options.groups * options.members > MAX_CONNECTIONS)
                die("groups times members must be 1 to %d", MAX_CONNECTIONS);
        return options;
}

void set(rd_kafka_conf_t *conf, const char *name, const char *value) {
        char error[512];
        if (rd_kafka_conf_set(conf, name, value, error, sizeof error) != RD_KAFKA_CONF_OK)
                die("%s", error);
}

void set_number(rd_kafka_conf_t *conf, const char *name, int64_t value) {
        char text[32];
        snprintf(text, sizeof text, "%lld", (long long)value);
        set(conf, name, text);
}

/* A broken run must not look like a slow one: say what librdkafka met, once per event. */
static void on_error(rd_kafka_t *client, int error, const char *reason, void *opaque) {
        (void)client;
        (void)opaque;
        fprintf(stderr, "load: %s: %s\n", rd_kafka_err2name(error), reason);
}

rd_kafka_conf_t *client_conf(const options_t *options) {
        rd_kafka_conf_t *conf = rd_kafka_conf_new();
        set(conf, "bootstrap.servers", options->bootstrap);
        set(conf, "client.id", "headrace-bench");
        set(conf, "socket.nagle.disable", "true");
        set(conf, "topic.metadata.refresh.fast.interval.ms", "10");
        set(conf, "reconnect.backoff.ms", "5");
        set(conf, "reconnect.backoff.max.ms", "20");
        for (int i = 0; i < options->client_count; i++)
                set(conf, options->client[i].name, options->client[i].value);
        rd_kafka_conf_set_error_cb(conf, on_error);
        return conf;
}

rd_kafka_t *new_client(rd_kafka_type_t type, rd_kafka_conf_t *conf) {
        char error[512];
        rd_kafka_t *client = rd_kafka_new(type, conf, error, sizeof error);
        if (!client)
                die("%s", error);
        return client;
}

static bool fully_led(const struct rd_kafka_metadata *metadata, int64_t partitions) {
        if (metadata->topic_cnt != 1 || metadata->topics[0].partition_cnt < partitions)
                return false;
        for (int i = 0; i < metadata->topics[0].partition_cnt; i++)
                if (metadata->topics[0].partitions[i].leader < 0)
                        return false;
        return true;
}

void await_topic(rd_kafka_t *client, rd_kafka_topic_t *topic, const options_t *options) {
        const int64_t deadline = now_ns() + options->timeout_ms * 1000000;
        while (now_ns() < deadline) {
                const struct rd_kafka_metadata *metadata;
                bool ready = false;
                if (!rd_kafka_metadata(client, 0, topic, &metadata, 5000)) {
                        ready = fully_led(metadata, options->partitions);
                        rd_kafka_metadata_destroy(metadata);
                }
                if (ready)
                        return;
                sleep_until_ns(now_ns() + 5000000);
        }
        die("topic %s has not %lld led partitions after %lld ms", options->topic,
            (long long)options->partitions, (long long)options->timeout_ms);
}
