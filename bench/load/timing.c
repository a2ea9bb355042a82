/* Clocks: the monotonic one, and this process's CPU time. */
#define _GNU_SOURCE
#include "load.h"

#include <sys/resource.h>
#include <time.h>

int64_t now_ns(void) {
        struct timespec at;
        clock_gettime(CLOCK_MONOTONIC, &at);
        return (int64_t)at.tv_sec * 1000000000 + at.tv_nsec;
}

double cpu_seconds(void) {
        struct rusage usage;
        getrusage(RUSAGE_SELF, &usage);
        return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
               (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

void sleep_until_ns(int64_t deadline_ns) {
        struct timespec at = {.tv_sec = deadline_ns / 1000000000,
                              .tv_nsec = deadline_ns % 1000000000};
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL))
                ;
}
