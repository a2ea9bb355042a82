/* Throughput of reading a topic's partitions without a group, from the start or the last N. */
#include "load.h"

#include <stdio.h>

typedef struct {
        int64_t count;
        int64_t bytes;
        int64_t first_ns;
} received_t;

static void on_message(rd_kafka_message_t *message, void *opaque) {
        received_t *received = opaque;
        if (message->err) {
                if (message->err != RD_KAFKA_RESP_ERR__PARTITION_EOF)
                        die("consume: %s", rd_kafka_message_errstr(message));
                return;
        }
        if (!received->count++)
                received->first_ns = now_ns();
        received->bytes += (int64_t)message->len;
}

rd_kafka_conf_t *consumer_conf(const options_t *options) {
        rd_kafka_conf_t *conf = client_conf(options);
        set(conf, "queued.min.messages", "1000000");
        set(conf, "queued.max.messages.kbytes", "262144");
        set(conf, "fetch.message.max.bytes", "1048576");
        set(conf, "fetch.wait.max.ms", "500");
        set(conf, "isolation.level", options->isolation);
        return conf;
}

static int64_t tail_offset(rd_kafka_t *client, const options_t *options, int32_t partition) {
        int64_t low, high;
        rd_kafka_resp_err_t error = rd_kafka_query_watermark_offsets(
            client, options->topic, partition, &low, &high, (int)options->timeout_ms);
        if (error)
                die("offsets of partition %d: %s", partition, rd_kafka_err2str(error));
        return high - low > options->tail ? high - options->tail : low;
}

/* Absolute offsets: for a logical one librdkafka asks the broker itself, and where its leader
 * thread is not up yet it asks again only after half a second, at random. */
rd_kafka_queue_t *start_consumer(rd_kafka_t *client, rd_kafka_topic_t *topic,
                                 const options_t *options, const int64_t *offsets) {
        rd_kafka_queue_t *queue = rd_kafka_queue_new(client);
        for (int32_t partition = 0; partition < options->partitions; partition++) {
                const int64_t offset = offsets ? offsets[partition] : 0;
                if (rd_kafka_consume_start_queue(topic, partition, offset, queue))
                        die("consume: %s", rd_kafka_err2str(rd_kafka_last_error()));
        }
        return queue;
}

int run_consume(const options_t *options) {
        rd_kafka_t *client = new_client(RD_KAFKA_CONSUMER, consumer_conf(options));
        rd_kafka_topic_t *topic = rd_kafka_topic_new(client, options->topic, NULL);
        received_t received = {0};
        int64_t offsets[MAX_PARTITIONS] = {0};
        await_topic(client, topic, options);
        if (options->tail)
                for (int32_t partition = 0; partition < options->partitions; partition++)
                        offsets[partition] = tail_offset(client, options, partition);
        const double cpu = cpu_seconds();
        const int64_t began = now_ns();
        rd_kafka_queue_t *queue = start_consumer(client, topic, options, offsets);
        while (received.count < options->count) {
                rd_kafka_consume_callback_queue(queue, 100, on_message, &received);
                if (now_ns() - began > options->timeout_ms * 1000000)
                        die("only %lld of %lld messages came within %lld ms",
                            (long long)received.count, (long long)options->count,
                            (long long)options->timeout_ms);
        }
        const double seconds = (double)(now_ns() - began) / 1e9;
        printf("{\"mode\":\"consume\",\"count\":%lld,\"seconds\":%.6f,\"per_second\":%.1f,"
               "\"mb_per_second\":%.3f,\"first_ms\":%.3f,\"client_cpu_s\":%.4f}\n",
               (long long)received.count, seconds, (double)received.count / seconds,
               (double)received.bytes / seconds / 1e6, (double)(received.first_ns - began) / 1e6,
               cpu_seconds() - cpu);
        return 0;
}
