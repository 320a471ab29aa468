/* A multi handle of libcurl on epoll: what programs around curl_multi_socket_action(3) have in
 * common. _GNU_SOURCE is defined before anything is included. */
#ifndef MULTI_H
#define MULTI_H

#include <curl/curl.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "counted.h"

enum {
    EVENTS_MAX = 1024,
    OPENING_MAX = 256, /* transfers on their way to a connection: less than any listen queue */
};

static const int64_t NEVER = INT64_MAX;

struct loop {
    CURLM *multi;
    int epoll, running;
    int64_t deadline_ns; /* of libcurl's timer; 0 is due */
};

static void fail(const char *what) {
    fprintf(stderr, "%s: %s\n", program_invocation_short_name, what);
    exit(1);
}

/* A call of the system has failed. */
static void fail_call(const char *call) {
    fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, call, strerror(errno));
    exit(1);
}

/* The callbacks of libcurl. */

static int handle_timer(CURLM *multi, long timeout_ms, void *user) {
    (void)multi;
    struct loop *loop = user;
    if (timeout_ms < 0) loop->deadline_ns = NEVER;
    else loop->deadline_ns = timeout_ms == 0 ? 0 : now_ns() + timeout_ms * 1000000;
    return 0;
}

static unsigned events_of(int what) {
    return ((what & CURL_POLL_IN) ? EPOLLIN : 0) | ((what & CURL_POLL_OUT) ? EPOLLOUT : 0);
}

static void watch(const struct loop *loop, int operation, int fd, unsigned events) {
    struct epoll_event event = {.events = events, .data.fd = fd};
    if (epoll_ctl(loop->epoll, operation, fd, &event) != 0) fail_call("epoll_ctl");
}

/* As libcurl's own example for epoll does it. */
static int handle_socket(CURL *easy, curl_socket_t fd, int what, void *user, void *known) {
    (void)easy;
    struct loop *loop = user;
    if (what == CURL_POLL_REMOVE) {
        watch(loop, EPOLL_CTL_DEL, fd, 0);
        return 0;
    }
    watch(loop, known != NULL ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, events_of(what));
    if (known == NULL) curl_multi_assign(loop->multi, fd, loop);
    return 0;
}

/* The calls to libcurl. */

/* How long it may wait, but no longer than this; -1: for ever. */
static int wait_ms(const struct loop *loop, int most_ms) {
    if (loop->deadline_ns == NEVER) return most_ms;
    int64_t left_ns = loop->deadline_ns == 0 ? 0 : loop->deadline_ns - now_ns();
    int64_t left_ms = left_ns > 0 ? (left_ns + 999999) / 1000000 : 0;
    return most_ms >= 0 && left_ms > most_ms ? most_ms : (int)left_ms;
}

static void act_for(struct loop *loop, int fd, int mask) {
    if (curl_multi_socket_action(loop->multi, fd, mask, &loop->running) != CURLM_OK)
        fail("curl_multi_socket_action failed");
}

static void act(struct loop *loop, const struct epoll_event *event) {
    unsigned seen = event->events;
    act_for(loop, event->data.fd,
            ((seen & EPOLLIN) ? CURL_CSELECT_IN : 0) | ((seen & EPOLLOUT) ? CURL_CSELECT_OUT : 0) |
                ((seen & (EPOLLERR | EPOLLHUP)) ? CURL_CSELECT_ERR : 0));
}

/* True if the timer had come. */
static bool handle_due(struct loop *loop) {
    if (loop->deadline_ns == NEVER) return false;
    if (loop->deadline_ns != 0 && now_ns() < loop->deadline_ns) return false;
    loop->deadline_ns = NEVER; /* libcurl says when it wants the next */
    act_for(loop, CURL_SOCKET_TIMEOUT, 0);
    return true;
}

static void open_loop(struct loop *loop) {
    *loop = (struct loop){.multi = curl_multi_init(), .deadline_ns = NEVER};
    loop->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (loop->multi == NULL || loop->epoll < 0) fail("curl_multi_init or epoll_create1 failed");
}

/* Registers the callbacks. */
static void hear(struct loop *loop) {
    curl_multi_setopt(loop->multi, CURLMOPT_SOCKETFUNCTION, handle_socket);
    curl_multi_setopt(loop->multi, CURLMOPT_SOCKETDATA, loop);
    curl_multi_setopt(loop->multi, CURLMOPT_TIMERFUNCTION, handle_timer);
    curl_multi_setopt(loop->multi, CURLMOPT_TIMERDATA, loop);
}

#endif
