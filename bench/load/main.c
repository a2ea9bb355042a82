/* Entry point: one mode a run. */
#include "load.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv) {
        static const struct {
                const char *name;
                int (*run)(const options_t *);
        } modes[] = {
            {"produce", run_produce},   {"consume", run_consume}, {"latency", run_latency},
            {"e2e", run_end_to_end},    {"metadata", run_metadata},
            {"first", run_first_message},
            {"transactions", run_transactions}, {"commits", run_commits},
            {"heartbeats", run_heartbeats}, {"rebalance", run_rebalance},
            {"steady", run_steady},
        };
        const options_t options = parse_options(argc, argv);
        for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
                if (!strcmp(modes[i].name, options.mode)) {
                        int status = modes[i].run(&options);
                        fflush(stdout);
                        /* Closing clients in order takes librdkafka seconds that nobody measures. */
                        _exit(status);
                }
        die("unknown mode %s", options.mode);
}
