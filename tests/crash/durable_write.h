/* Writes to a handle that was opened with O_DSYNC, as the broker's short commits are: the write, and then the
   `fdatasync` of the file that includes this, which can fail, wait or be noted. It defines `written(fd, data, octets,
   position)`: the write alone. */
#include <fcntl.h>

static ssize_t write_and_sync(int fd, const void *data, size_t octets, off64_t position) {
    int flags = fcntl(fd, F_GETFL);
    ssize_t count = written(fd, data, octets, position);
    if (count > 0 && flags >= 0 && (flags & O_DSYNC) && fdatasync(fd))
        return -1;
    return count;
}

ssize_t pwrite64(int fd, const void *data, size_t octets, off64_t position) {
    return write_and_sync(fd, data, octets, position);
}

ssize_t pwrite(int fd, const void *data, size_t octets, off_t position) {
    return write_and_sync(fd, data, octets, position);
}
