/* Which options keep a connection from being used again: two transfers of a handle, of which the
 * second has another value of one option. Printed is how many connections the servers accepted. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <curl/curl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static atomic_int connections;

static void *respond(void *argument)
{
    int fd = (int)(long)argument;
    char request[65536];
    size_t len = 0;
    ssize_t got;
    while ((got = recv(fd, request + len, sizeof(request) - 1 - len, 0)) > 0) {
        const char *response = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
        len += (size_t)got;
        request[len] = 0;
        if (!strstr(request, "\r\n\r\n"))
            continue;
        len = 0;
        send(fd, response, strlen(response), MSG_NOSIGNAL);
    }
    close(fd);
    return NULL;
}

static void *serve(void *argument)
{
    int fd;
    while ((fd = accept((int)(long)argument, NULL, NULL)) >= 0) {
        pthread_t thread;
        connections++;
        pthread_create(&thread, NULL, respond, (void *)(long)fd);
        pthread_detach(thread);
    }
    return NULL;
}

/* Listens on all addresses of loopback; returns the port. */
static int start_server(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t len = sizeof(address);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    pthread_t thread;
    bind(listener, (struct sockaddr *)&address, len);
    listen(listener, 64);
    getsockname(listener, (struct sockaddr *)&address, &len);
    pthread_create(&thread, NULL, serve, (void *)(long)listener);
    return ntohs(address.sin_port);
}

enum kind { END, TEXT, NUMBER, LIST };

struct setting {
    CURLoption option;
    enum kind kind;
    const void *value;
    long number;
};

static int port, other_port;

static void apply(CURL *easy, const struct setting *setting, struct curl_slist **kept)
{
    char text[200];
    const char *format = setting->value;
    if (setting->kind == NUMBER)
        curl_easy_setopt(easy, setting->option, setting->number);
    if (setting->kind == NUMBER || setting->kind == END)
        return;
    if (format) { /* the ports of the servers */
        const char *found = strstr(format, "PORT");
        if (found && found > format && found[-1] == '2')
            snprintf(text, sizeof(text), "%.*s%d%s", (int)(found - format - 1), format, other_port,
                     found + 4);
        else if (found)
            snprintf(text, sizeof(text), "%.*s%d%s", (int)(found - format), format, port,
                     found + 4);
        else
            snprintf(text, sizeof(text), "%s", format);
    }
    if (setting->kind == LIST)
        curl_easy_setopt(easy, setting->option, *kept = curl_slist_append(NULL, text));
    else
        curl_easy_setopt(easy, setting->option, format ? text : NULL);
}

#define URL1 {CURLOPT_URL, TEXT, "http://127.0.0.1:PORT/", 0}

int main(void)
{
    static const struct {
        const char *name;
        struct setting first[3], second[3];
    } rows[] = {
        {"nothing", {URL1}, {URL1}},
        {"path", {URL1}, {{CURLOPT_URL, TEXT, "http://127.0.0.1:PORT/x?y#z", 0}}},
        {"address", {URL1}, {{CURLOPT_URL, TEXT, "http://127.0.0.2:PORT/", 0}}},
        {"port", {URL1}, {{CURLOPT_URL, TEXT, "http://127.0.0.1:2PORT/", 0}}},
        {"name", {URL1}, {{CURLOPT_URL, TEXT, "http://localhost:PORT/", 0}}},
        {"case of the name", {{CURLOPT_URL, TEXT, "http://localhost:PORT/", 0}},
         {{CURLOPT_URL, TEXT, "http://LOCALHOST:PORT/", 0}}},
        {"user", {URL1}, {{CURLOPT_USERPWD, TEXT, "a:b", 0}}},
        {"other user", {URL1, {CURLOPT_USERPWD, TEXT, "a:b", 0}},
         {{CURLOPT_USERPWD, TEXT, "c:d", 0}}},
        {"user of the URL", {URL1}, {{CURLOPT_URL, TEXT, "http://a:b@127.0.0.1:PORT/", 0}}},
        {"fresh", {URL1}, {{CURLOPT_FRESH_CONNECT, NUMBER, NULL, 1}}},
        {"forbid", {URL1, {CURLOPT_FORBID_REUSE, NUMBER, NULL, 1}}, {URL1}},
        {"HTTP/1.0", {URL1}, {{CURLOPT_HTTP_VERSION, NUMBER, NULL, CURL_HTTP_VERSION_1_0}}},
        {"interface", {URL1}, {{CURLOPT_INTERFACE, TEXT, "127.0.0.1", 0}}},
        {"other interface", {URL1, {CURLOPT_INTERFACE, TEXT, "127.0.0.1", 0}},
         {{CURLOPT_INTERFACE, TEXT, "127.0.0.3", 0}}},
        {"device", {URL1}, {{CURLOPT_INTERFACE, TEXT, "if!lo", 0}}},
        {"no interface", {URL1, {CURLOPT_INTERFACE, TEXT, "127.0.0.1", 0}},
         {{CURLOPT_INTERFACE, TEXT, NULL, 0}}},
        {"version of IP", {URL1}, {{CURLOPT_IPRESOLVE, NUMBER, NULL, CURL_IPRESOLVE_V4}}},
        {"connect to", {URL1}, {{CURLOPT_CONNECT_TO, LIST, "::127.0.0.1:2PORT", 0}}},
        {"connect to itself", {URL1}, {{CURLOPT_CONNECT_TO, LIST, "::127.0.0.1:PORT", 0}}},
        {"resolve", {{CURLOPT_URL, TEXT, "http://localhost:PORT/", 0}},
         {{CURLOPT_RESOLVE, LIST, "localhost:PORT:127.0.0.4", 0}}},
        {"proxy", {URL1}, {{CURLOPT_PROXY, TEXT, "http://127.0.0.1:2PORT", 0}}},
        {"same proxy", {{CURLOPT_URL, TEXT, "http://a.test/", 0},
                        {CURLOPT_PROXY, TEXT, "http://127.0.0.1:2PORT", 0}},
         {{CURLOPT_URL, TEXT, "http://b.test/", 0}}},
        {"user of the proxy", {URL1, {CURLOPT_PROXY, TEXT, "http://127.0.0.1:2PORT", 0}},
         {{CURLOPT_PROXYUSERPWD, TEXT, "a:b", 0}}},
        {"no proxy", {URL1, {CURLOPT_PROXY, TEXT, "http://127.0.0.1:2PORT", 0}},
         {{CURLOPT_NOPROXY, TEXT, "*", 0}}},
        {"NTLM", {URL1}, {{CURLOPT_USERPWD, TEXT, "a:b", 0},
                          {CURLOPT_HTTPAUTH, NUMBER, NULL, CURLAUTH_NTLM}}},
        {"host field", {URL1}, {{CURLOPT_HTTPHEADER, LIST, "Host: other", 0}}},
        {"keep alive", {URL1}, {{CURLOPT_TCP_KEEPALIVE, NUMBER, NULL, 1}}},
        {"no delay", {URL1}, {{CURLOPT_TCP_NODELAY, NUMBER, NULL, 0}}},
        {"age", {URL1}, {{CURLOPT_MAXAGE_CONN, NUMBER, NULL, 1}}},
        {"method", {URL1}, {{CURLOPT_CUSTOMREQUEST, TEXT, "DELETE", 0}}},
        {"head", {URL1}, {{CURLOPT_NOBODY, NUMBER, NULL, 1}}},
        {"connection: close", {URL1, {CURLOPT_HTTPHEADER, LIST, "Connection: close", 0}}, {URL1}},
    };
    setvbuf(stdout, NULL, _IOLBF, 0);
    curl_global_init(CURL_GLOBAL_ALL);
    port = start_server();
    other_port = start_server();
    for (size_t at = 0; at < sizeof(rows) / sizeof(*rows); at++) {
        CURL *easy = curl_easy_init();
        struct curl_slist *lists[6] = {NULL};
        int codes[2];
        connections = 0;
        curl_easy_setopt(easy, CURLOPT_TIMEOUT, 10L);
        for (int i = 0; i < 3; i++)
            apply(easy, &rows[at].first[i], &lists[i]);
        codes[0] = curl_easy_perform(easy);
        for (int i = 0; i < 3; i++)
            apply(easy, &rows[at].second[i], &lists[3 + i]);
        codes[1] = curl_easy_perform(easy);
        printf("%s: %d %d, %d connections\n", rows[at].name, codes[0], codes[1], connections);
        curl_easy_cleanup(easy);
        for (int i = 0; i < 6; i++)
            curl_slist_free_all(lists[i]);
    }
    return 0;
}
