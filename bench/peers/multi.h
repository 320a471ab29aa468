/* A multi handle of libcurl in a loop: what programs around curl_multi_socket_action(3) have in
 * common. The loop is epoll, or libevent's if WITH_LIBEVENT is defined. _GNU_SOURCE is defined
 * before anything is included. */
#ifndef MULTI_H
#define MULTI_H

#include <curl/curl.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef WITH_LIBEVENT
#include <event2/event.h>
#endif

#include "counted.h"

enum {
    EVENTS_MAX = 1024,
    OPENING_MAX = 256, /* transfers on their way to a connection: less than any listen queue */
};

static const int64_t NEVER = INT64_MAX;

struct loop {
    CURLM *multi;
    int epoll, running;
    bool has_no_mask;    /* libcurl is not passed what a descriptor is ready for */
    long actions;        /* calls of curl_multi_socket_action */
    int64_t deadline_ns; /* of libcurl's timer; 0 is due */
#ifdef WITH_LIBEVENT
    struct event_base *base;
    struct event *timer;
#endif
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

/* The calls to libcurl. */

static void act_for(struct loop *loop, int fd, int mask) {
    loop->actions++;
    if (curl_multi_socket_action(loop->multi, fd, loop->has_no_mask ? 0 : mask, &loop->running) !=
        CURLM_OK)
        fail("curl_multi_socket_action failed");
}

#ifdef WITH_LIBEVENT

/* As libcurl's own example for libevent does it: an event for each descriptor, and one timer. */

static void handle_timeout(evutil_socket_t fd, short what, void *user) {
    (void)fd, (void)what;
    act_for(user, CURL_SOCKET_TIMEOUT, 0);
}

static int handle_timer(CURLM *multi, long timeout_ms, void *user) {
    (void)multi;
    struct loop *loop = user;
    struct timeval time = {timeout_ms / 1000, timeout_ms % 1000 * 1000};
    if (timeout_ms < 0) evtimer_del(loop->timer);
    else evtimer_add(loop->timer, &time);
    return 0;
}

static void handle_event(evutil_socket_t fd, short what, void *user) {
    act_for(user, fd,
            ((what & EV_READ) ? CURL_CSELECT_IN : 0) | ((what & EV_WRITE) ? CURL_CSELECT_OUT : 0));
}

static int handle_socket(CURL *easy, curl_socket_t fd, int what, void *user, void *known) {
    (void)easy;
    struct loop *loop = user;
    struct event *event = known;
    short wanted = ((what & CURL_POLL_IN) ? EV_READ : 0) | ((what & CURL_POLL_OUT) ? EV_WRITE : 0);
    if (what == CURL_POLL_REMOVE) {
        if (event != NULL) event_free(event);
        return 0;
    }
    if (event == NULL) {
        event = event_new(loop->base, fd, wanted | EV_PERSIST, handle_event, loop);
        if (event == NULL) fail("event_new failed");
        curl_multi_assign(loop->multi, fd, event);
    } else {
        event_del(event);
        event_assign(event, loop->base, fd, wanted | EV_PERSIST, handle_event, loop);
    }
    if (event_add(event, NULL) != 0) fail_call("event_add");
    return 0;
}

static void handle_step(evutil_socket_t fd, short what, void *user) {
    (void)fd, (void)what, (void)user;
}

/* One wait of at most so long (-1: as libcurl wants), and libcurl's work for all that is ready.
 * Returns when the wait ended. */
static int64_t wait_and_act(struct loop *loop, int most_ms) {
    struct timeval step = {most_ms / 1000, most_ms % 1000 * 1000};
    if (most_ms >= 0) event_base_once(loop->base, -1, EV_TIMEOUT, handle_step, NULL, &step);
    if (event_base_loop(loop->base, EVLOOP_ONCE) < 0) fail("event_base_loop failed");
    return wait_end_ns;
}

/* The timer is libevent's. */
static bool handle_due(struct loop *loop) {
    (void)loop;
    return false;
}

static void open_loop(struct loop *loop) {
    *loop = (struct loop){.multi = curl_multi_init(), .base = event_base_new()};
    if (loop->multi == NULL || loop->base == NULL) fail("curl_multi_init or event_base_new failed");
    if (strcmp(event_base_get_method(loop->base), "epoll") != 0) fail("libevent without epoll");
    loop->timer = evtimer_new(loop->base, handle_timeout, loop);
    if (loop->timer == NULL) fail("evtimer_new failed");
}

#else

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

/* How long it may wait, but no longer than this; -1: for ever. */
static int wait_ms(const struct loop *loop, int most_ms) {
    if (loop->deadline_ns == NEVER) return most_ms;
    int64_t left_ns = loop->deadline_ns == 0 ? 0 : loop->deadline_ns - now_ns();
    int64_t left_ms = left_ns > 0 ? (left_ns + 999999) / 1000000 : 0;
    return most_ms >= 0 && left_ms > most_ms ? most_ms : (int)left_ms;
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

/* One wait of at most so long (-1: as libcurl wants), and libcurl's work for all that is ready.
 * Returns when the wait ended. */
static int64_t wait_and_act(struct loop *loop, int most_ms) {
    static struct epoll_event events[EVENTS_MAX];
    int count = epoll_wait(loop->epoll, events, EVENTS_MAX, wait_ms(loop, most_ms));
    int64_t ready_ns = now_ns();
    for (int i = 0; i < count; i++) act(loop, &events[i]);
    return ready_ns;
}

static void open_loop(struct loop *loop) {
    *loop = (struct loop){.multi = curl_multi_init(), .deadline_ns = NEVER};
    loop->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (loop->multi == NULL || loop->epoll < 0) fail("curl_multi_init or epoll_create1 failed");
}

#endif

/* Registers the callbacks. */
static void hear(struct loop *loop) {
    curl_multi_setopt(loop->multi, CURLMOPT_SOCKETFUNCTION, handle_socket);
    curl_multi_setopt(loop->multi, CURLMOPT_SOCKETDATA, loop);
    curl_multi_setopt(loop->multi, CURLMOPT_TIMERFUNCTION, handle_timer);
    curl_multi_setopt(loop->multi, CURLMOPT_TIMERDATA, loop);
}

#endif
