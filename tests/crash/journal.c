/* Preloaded into a broker: everything that changes files below the folder JOURNAL_ROOT is appended to the file JOURNAL,
   in the order in which it was done, so that a test can tell what a disk may hold after a power cut at any moment.

   A record: operation (1 octet), octets of the path (2), position (8), octets of data (4), all little-endian; the path
   below the root; the data. A sync is in the journal when it has ended; it is not done, as the test cuts no real power.
   One lock around both, so that no two operations are in another order than in the journal. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int journal = -1;

static void put(const struct iovec *parts, int count) {
    ssize_t wanted = 0;
    for (int i = 0; i < count; i++)
        wanted += parts[i].iov_len;
    if (NEXT(writev)(journal, parts, count) != wanted)
        abort();
}

/* The path below the root, NULL if it is not there or the journal is off. */
static const char *below(const char *path) {
    const char *root = getenv("JOURNAL_ROOT");
    const char *name = getenv("JOURNAL");
    if (!root || !name || strncmp(path, root, strlen(root)))
        return NULL;
    path += strlen(root);
    if (*path && *path != '/')
        return NULL;
    if (journal < 0)
        journal = NEXT(open64)(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (journal < 0)
        abort();
    return *path ? path + 1 : path;
}

static const char *path_of(int fd, char *path) {
    char link[32];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t octets = readlink(link, path, PATH_MAX - 1);
    if (octets < 0)
        return NULL;
    path[octets] = 0;
    return below(path);
}

static void note(char operation, const char *path, int64_t position, const struct iovec *data, int count) {
    struct iovec parts[IOV_MAX + 2];
    char head[15];
    uint16_t path_octets = strlen(path);
    uint32_t octets = 0;
    for (int i = 0; i < count; i++) {
        parts[i + 2] = data[i];
        octets += data[i].iov_len;
    }
    head[0] = operation;
    memcpy(head + 1, &path_octets, 2);
    memcpy(head + 3, &position, 8);
    memcpy(head + 11, &octets, 4);
    parts[0] = (struct iovec){head, sizeof head};
    parts[1] = (struct iovec){(void *)path, path_octets};
    if (count > IOV_MAX - 2)
        abort();
    put(parts, count + 2);
}

/* Do something to an open file, and note it where it was done. */
#define ON_FILE(type, call, done, operation, position, data, count)                                                    \
    char where[PATH_MAX];                                                                                              \
    pthread_mutex_lock(&lock);                                                                                         \
    type result = call;                                                                                                \
    int error = errno;                                                                                                 \
    const char *path = (done) ? path_of(fd, where) : NULL;                                                             \
    if (path)                                                                                                          \
        note(operation, path, position, data, count);                                                                  \
    pthread_mutex_unlock(&lock);                                                                                       \
    errno = error;                                                                                                     \
    return result

/* The same for a name. */
#define ON_NAME(call, operation, name, data, count)                                                                    \
    pthread_mutex_lock(&lock);                                                                                         \
    int result = call;                                                                                                 \
    int error = errno;                                                                                                 \
    const char *path = result ? NULL : below(name);                                                                    \
    if (path)                                                                                                          \
        note(operation, path, 0, data, count);                                                                         \
    pthread_mutex_unlock(&lock);                                                                                       \
    errno = error;                                                                                                     \
    return result

static int opened(int (*call)(const char *, int, ...), const char *name, int flags, mode_t mode) {
    pthread_mutex_lock(&lock);
    int is_new = (flags & O_CREAT) && access(name, F_OK);
    int fd = call(name, flags, mode);
    int error = errno;
    const char *path = fd >= 0 && is_new ? below(name) : NULL;
    if (path)
        note('c', path, 0, NULL, 0);
    pthread_mutex_unlock(&lock);
    errno = error;
    return fd;
}

#define MODE_OF(flags)                                                                                                 \
    va_list rest;                                                                                                      \
    va_start(rest, flags);                                                                                             \
    mode_t mode = (flags & O_CREAT) ? va_arg(rest, mode_t) : 0;                                                        \
    va_end(rest)

int open(const char *name, int flags, ...) {
    MODE_OF(flags);
    return opened(NEXT(open), name, flags, mode);
}

int open64(const char *name, int flags, ...) {
    MODE_OF(flags);
    return opened(NEXT(open64), name, flags, mode);
}

ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t position) {
    ON_FILE(ssize_t, NEXT(pwritev64)(fd, parts, count, position), result > 0, 'w', position, parts, count);
}

ssize_t pwritev64v2(int fd, const struct iovec *parts, int count, off64_t position, int flags) {
    ON_FILE(ssize_t, NEXT(pwritev64v2)(fd, parts, count, position, flags), result > 0, 'w', position, parts, count);
}

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t position) {
    return pwritev64(fd, parts, count, position);
}

static ssize_t written(int fd, const void *data, size_t octets, off64_t position) {
    struct iovec part = {(void *)data, octets};
    ON_FILE(ssize_t, NEXT(pwrite64)(fd, data, octets, position), result > 0, 'w', position, &part, 1);
}

int ftruncate64(int fd, off64_t octets) {
    ON_FILE(int, NEXT(ftruncate64)(fd, octets), !result, 't', octets, NULL, 0);
}

int ftruncate(int fd, off_t octets) {
    return ftruncate64(fd, octets);
}

int posix_fallocate64(int fd, off64_t first, off64_t octets) {
    ON_FILE(int, NEXT(posix_fallocate64)(fd, first, octets), !result, 'a', first + octets, NULL, 0);
}

int posix_fallocate(int fd, off_t first, off_t octets) {
    return posix_fallocate64(fd, first, octets);
}

int fdatasync(int fd) {
    ON_FILE(int, 0, 1, 's', 0, NULL, 0);
}

int fsync(int fd) {
    ON_FILE(int, 0, 1, 's', 0, NULL, 0);
}

#include "durable_write.h"

int rename(const char *old, const char *name) {
    const char *to = below(name);
    struct iovec part = {(void *)to, to ? strlen(to) : 0};
    ON_NAME(NEXT(rename)(old, name), 'r', old, &part, 1);
}

int unlink(const char *name) {
    ON_NAME(NEXT(unlink)(name), 'u', name, NULL, 0);
}

int mkdir(const char *name, mode_t mode) {
    ON_NAME(NEXT(mkdir)(name, mode), 'm', name, NULL, 0);
}

int rmdir(const char *name) {
    ON_NAME(NEXT(rmdir)(name), 'd', name, NULL, 0);
}

int unlinkat(int folder, const char *name, int flags) {
    char full[2 * PATH_MAX] = "";
    if (folder != AT_FDCWD && name[0] != '/') {
        char link[32];
        snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
        ssize_t octets = readlink(link, full, PATH_MAX - 1);
        full[octets < 0 ? 0 : octets] = 0;
        strcat(full, "/");
    }
    strncat(full, name, PATH_MAX - 1);
    ON_NAME(NEXT(unlinkat)(folder, name, flags), (flags & AT_REMOVEDIR) ? 'd' : 'u', full, NULL, 0);
}
