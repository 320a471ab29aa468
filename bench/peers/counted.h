/* Counts the system calls of libcurl on an open connection. For programs that link with libcurl
 * dynamically; _GNU_SOURCE has to be defined before the first include. */
#ifndef COUNTED_H
#define COUNTED_H

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>

enum { DESCRIPTORS_MAX = 65536 };

/* The system calls of a request on an open connection. */
enum call { SEND, RECV, POLL, EPOLL_CTL, EPOLL_WAIT, CALLS };

static const char *const call_names[CALLS] = {"send", "recv", "poll", "epoll_ctl", "epoll_wait"};
static long calls[CALLS], eagain, clock_reads;
static long senders; /* descriptors that have been sent on */

/* Wrappers of the C library's functions, which libcurl calls instead. Counting with strace would
 * change the count: each call takes so long there that the response has arrived before libcurl
 * receives, and most of its waits and epoll_ctl are never made. */

#define REAL(name)                                                                                 \
    static __typeof__(&name) real;                                                                 \
    if (real == NULL) *(void **)&real = dlsym(RTLD_NEXT, #name)

static ssize_t counted(enum call call, ssize_t result) {
    calls[call]++;
    if (result < 0 && errno == EAGAIN) eagain++;
    return result;
}

ssize_t send(int fd, const void *bytes, size_t size, int flags) {
    static bool has_sent[DESCRIPTORS_MAX];
    REAL(send);
    if (fd >= 0 && fd < DESCRIPTORS_MAX && !has_sent[fd]) {
        has_sent[fd] = true;
        senders++;
    }
    return counted(SEND, real(fd, bytes, size, flags));
}

ssize_t recv(int fd, void *bytes, size_t size, int flags) {
    REAL(recv);
    return counted(RECV, real(fd, bytes, size, flags));
}

int poll(struct pollfd *fds, nfds_t count, int timeout_ms) {
    REAL(poll);
    return (int)counted(POLL, real(fds, count, timeout_ms));
}

int epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event) {
    REAL(epoll_ctl);
    return (int)counted(EPOLL_CTL, real(epoll, operation, fd, event));
}


int clock_gettime(clockid_t clock, struct timespec *time) {
    REAL(clock_gettime);
    clock_reads++;
    return real(clock, time);
}

/* For the loop and the measurement; libcurl's reads alone are to be counted. */
static int64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    clock_reads--;
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

#ifdef WITH_LIBEVENT
/* The waits are libevent's. Its reads of the clock are counted as libcurl's. */
static int64_t wait_end_ns;
#endif

int epoll_wait(int epoll, struct epoll_event *events, int count, int timeout_ms) {
    REAL(epoll_wait);
    int ready = (int)counted(EPOLL_WAIT, real(epoll, events, count, timeout_ms));
#ifdef WITH_LIBEVENT
    wait_end_ns = now_ns();
#endif
    return ready;
}

#endif
