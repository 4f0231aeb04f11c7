/* Preloaded into a broker: fdatasync fails with EIO while the file named by FAIL_SYNC exists, and with ENOSPC while the
   one named by FULL_SYNC does; it does not return while the one named by HOLD_SYNC exists, and takes 200 ms more while
   the one named by SLOW_SYNC does, 2 s more for VERY_SLOW_SYNC; reads of segments fail with EIO while the one named by
   FAIL_READ exists. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int is_there(const char *variable) {
    const char *path = getenv(variable);
    return path && access(path, F_OK) == 0;
}

int fdatasync(int fd) {
    while (is_there("HOLD_SYNC"))
        usleep(10000);
    if (is_there("SLOW_SYNC"))
        usleep(200000);
    if (is_there("VERY_SLOW_SYNC"))
        usleep(2000000);
    if (is_there("FULL_SYNC")) {
        errno = ENOSPC;
        return -1;
    }
    if (is_there("FAIL_SYNC")) {
        errno = EIO;
        return -1;
    }
    return ((int (*)(int))dlsym(RTLD_NEXT, "fdatasync"))(fd);
}

static ssize_t written(int fd, const void *data, size_t octets, off64_t position) {
    return ((ssize_t(*)(int, const void *, size_t, off64_t))dlsym(RTLD_NEXT, "pwrite64"))(fd, data, octets, position);
}

#include "durable_write.h"

static int is_segment(int fd) {
    char link[32], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t octets = readlink(link, path, sizeof path);
    return octets > 4 && !memcmp(path + octets - 4, ".seg", 4);
}

ssize_t pread64(int fd, void *data, size_t octets, off64_t position) {
    if (is_there("FAIL_READ") && is_segment(fd)) {
        errno = EIO;
        return -1;
    }
    return ((ssize_t(*)(int, void *, size_t, off64_t))dlsym(RTLD_NEXT, "pread64"))(fd, data, octets, position);
}
