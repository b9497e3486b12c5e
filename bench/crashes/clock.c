/* Preloaded into the bench's workers: the wall clock can be moved, for this process alone. The monotonic clock stays. */
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

long slipstream_clock_offset = 0; /* seconds */

int clock_gettime(clockid_t clock, struct timespec *at) {
    int failed = (int)syscall(SYS_clock_gettime, clock, at);
    if (!failed && clock == CLOCK_REALTIME) at->tv_sec += slipstream_clock_offset;
    return failed;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
    int failed = (int)syscall(SYS_gettimeofday, at, zone);
    if (!failed && at) at->tv_sec += slipstream_clock_offset;
    return failed;
}

time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}
