/* Throughput of producing, and with batch_messages=1 of one record a request.
 *
 * Delivery reports are asked for failures only: a report per success costs the client about as much
 * as a fast broker spends on the message. flush() returning with an empty queue means that each
 * message was acknowledged or reported as failed. */
#include "load.h"

#include <pthread.h>
#include <stdio.h>

typedef struct {
        const options_t *options;
        const payloads_t *payloads;
        rd_kafka_t *client;
        rd_kafka_topic_t *topic;
        int64_t first;
        int64_t count;
        int64_t failed;
} producer_t;

static void on_delivery(rd_kafka_t *client, const rd_kafka_message_t *message, void *opaque) {
        (void)client;
        producer_t *producer = opaque;
        if (message->err && !producer->failed++)
                fprintf(stderr, "load: %s\n", rd_kafka_err2str(message->err));
}

rd_kafka_conf_t *producer_conf(const options_t *options) {
        rd_kafka_conf_t *conf = client_conf(options);
        set(conf, "acks", options->acks);
        set(conf, "compression.codec", options->codec);
        set(conf, "enable.idempotence", options->idempotence ? "true" : "false");
        set_number(conf, "linger.ms", options->linger_ms);
        set_number(conf, "batch.num.messages", options->batch_messages);
        set_number(conf, "max.in.flight.requests.per.connection", options->in_flight);
        set(conf, "queue.buffering.max.messages", "500000");
        set(conf, "queue.buffering.max.kbytes", "262144");
        set(conf, "partitioner", "murmur2_random");
        return conf;
}

static void produce_one(producer_t *producer, int64_t index) {
        const options_t *options = producer->options;
        uint64_t key = ((uint64_t)index * 0x9E3779B97F4A7C15u >> 24) % (uint64_t)options->keys;
        const int32_t partition =
            options->keyed ? RD_KAFKA_PARTITION_UA : (int32_t)(index % options->partitions);
        const int flags = RD_KAFKA_MSG_F_BLOCK;
        while (rd_kafka_produce(producer->topic, partition, flags,
                                payload_at(producer->payloads, index), (size_t)options->size,
                                options->keyed ? &key : NULL, options->keyed ? sizeof key : 0,
                                NULL)) {
                if (rd_kafka_last_error() != RD_KAFKA_RESP_ERR__QUEUE_FULL)
                        die("produce: %s", rd_kafka_err2str(rd_kafka_last_error()));
                rd_kafka_poll(producer->client, 10);
        }
}

static void *produce_all(void *argument) {
        producer_t *producer = argument;
        for (int64_t i = 0; i < producer->count; i++) {
                produce_one(producer, producer->first + i);
                if (!(i % 10000))
                        rd_kafka_poll(producer->client, 0);
        }
        if (rd_kafka_flush(producer->client, (int)producer->options->timeout_ms))
                die("%d messages were not answered within %lld ms",
                    rd_kafka_outq_len(producer->client), (long long)producer->options->timeout_ms);
        return NULL;
}

static void open_producer(producer_t *producer) {
        rd_kafka_conf_t *conf = producer_conf(producer->options);
        set(conf, "delivery.report.only.error", "true");
        rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
        rd_kafka_conf_set_opaque(conf, producer);
        producer->client = new_client(RD_KAFKA_PRODUCER, conf);
        producer->topic = rd_kafka_topic_new(producer->client, producer->options->topic, NULL);
        await_topic(producer->client, producer->topic, producer->options);
}

int run_produce(const options_t *options) {
        producer_t producers[MAX_THREADS];
        pthread_t threads[MAX_THREADS];
        const payloads_t *payloads = payloads_new((size_t)options->size);
        int64_t failed = 0;
        for (int64_t i = 0; i < options->threads; i++) {
                int64_t first = options->count * i / options->threads;
                int64_t end = options->count * (i + 1) / options->threads;
                producers[i] = (producer_t){.options = options, .payloads = payloads,
                                            .first = first, .count = end - first};
                open_producer(&producers[i]);
        }
        const double cpu = cpu_seconds();
        const int64_t began = now_ns();
        for (int64_t i = 0; i < options->threads; i++)
                if (pthread_create(&threads[i], NULL, produce_all, &producers[i]))
                        die("cannot start a thread");
        for (int64_t i = 0; i < options->threads; i++) {
                pthread_join(threads[i], NULL);
                failed += producers[i].failed;
        }
        const double seconds = (double)(now_ns() - began) / 1e9;
        printf("{\"mode\":\"produce\",\"count\":%lld,\"failed\":%lld,\"seconds\":%.6f,"
               "\"per_second\":%.1f,\"mb_per_second\":%.3f,\"client_cpu_s\":%.4f}\n",
               (long long)options->count, (long long)failed, seconds,
               (double)options->count / seconds,
               (double)options->count * (double)options->size / seconds / 1e6,
               cpu_seconds() - cpu);
        return failed ? 1 : 0;
}
