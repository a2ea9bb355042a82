/* Latency at a fixed rate: of the acknowledgement (`latency`) and from producer to consumer
 * (`e2e`).
 *
 * Sends are paced by the clock and never wait for an answer, so a slow answer cannot delay the next
 * send and hide itself. The clock of a message starts when it is handed to librdkafka. A thread of
 * its own waits for reports or messages, so that none waits for the pacing to wake up. */
#include "load.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* Connections, topic state and caches settle in the first second; its samples are left out. */
static const int64_t WARM_UP_NS = 1000000000;

typedef struct {
        const options_t *options;
        rd_kafka_t *client;
        rd_kafka_queue_t *queue; /* e2e: where messages arrive */
        samples_t samples;
        int64_t began;
        int64_t received;
        int64_t failed;
        atomic_bool stop;
} meter_t;

static void take(meter_t *meter, int64_t sent_ns) {
        meter->received++;
        if (sent_ns - meter->began >= WARM_UP_NS)
                samples_add(&meter->samples, now_ns() - sent_ns);
}

static int64_t stamp_of(const rd_kafka_message_t *message) {
        int64_t stamp;
        memcpy(&stamp, message->payload, sizeof stamp);
        return stamp;
}

static void on_delivery(rd_kafka_t *client, const rd_kafka_message_t *message, void *opaque) {
        (void)client;
        meter_t *meter = opaque;
        if (message->err && !meter->failed++)
                fprintf(stderr, "load: %s\n", rd_kafka_err2str(message->err));
        if (!meter->queue)
                take(meter, stamp_of(message));
}

static void on_message(rd_kafka_message_t *message, void *opaque) {
        if (!message->err)
                take(opaque, stamp_of(message));
        else if (message->err != RD_KAFKA_RESP_ERR__PARTITION_EOF)
                die("consume: %s", rd_kafka_message_errstr(message));
}

static void *collect(void *argument) {
        meter_t *meter = argument;
        while (!meter->stop)
                if (meter->queue)
                        rd_kafka_consume_callback_queue(meter->queue, 50, on_message, meter);
                else
                        rd_kafka_poll(meter->client, 50);
        return NULL;
}

static void send_paced(meter_t *meter, rd_kafka_topic_t *topic) {
        const options_t *options = meter->options;
        const int64_t step_ns = 1000000000 / options->rate;
        char value[MAX_MESSAGE_BYTES];
        memset(value, 'x', (size_t)options->size);
        for (int64_t i = 0; i < options->count; i++) {
                sleep_until_ns(meter->began + i * step_ns);
                const int64_t stamp = now_ns();
                memcpy(value, &stamp, sizeof stamp);
                if (rd_kafka_produce(topic, (int32_t)(i % options->partitions),
                                     RD_KAFKA_MSG_F_COPY, value, (size_t)options->size, NULL, 0,
                                     NULL))
                        die("produce: %s", rd_kafka_err2str(rd_kafka_last_error()));
                if (meter->queue)
                        rd_kafka_poll(meter->client, 0);
        }
}

static void await_all(meter_t *meter) {
        const int64_t deadline = now_ns() + meter->options->timeout_ms * 1000000;
        if (rd_kafka_flush(meter->client, (int)meter->options->timeout_ms))
                die("not every message was answered");
        while (meter->received < meter->options->count && now_ns() < deadline)
                sleep_until_ns(now_ns() + 1000000);
        meter->stop = true;
}

static int measure(meter_t *meter) {
        const options_t *options = meter->options;
        rd_kafka_conf_t *conf = producer_conf(options);
        pthread_t collector;
        rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
        rd_kafka_conf_set_opaque(conf, meter);
        meter->client = new_client(RD_KAFKA_PRODUCER, conf);
        rd_kafka_topic_t *topic = rd_kafka_topic_new(meter->client, options->topic, NULL);
        await_topic(meter->client, topic, options);
        meter->samples = samples_new((size_t)options->count);
        const double cpu = cpu_seconds();
        meter->began = now_ns();
        if (pthread_create(&collector, NULL, collect, meter))
                die("cannot start a thread");
        send_paced(meter, topic);
        await_all(meter);
        pthread_join(collector, NULL);
        if (meter->failed || meter->received != options->count)
                die("%lld of %lld messages came back, %lld failed", (long long)meter->received,
                    (long long)options->count, (long long)meter->failed);
        printf("{\"mode\":\"%s\",\"rate\":%lld,\"client_cpu_s\":%.4f,", options->mode,
               (long long)options->rate, cpu_seconds() - cpu);
        samples_print(&meter->samples);
        puts("}");
        return 0;
}

int run_latency(const options_t *options) {
        meter_t meter = {.options = options};
        return measure(&meter);
}

int run_end_to_end(const options_t *options) {
        meter_t meter = {.options = options};
        rd_kafka_t *consumer = new_client(RD_KAFKA_CONSUMER, consumer_conf(options));
        rd_kafka_topic_t *topic = rd_kafka_topic_new(consumer, options->topic, NULL);
        await_topic(consumer, topic, options);
        meter.queue = start_consumer(consumer, topic, options, NULL);
        return measure(&meter);
}
