/* curl_easy_perform over the event interface of libcurl, to be preloaded into curl's tool.
 *
 * curl's tests have a mode of this kind (runtests.pl -e), but only for debug builds of tool and
 * library. This one uses public functions, so that every library can be tested. All transfers of
 * the process use one multi handle, with the connections that it keeps. */
#include <curl/curl.h>
#include <poll.h>
#include <time.h>

#define WATCHED_MAX 64

static struct pollfd watched[WATCHED_MAX];
static nfds_t count;
static long long deadline = -1;

static long long now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (long long)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *user, void *socket)
{
    nfds_t at = 0;
    (void)easy;
    (void)user;
    (void)socket;
    while (at < count && watched[at].fd != fd)
        at++;
    if (what == CURL_POLL_REMOVE) {
        if (at < count)
            watched[at] = watched[--count];
        return 0;
    }
    if (at == WATCHED_MAX)
        return -1;
    if (at == count)
        count++;
    watched[at].fd = fd;
    watched[at].events = (short)((what & CURL_POLL_IN ? POLLIN : 0) |
                                 (what & CURL_POLL_OUT ? POLLOUT : 0));
    return 0;
}

static int on_timer(CURLM *multi, long milliseconds, void *user)
{
    (void)multi;
    (void)user;
    deadline = milliseconds < 0 ? -1 : now() + milliseconds;
    return 0;
}

/* Waits for the sockets and the timer, and reports what has happened. */
static CURLMcode turn(CURLM *multi, int *running)
{
    struct pollfd ready[WATCHED_MAX];
    nfds_t ready_count = count, at;
    CURLMcode code = CURLM_OK;
    long long wait = deadline < 0 ? 1000 : deadline - now();
    for (at = 0; at < count; at++)
        ready[at] = watched[at];
    if (poll(ready, ready_count, wait < 0 ? 0 : (int)wait) < 0)
        return CURLM_OK;
    for (at = 0; at < ready_count && !code; at++) {
        int mask = (ready[at].revents & POLLIN ? CURL_CSELECT_IN : 0) |
                   (ready[at].revents & POLLOUT ? CURL_CSELECT_OUT : 0) |
                   (ready[at].revents & (POLLERR | POLLHUP) ? CURL_CSELECT_ERR : 0);
        if (mask)
            code = curl_multi_socket_action(multi, ready[at].fd, mask, running);
    }
    if (!code && deadline >= 0 && now() >= deadline) {
        deadline = -1;
        code = curl_multi_socket_action(multi, CURL_SOCKET_TIMEOUT, 0, running);
    }
    return code;
}

CURLcode curl_easy_perform(CURL *easy)
{
    static CURLM *multi;
    CURLcode result = CURLE_FAILED_INIT;
    CURLMsg *message;
    int running = 1, left;
    if (!multi) {
        multi = curl_multi_init();
        curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, on_socket);
        curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, on_timer);
    }
    if (curl_multi_add_handle(multi, easy))
        return CURLE_FAILED_INIT;
    while (running)
        if (turn(multi, &running))
            break;
    while ((message = curl_multi_info_read(multi, &left)))
        if (message->msg == CURLMSG_DONE && message->easy_handle == easy)
            result = message->data.result;
    curl_multi_remove_handle(multi, easy);
    return result;
}
