/* Preloaded into a broker: fdatasync fails with EIO while the file named by FAIL_SYNC exists. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

int fdatasync(int fd) {
    const char *flag = getenv("FAIL_SYNC");
    if (flag && access(flag, F_OK) == 0) {
        errno = EIO;
        return -1;
    }
    return ((int (*)(int))dlsym(RTLD_NEXT, "fdatasync"))(fd);
}
