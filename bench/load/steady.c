/* A paced producer that goes on through whatever happens to the brokers, until SIGINT.
 *
 * It says {"ready":1} at the first acknowledgement. Latencies are of acknowledgements; after a
 * SIGUSR1 only those of messages that were sent later. Sends are paced by the clock and never wait
 * for an answer; a thread of its own takes reports. */
#include "load.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* Enough for an hour at the usual rates; later ones only count. */
enum { MAX_SAMPLES = 4000000 };

static volatile sig_atomic_t interrupted;
static _Atomic int64_t counted_from_ns;

typedef struct {
        const options_t *options;
        rd_kafka_t *client;
        samples_t samples;
        int64_t since_ns; /* of the samples */
        int64_t acked;
        int64_t failed;
        atomic_bool stop;
} steady_t;

static void on_interrupt(int number) {
        (void)number;
        interrupted = 1;
}

static void on_restart(int number) {
        (void)number;
        counted_from_ns = now_ns();
}

static void count(steady_t *steady, int64_t sent_ns, int64_t now) {
        const int64_t from_ns = counted_from_ns;
        if (from_ns != steady->since_ns) {
                steady->since_ns = from_ns;
                steady->samples.count = 0;
        }
        if (sent_ns >= from_ns)
                samples_add(&steady->samples, now - sent_ns);
}

static void on_delivery(rd_kafka_t *client, const rd_kafka_message_t *message, void *opaque) {
        (void)client;
        steady_t *steady = opaque;
        const int64_t now = now_ns();
        int64_t sent_ns;
        if (message->err) {
                if (!steady->failed++)
                        fprintf(stderr, "load: %s\n", rd_kafka_err2str(message->err));
                return;
        }
        memcpy(&sent_ns, message->payload, sizeof sent_ns);
        count(steady, sent_ns, now);
        if (!steady->acked++) {
                puts("{\"ready\":1}");
                fflush(stdout);
        }
}

static void *collect(void *argument) {
        steady_t *steady = argument;
        while (!steady->stop)
                rd_kafka_poll(steady->client, 20);
        return NULL;
}

static int64_t send_paced(steady_t *steady, rd_kafka_topic_t *topic) {
        const options_t *options = steady->options;
        const int64_t began = now_ns(), step_ns = 1000000000 / options->rate;
        const int64_t deadline = began + options->timeout_ms * 1000000;
        char value[MAX_MESSAGE_BYTES];
        int64_t sent = 0;
        memset(value, 'x', (size_t)options->size);
        for (int64_t i = 0; !interrupted && now_ns() < deadline; i++) {
                sleep_until_ns(began + i * step_ns);
                const int64_t stamp = now_ns();
                memcpy(value, &stamp, sizeof stamp);
                sent += !rd_kafka_produce(topic, (int32_t)(i % options->partitions),
                                          RD_KAFKA_MSG_F_COPY, value, (size_t)options->size, NULL,
                                          0, NULL);
        }
        return sent;
}

int run_steady(const options_t *options) {
        steady_t steady = {.options = options, .samples = samples_new(MAX_SAMPLES)};
        rd_kafka_conf_t *conf = producer_conf(options);
        pthread_t collector;
        signal(SIGINT, on_interrupt);
        signal(SIGUSR1, on_restart);
        rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
        rd_kafka_conf_set_opaque(conf, &steady);
        steady.client = new_client(RD_KAFKA_PRODUCER, conf);
        rd_kafka_topic_t *topic = rd_kafka_topic_new(steady.client, options->topic, NULL);
        await_topic(steady.client, topic, options);
        if (pthread_create(&collector, NULL, collect, &steady))
                die("cannot start a thread");
        const double cpu = cpu_seconds();
        const int64_t sent = send_paced(&steady, topic);
        const int64_t deadline = now_ns() + options->timeout_ms * 1000000;
        while (rd_kafka_outq_len(steady.client))
                if (now_ns() > deadline)
                        die("%d messages were not answered", rd_kafka_outq_len(steady.client));
                else
                        sleep_until_ns(now_ns() + 1000000);
        steady.stop = true;
        pthread_join(collector, NULL);
        printf("{\"mode\":\"steady\",\"sent\":%lld,\"acked\":%lld,\"failed\":%lld,"
               "\"client_cpu_s\":%.4f,",
               (long long)sent, (long long)steady.acked, (long long)steady.failed,
               cpu_seconds() - cpu);
        samples_print(&steady.samples);
        puts("}");
        return 0;
}
