/* A machine that can be made bad while a program runs: preloaded, it delays what goes to files,
 * fails flushes, and tells another time of day.
 *
 * HEADRACE_CHAOS_MACHINE names a file of four 32-bit numbers: the microseconds that a write and a
 * flush take longer, whether flushes fail, and the seconds that the clock is ahead. Sockets and
 * pipes are left alone, and so is the clock that measures intervals. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { WRITE_US, FLUSH_US, FLUSHES_FAIL, AHEAD_S, STATES };

static const volatile uint32_t *state;

__attribute__((constructor)) static void begin(void) {
        const char *path = getenv("HEADRACE_CHAOS_MACHINE");
        int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
        if (file < 0)
                return;
        void *shared = mmap(NULL, STATES * sizeof(uint32_t), PROT_READ, MAP_SHARED, file, 0);
        if (shared != MAP_FAILED)
                state = shared;
        close(file);
}

static int is_file(int file) {
        struct stat about;
        return !fstat(file, &about) && S_ISREG(about.st_mode);
}

static void delay(int file, int kind) {
        uint32_t us = state ? state[kind] : 0;
        if (!us || !is_file(file))
                return;
        struct timespec pause = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000L};
        nanosleep(&pause, NULL);
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define SLOW(kind, result, name, parameters, arguments)                                            \
        result name parameters {                                                                   \
                static __typeof__(&name) real;                                                     \
                if (!real)                                                                         \
                        real = REAL(name);                                                         \
                delay(file, kind);                                                                 \
                return real arguments;                                                             \
        }

SLOW(WRITE_US, ssize_t, write, (int file, const void *data, size_t size), (file, data, size))
SLOW(WRITE_US, ssize_t, pwrite, (int file, const void *data, size_t size, off_t at),
     (file, data, size, at))
SLOW(WRITE_US, ssize_t, pwrite64, (int file, const void *data, size_t size, off64_t at),
     (file, data, size, at))
SLOW(WRITE_US, ssize_t, writev, (int file, const struct iovec *parts, int count), (file, parts, count))
SLOW(WRITE_US, ssize_t, pwritev, (int file, const struct iovec *parts, int count, off_t at),
     (file, parts, count, at))
SLOW(WRITE_US, ssize_t, pwritev64, (int file, const struct iovec *parts, int count, off64_t at),
     (file, parts, count, at))

#define FLUSH(name)                                                                                \
        int name(int file) {                                                                       \
                static __typeof__(&name) real;                                                     \
                if (!real)                                                                         \
                        real = REAL(name);                                                         \
                delay(file, FLUSH_US);                                                             \
                if (state && state[FLUSHES_FAIL] && is_file(file)) {                               \
                        errno = EIO;                                                               \
                        return -1;                                                                 \
                }                                                                                  \
                return real(file);                                                                 \
        }

FLUSH(fsync)
FLUSH(fdatasync)

int clock_gettime(clockid_t clock, struct timespec *now) {
        static __typeof__(&clock_gettime) real;
        if (!real)
                real = REAL(clock_gettime);
        int failed = real(clock, now);
        if (!failed && state && clock == CLOCK_REALTIME)
                now->tv_sec += (int32_t)state[AHEAD_S];
        return failed;
}
