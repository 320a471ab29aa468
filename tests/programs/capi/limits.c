/* How many connections are open under the limits of curl_multi_setopt and CURLOPT_MAXCONNECTS.
 *
 *   limits URL URL */

#include <curl/curl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#define COUNT 20

static int open_now, peak, done;

static curl_socket_t on_open(void *user, curlsocktype purpose, struct curl_sockaddr *address)
{
    (void)user;
    (void)purpose;
    if (++open_now > peak)
        peak = open_now;
    return socket(address->family, address->socktype, address->protocol);
}

static int on_close(void *user, curl_socket_t fd)
{
    (void)user;
    open_now--;
    return close(fd);
}

static size_t ignore(char *bytes, size_t size, size_t count, void *user)
{
    (void)bytes;
    (void)user;
    return size * count;
}

static CURL *handle(const char *url)
{
    CURL *easy = curl_easy_init();
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, ignore);
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, on_open);
    curl_easy_setopt(easy, CURLOPT_CLOSESOCKETFUNCTION, on_close);
    return easy;
}

static void perform(CURLM *multi)
{
    int running = 1, left;
    CURLMsg *message;
    while (running) {
        curl_multi_perform(multi, &running);
        while ((message = curl_multi_info_read(multi, &left)))
            done += message->data.result == CURLE_OK;
        if (running)
            curl_multi_poll(multi, NULL, 0, 1000, NULL);
    }
}

static void begin(void)
{
    open_now = peak = done = 0;
}

/* Transfers side by side, to two hosts or with a key for each lane. */
static void side_by_side(char **urls, long host, long total, long kept, int lanes)
{
    CURL *easy[COUNT];
    CURLM *multi = curl_multi_init();
    int rounds;
    begin();
    curl_multi_setopt(multi, CURLMOPT_MAX_HOST_CONNECTIONS, host);
    curl_multi_setopt(multi, CURLMOPT_MAX_TOTAL_CONNECTIONS, total);
    if (kept >= 0)
        curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, kept);
    for (int at = 0; at < COUNT; at++) {
        easy[at] = handle(urls[at % 2]);
        if (lanes)
            curl_easy_setopt(easy[at], CURLOPT_LOCALPORTRANGE, 1L);
        if (lanes && at % 4 > 1)
            curl_easy_setopt(easy[at], CURLOPT_INTERFACE, "127.0.0.1");
    }
    for (rounds = 0; rounds < 2; rounds++) {
        for (int at = 0; at < COUNT; at++)
            curl_multi_add_handle(multi, easy[at]);
        perform(multi);
        printf("host %ld, total %ld, kept %ld, %d: done %d, peak %d", host, total, kept, lanes,
               done, peak);
        /* Which ones make room for others depends on the order of responses. */
        printf(!lanes && !total ? ", left %d\n" : "\n", open_now);
        for (int at = 0; at < COUNT; at++)
            curl_multi_remove_handle(multi, easy[at]);
    }
    for (int at = 0; at < COUNT; at++)
        curl_easy_cleanup(easy[at]);
    curl_multi_cleanup(multi);
    printf("  in the end %d\n", open_now);
}

/* One after the other, to several hosts. */
static void in_turn(char **urls, long kept, int is_multi)
{
    static const char *const addresses[] = {"a", "b", "c", "d", "e", "f", "g"};
    struct curl_slist *hosts = NULL;
    CURLM *multi = curl_multi_init();
    CURL *easy = handle(urls[0]);
    char text[100];
    int port = 0;
    begin();
    sscanf(urls[0], "http://127.0.0.1:%d", &port);
    for (int at = 0; at < 7; at++) {
        snprintf(text, sizeof(text), "%s.test:%d:127.0.0.1", addresses[at], port);
        hosts = curl_slist_append(hosts, text);
    }
    curl_easy_setopt(easy, CURLOPT_RESOLVE, hosts);
    if (kept >= 0 && is_multi)
        curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, kept);
    else if (kept >= 0)
        curl_easy_setopt(easy, CURLOPT_MAXCONNECTS, kept);
    printf("%s, kept %ld:", is_multi ? "multi" : "easy", kept);
    for (int at = 0; at < 21; at++) {
        snprintf(text, sizeof(text), "http://%s.test:%d/", addresses[at % 7], port);
        curl_easy_setopt(easy, CURLOPT_URL, text);
        if (is_multi) {
            curl_multi_add_handle(multi, easy);
            perform(multi);
            curl_multi_remove_handle(multi, easy);
        }
        else
            done += curl_easy_perform(easy) == CURLE_OK;
        printf(" %d", open_now);
    }
    printf(", done %d\n", done);
    curl_easy_cleanup(easy);
    curl_multi_cleanup(multi);
    curl_slist_free_all(hosts);
    printf("  in the end %d\n", open_now);
}

int main(int count, char **arguments)
{
    char **urls = arguments + 1;
    if (count < 3)
        return 1;
    curl_global_init(CURL_GLOBAL_ALL);
    side_by_side(urls, 0, 0, -1, 0);
    side_by_side(urls, 2, 0, -1, 0);
    side_by_side(urls, 2, 0, -1, 1);
    side_by_side(urls, 0, 3, -1, 0);
    side_by_side(urls, 2, 3, -1, 0);
    side_by_side(urls, 1, 1, -1, 1);
    side_by_side(urls, 0, 0, 5, 0);
    side_by_side(urls, 4, 0, 3, 0);
    for (long kept = -1; kept < 9; kept += 3) {
        in_turn(urls, kept, 0);
        in_turn(urls, kept, 1);
    }
    curl_global_cleanup();
    return 0;
}
