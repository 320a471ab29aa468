/* Transfers in the application's own loop: curl_multi_socket_action over poll(2).
 *
 *   sockets URL COUNT AT_A_TIME
 *
 * Every callback is checked: a descriptor is open whenever it is named, what was never announced is
 * not removed, and nothing is left at the end. */

#include <curl/curl.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SOCKETS_MAX 256

static struct pollfd sockets[SOCKETS_MAX];
static int socket_count;
static long timeout_ms = -1;
static long received;
static int faults;

static void fault(const char *text, int fd)
{
    printf("fault: %s (descriptor %d)\n", text, fd);
    faults++;
}

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *user, void *assigned)
{
    int at = 0;
    (void)easy;
    (void)user;
    (void)assigned;
    if (fcntl(fd, F_GETFD) < 0)
        fault("it is not open", fd);
    while (at < socket_count && sockets[at].fd != fd)
        at++;
    if (what == CURL_POLL_REMOVE) {
        if (at == socket_count)
            fault("removed without having been announced", fd);
        else
            sockets[at] = sockets[--socket_count];
        return 0;
    }
    if (at == socket_count)
        socket_count++;
    sockets[at].fd = fd;
    sockets[at].revents = 0;
    sockets[at].events = (short)((what & CURL_POLL_IN ? POLLIN : 0) |
                                 (what & CURL_POLL_OUT ? POLLOUT : 0));
    return 0;
}

static int on_timer(CURLM *multi, long ms, void *user)
{
    (void)multi;
    (void)user;
    timeout_ms = ms;
    return 0;
}

static size_t write_body(char *bytes, size_t size, size_t count, void *user)
{
    (void)bytes;
    (void)user;
    received += (long)(size * count);
    return size * count;
}

static void start(CURLM *multi, const char *url)
{
    CURL *easy = curl_easy_init();
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, write_body);
    curl_multi_add_handle(multi, easy);
}

static void turn(CURLM *multi)
{
    int running;
    struct pollfd ready[SOCKETS_MAX];
    int count = socket_count;
    int wait = timeout_ms > 0 ? (int)timeout_ms : 1000;
    int found = timeout_ms == 0 ? 0 : poll(sockets, (nfds_t)count, wait);
    if (found <= 0) {
        timeout_ms = -1;
        curl_multi_socket_action(multi, CURL_SOCKET_TIMEOUT, 0, &running);
        return;
    }
    memcpy(ready, sockets, sizeof(*ready) * (size_t)count);
    for (int at = 0; at < count; at++) {
        short events = ready[at].revents;
        int what = (events & (POLLIN | POLLHUP) ? CURL_CSELECT_IN : 0) |
                   (events & POLLOUT ? CURL_CSELECT_OUT : 0) |
                   (events & POLLERR ? CURL_CSELECT_ERR : 0);
        if (what)
            curl_multi_socket_action(multi, ready[at].fd, what, &running);
    }
}

int main(int count, char **arguments)
{
    int wanted = count > 2 ? atoi(arguments[2]) : 1, at_a_time = count > 3 ? atoi(arguments[3]) : 1;
    int started = 0, done = 0, left;
    CURLMsg *message;
    CURLM *multi;
    curl_global_init(CURL_GLOBAL_ALL);
    multi = curl_multi_init();
    curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, on_socket);
    curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, on_timer);
    while (done < wanted) {
        for (; started < wanted && started - done < at_a_time; started++)
            start(multi, arguments[1]);
        turn(multi);
        while ((message = curl_multi_info_read(multi, &left))) {
            CURL *easy = message->easy_handle;
            long status = 0;
            curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
            if (message->data.result || status != 200)
                printf("result %d, status %ld\n", message->data.result, status);
            curl_multi_remove_handle(multi, easy);
            curl_easy_cleanup(easy);
            done++;
        }
    }
    curl_multi_cleanup(multi);
    printf("%d done, %ld bytes, %d sockets left, %d faults\n", done, received, socket_count,
           faults);
    curl_global_cleanup();
    return 0;
}
