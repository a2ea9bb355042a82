/* A disk that can be made slow while a program runs: preloaded, it delays what goes to files.
 *
 * HEADRACE_CHAOS_DISK names a file of two 32-bit numbers, the microseconds that a write and a flush
 * take longer. Sockets and pipes are left alone. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static const volatile uint32_t *delays_us; /* of a write, of a flush */

__attribute__((constructor)) static void begin(void) {
        const char *path = getenv("HEADRACE_CHAOS_DISK");
        int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
        if (file < 0)
                return;
        void *shared = mmap(NULL, 2 * sizeof(uint32_t), PROT_READ, MAP_SHARED, file, 0);
        if (shared != MAP_FAILED)
                delays_us = shared;
        close(file);
}

static void delay(int file, int kind) {
        struct stat about;
        uint32_t us = delays_us ? delays_us[kind] : 0;
        if (!us || fstat(file, &about) || !S_ISREG(about.st_mode))
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

SLOW(0, ssize_t, write, (int file, const void *data, size_t size), (file, data, size))
SLOW(0, ssize_t, pwrite, (int file, const void *data, size_t size, off_t at),
     (file, data, size, at))
SLOW(0, ssize_t, pwrite64, (int file, const void *data, size_t size, off64_t at),
     (file, data, size, at))
SLOW(0, ssize_t, writev, (int file, const struct iovec *parts, int count), (file, parts, count))
SLOW(0, ssize_t, pwritev, (int file, const struct iovec *parts, int count, off_t at),
     (file, parts, count, at))
SLOW(0, ssize_t, pwritev64, (int file, const struct iovec *parts, int count, off64_t at),
     (file, parts, count, at))
SLOW(1, int, fsync, (int file), (file))
SLOW(1, int, fdatasync, (int file), (file))
