/* Functions for sockets of several handles: each sees the sockets of its own transfers, also those
 * that a share keeps. The argument is a URL whose body has six bytes. */

#include <arpa/inet.h>
#include <curl/curl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

static int opened, refused, closed;

static size_t ignore(char *bytes, size_t size, size_t count, void *user)
{
    (void)bytes;
    (void)user;
    return size * count;
}

static curl_socket_t open_it(void *user, curlsocktype purpose, struct curl_sockaddr *address)
{
    (void)user;
    (void)purpose;
    opened++;
    return socket(address->family, address->socktype, address->protocol);
}

static curl_socket_t refuse_it(void *user, curlsocktype purpose, struct curl_sockaddr *address)
{
    (void)user;
    (void)purpose;
    (void)address;
    refused++;
    return CURL_SOCKET_BAD;
}

static int close_it(void *user, curl_socket_t fd)
{
    (void)user;
    closed++;
    return close(fd);
}

static CURL *transfer(const char *url, curl_opensocket_callback function)
{
    CURL *easy = curl_easy_init();
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, ignore);
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, function);
    curl_easy_setopt(easy, CURLOPT_CLOSESOCKETFUNCTION, close_it);
    return easy;
}

/* Transfers to one server, added together in this order. */
static void add_together(const char *url, const curl_opensocket_callback *functions)
{
    CURLM *multi = curl_multi_init();
    CURL *handles[3];
    CURLMsg *message;
    int running = 1, left, results[3] = {-1, -1, -1};
    opened = refused = closed = 0;
    for (int at = 0; at < 3; at++) {
        handles[at] = transfer(url, functions[at]);
        curl_multi_add_handle(multi, handles[at]);
    }
    while (running) {
        curl_multi_perform(multi, &running);
        curl_multi_poll(multi, NULL, 0, 100, NULL);
    }
    while ((message = curl_multi_info_read(multi, &left)))
        for (int at = 0; at < 3; at++)
            if (handles[at] == message->easy_handle)
                results[at] = message->data.result;
    for (int at = 0; at < 3; at++) {
        curl_multi_remove_handle(multi, handles[at]);
        curl_easy_cleanup(handles[at]);
    }
    curl_multi_cleanup(multi);
    printf("results %d %d %d, opened %d, refused %d, closed %d\n", results[0], results[1],
           results[2], opened, refused, closed);
}

static void share_connections(const char *url)
{
    CURLSH *share = curl_share_init();
    curl_share_setopt(share, CURLSHOPT_SHARE, CURL_LOCK_DATA_CONNECT);
    opened = closed = 0;
    for (int at = 0; at < 3; at++) {
        CURL *easy = transfer(url, open_it);
        char *local = NULL;
        long port = 0;
        curl_easy_setopt(easy, CURLOPT_SHARE, share);
        printf("shared: %d,", curl_easy_perform(easy));
        curl_easy_getinfo(easy, CURLINFO_LOCAL_IP, &local);
        curl_easy_getinfo(easy, CURLINFO_LOCAL_PORT, &port);
        printf(" from %s %d\n", local, port > 0);
        curl_easy_cleanup(easy);
    }
    printf("opened %d, closed %d\n", opened, closed);
    printf("end: %d,", curl_share_cleanup(share));
    printf(" closed %d\n", closed);
}

int main(int count, char **arguments)
{
    const char *url = count > 1 ? arguments[1] : "";
    const curl_opensocket_callback orders[4][3] = {
        {NULL, refuse_it, NULL},
        {open_it, refuse_it, NULL},
        {refuse_it, open_it, open_it},
        {NULL, NULL, open_it},
    };
    curl_global_init(CURL_GLOBAL_ALL);
    for (int at = 0; at < 4; at++)
        add_together(url, orders[at]);
    share_connections(url);
    curl_global_cleanup();
    return 0;
}
