/* Transactions of one producer: begin, so many records over all partitions, commit, and again. */
#include "load.h"

#include <stdio.h>

static int64_t failed;

static void on_delivery(rd_kafka_t *client, const rd_kafka_message_t *message, void *opaque) {
        (void)client;
        (void)opaque;
        if (message->err && !failed++)
                fprintf(stderr, "load: %s\n", rd_kafka_err2str(message->err));
}

static void check(rd_kafka_error_t *error, const char *step) {
        if (error)
                die("%s: %s", step, rd_kafka_error_string(error));
}

static void transact(rd_kafka_t *client, rd_kafka_topic_t *topic, const options_t *options,
                     const payloads_t *payloads, int64_t number) {
        check(rd_kafka_begin_transaction(client), "begin");
        for (int64_t i = 0; i < options->per_transaction; i++) {
                const int64_t index = number * options->per_transaction + i;
                if (rd_kafka_produce(topic, (int32_t)(index % options->partitions),
                                     RD_KAFKA_MSG_F_BLOCK, payload_at(payloads, index),
                                     (size_t)options->size, NULL, 0, NULL))
                        die("produce: %s", rd_kafka_err2str(rd_kafka_last_error()));
        }
        check(rd_kafka_commit_transaction(client, (int)options->timeout_ms), "commit");
}

int run_transactions(const options_t *options) {
        const payloads_t *payloads = payloads_new((size_t)options->size);
        rd_kafka_conf_t *conf = client_conf(options);
        set(conf, "transactional.id", options->group);
        set_number(conf, "linger.ms", options->linger_ms);
        set(conf, "delivery.report.only.error", "true");
        rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
        rd_kafka_t *client = new_client(RD_KAFKA_PRODUCER, conf);
        rd_kafka_topic_t *topic = rd_kafka_topic_new(client, options->topic, NULL);
        await_topic(client, topic, options);
        check(rd_kafka_init_transactions(client, (int)options->timeout_ms), "init");
        const double cpu = cpu_seconds();
        const int64_t began = now_ns();
        const int64_t deadline = began + options->timeout_ms * 1000000;
        for (int64_t i = 0; i < options->count; i++) {
                transact(client, topic, options, payloads, i);
                if (now_ns() > deadline)
                        die("only %lld of %lld transactions within %lld ms", (long long)i,
                            (long long)options->count, (long long)options->timeout_ms);
        }
        const double seconds = (double)(now_ns() - began) / 1e9;
        printf("{\"mode\":\"transactions\",\"count\":%lld,\"failed\":%lld,\"seconds\":%.6f,"
               "\"per_second\":%.1f,\"client_cpu_s\":%.4f}\n",
               (long long)options->count, (long long)failed, seconds,
               (double)options->count / seconds, cpu_seconds() - cpu);
        return failed ? 1 : 0;
}
