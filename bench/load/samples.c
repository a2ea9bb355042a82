/* Latencies, kept whole; quantiles by nearest rank. */
#include "load.h"

#include <stdio.h>
#include <stdlib.h>

samples_t samples_new(size_t capacity) {
        samples_t samples = {.values = malloc(capacity * sizeof(int64_t)), .capacity = capacity};
        if (!samples.values)
                die("no memory for %zu samples", capacity);
        return samples;
}

void samples_add(samples_t *samples, int64_t value) {
        if (samples->count < samples->capacity)
                samples->values[samples->count++] = value;
}

static int ascending(const void *left, const void *right) {
        int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
        return (a > b) - (a < b);
}

static double quantile_ms(const samples_t *samples, double q) {
        size_t rank = (size_t)(q * (double)(samples->count - 1) + 0.5);
        return (double)samples->values[rank] / 1e6;
}

void samples_print(samples_t *samples) {
        if (!samples->count)
                die("not one sample was taken");
        qsort(samples->values, samples->count, sizeof(int64_t), ascending);
        printf("\"samples\":%zu,\"p50_ms\":%.4f,\"p90_ms\":%.4f,\"p99_ms\":%.4f,\"p999_ms\":%.4f,"
               "\"max_ms\":%.4f",
               samples->count, quantile_ms(samples, 0.50), quantile_ms(samples, 0.90),
               quantile_ms(samples, 0.99), quantile_ms(samples, 0.999), quantile_ms(samples, 1.0));
}
