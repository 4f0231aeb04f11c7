/* Linux's asynchronous syncs (io_submit with IOCB_CMD_FDSYNC), done by the `fdatasync` of the file that includes this:
   the kernel's own cannot be made to fail, to wait or to be noted. Each runs on a thread of its own, and comes back by
   the eventfd and io_getevents as the kernel's does. All other system calls go through. */
#include <linux/aio_abi.h>
#include <stdint.h>
#include <sys/syscall.h>

static pthread_mutex_t ended_lock = PTHREAD_MUTEX_INITIALIZER;
static struct io_event ended[16]; /* the broker has one at a time */
static int ended_count;

static void *sync_and_tell(void *given) {
    struct iocb sync = *(struct iocb *)given;
    int result = fdatasync(sync.aio_fildes);
    struct io_event event = {sync.aio_data, (uint64_t)(uintptr_t)given, result ? -errno : 0, 0};
    uint64_t one = 1;
    pthread_mutex_lock(&ended_lock);
    ended[ended_count++] = event;
    pthread_mutex_unlock(&ended_lock);
    if (write(sync.aio_resfd, &one, sizeof one) != sizeof one)
        abort();
    return NULL;
}

static long submit(struct iocb *sync) {
    pthread_t thread;
    if (sync->aio_lio_opcode != IOCB_CMD_FDSYNC || pthread_create(&thread, NULL, sync_and_tell, sync))
        abort();
    pthread_detach(thread);
    return 1;
}

static long take_ended(long least, struct io_event *events) {
    for (;;) {
        pthread_mutex_lock(&ended_lock);
        long taken = ended_count ? 1 : 0;
        if (taken)
            *events = ended[--ended_count];
        pthread_mutex_unlock(&ended_lock);
        if (taken >= least)
            return taken;
        usleep(1000);
    }
}

long syscall(long number, ...) {
    long given[6];
    va_list rest;
    va_start(rest, number);
    for (int i = 0; i < 6; i++)
        given[i] = va_arg(rest, long);
    va_end(rest);
    if (number == __NR_io_submit)
        return submit(*(struct iocb **)given[2]);
    if (number == __NR_io_getevents)
        return take_ended(given[1], (struct io_event *)given[3]);
    return ((long (*)(long, ...))dlsym(RTLD_NEXT, "syscall"))(
        number, given[0], given[1], given[2], given[3], given[4], given[5]);
}
