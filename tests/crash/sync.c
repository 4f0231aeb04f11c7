/* Preloaded into a broker: fdatasync fails with EIO while the file named by FAIL_SYNC exists, and does not return while
   the one named by HOLD_SYNC does. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static int is_there(const char *variable) {
    const char *path = getenv(variable);
    return path && access(path, F_OK) == 0;
}

int fdatasync(int fd) {
    while (is_there("HOLD_SYNC"))
        usleep(10000);
    if (is_there("FAIL_SYNC")) {
        errno = EIO;
        return -1;
    }
    return ((int (*)(int))dlsym(RTLD_NEXT, "fdatasync"))(fd);
}
