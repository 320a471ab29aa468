#define _GNU_SOURCE
/* Servers that break the rules, and limits that are reached: results of transfers to servers of
 * this program, each of which sends given bytes. Every case runs in a process of its own. With the
 * argument "poisoning" only that case runs: there libcurl uses bytes behind a response. */

#define CURL_DISABLE_DEPRECATION
#include <arpa/inet.h>
#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

/* What a server does with each connection. */
struct script {
    const char *responses[4]; /* one for each request; NULL: closes */
    size_t lens[4];           /* 0: up to the NUL */
    const char *unasked;      /* sent together with the first response */
    int resets, byte_by_byte, closes_at_once, ignores_body;
};

static const struct script *script;
static int connections, requests;
static char seen[65536];
static size_t seen_len;
static int port;

static void send_all(int fd, const char *bytes, size_t len)
{
    while (len > 0) {
        size_t piece = script->byte_by_byte ? 1 : len;
        ssize_t sent = send(fd, bytes, piece, MSG_NOSIGNAL);
        if (sent <= 0)
            return;
        bytes += sent;
        len -= (size_t)sent;
    }
}

/* Reads a request with its body; 0 at the end of the connection. */
static int read_request(int fd)
{
    static __thread char head[400000];
    size_t len = 0, body = 0;
    char *end = NULL, *field;
    while (!end) {
        ssize_t got = recv(fd, head + len, sizeof(head) - 1 - len, 0);
        if (got <= 0)
            return 0;
        len += (size_t)got;
        head[len] = 0;
        end = strstr(head, "\r\n\r\n");
    }
    if (seen_len + (size_t)(end - head) + 3 < sizeof(seen)) {
        memcpy(seen + seen_len, head, (size_t)(end - head) + 2);
        seen_len += (size_t)(end - head) + 2;
        seen[seen_len++] = '\n';
        seen[seen_len] = 0;
    }
    field = strcasestr(head, "content-length:");
    if (field && field < end && !script->ignores_body)
        body = strtoul(field + 15, NULL, 10);
    body -= body > len - (size_t)(end + 4 - head) ? len - (size_t)(end + 4 - head) : body;
    while (body > 0) {
        char piece[65536];
        ssize_t got = recv(fd, piece, body < sizeof(piece) ? body : sizeof(piece), 0);
        if (got <= 0)
            return 0;
        body -= (size_t)got;
    }
    return 1;
}

static void *serve_one(void *argument)
{
    int fd = (int)(long)argument, at = 0, on = 1;
    setsockopt(fd, IPPROTO_TCP, 1, &on, sizeof(on));
    while (!script->closes_at_once && at < 4 && read_request(fd)) {
        const char *response = script->responses[at];
        requests++;
        if (!response)
            break;
        send_all(fd, response, script->lens[at] ? script->lens[at] : strlen(response));
        if (!at && script->unasked)
            send_all(fd, script->unasked, strlen(script->unasked));
        at++;
        if (at < 4 && !script->responses[at])
            break;
    }
    if (script->resets) {
        struct linger linger = {1, 0};
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
    } else {
        char rest[4096];
        shutdown(fd, SHUT_WR);
        while (recv(fd, rest, sizeof(rest), 0) > 0)
            ;
    }
    close(fd);
    return NULL;
}

static void *serve(void *argument)
{
    int listener = (int)(long)argument, fd;
    while ((fd = accept(listener, NULL, NULL)) >= 0 || errno == EMFILE) {
        pthread_t thread;
        if (fd < 0) { /* a call that began without descriptors */
            sched_yield();
            continue;
        }
        connections++;
        pthread_create(&thread, NULL, serve_one, (void *)(long)fd);
        pthread_detach(thread);
    }
    return NULL;
}

static void start_server(const struct script *given)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    pthread_t thread;
    script = given;
    bind(listener, (struct sockaddr *)&address, len);
    listen(listener, 64);
    getsockname(listener, (struct sockaddr *)&address, &len);
    port = ntohs(address.sin_port);
    pthread_create(&thread, NULL, serve, (void *)(long)listener);
}

static size_t received;
static char body[64];

static size_t write_body(char *bytes, size_t size, size_t count, void *user)
{
    size_t len = size * count;
    (void)user;
    for (size_t at = 0; at < len && received + at < sizeof(body) - 1; at++)
        body[received + at] = bytes[at];
    received += len;
    return len;
}

static CURL *transfer(void)
{
    char url[64];
    CURL *easy = curl_easy_init();
    snprintf(url, sizeof(url), "http://127.0.0.1:%d/", port);
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, write_body);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, 3000L);
    return easy;
}

/* Ports differ from run to run. */
static void print_text(const char *text)
{
    char digits[8];
    const char *found;
    snprintf(digits, sizeof(digits), "%d", port);
    while ((found = strstr(text, digits))) {
        printf("%.*sPORT", (int)(found - text), text);
        text = found + strlen(digits);
    }
    printf("%s", text);
}

static void report(CURL *easy, const char *name)
{
    char error[CURL_ERROR_SIZE] = "";
    long status = 0, redirects = 0;
    int result;
    received = 0;
    memset(body, 0, sizeof(body));
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, error);
    result = curl_easy_perform(easy);
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_getinfo(easy, CURLINFO_REDIRECT_COUNT, &redirects);
    printf("%s: %d, status %ld, %zu bytes '%.20s', %ld redirects, ", name, result, status,
            received,
           body, redirects);
    print_text(error);
    printf("\n");
}

static void report_server(void)
{
    printf("%d connections, %d requests\n", connections, requests);
}

/* A name, the bytes of responses, and whether the method is HEAD. */
#define OK_6 "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello\n"

/* Bytes that were not requested have arrived at the idle connection. */
static void wait_for_input(CURL *easy)
{
    curl_socket_t fd = CURL_SOCKET_BAD;
    curl_easy_getinfo(easy, CURLINFO_ACTIVESOCKET, &fd);
    if (fd != CURL_SOCKET_BAD) {
        struct pollfd input = {fd, POLLIN, 0};
        poll(&input, 1, 10000);
    }
}

static void twice(const char *name, const struct script *given, int is_head)
{
    int status;
    fflush(stdout);
    if (fork() == 0) {
        CURL *easy;
        alarm(20);
        start_server(given);
        easy = transfer();
        curl_easy_setopt(easy, CURLOPT_NOBODY, (long)is_head);
        report(easy, name);
        if (given->unasked)
            wait_for_input(easy);
        report(easy, name);
        report_server();
        curl_easy_cleanup(easy);
        fflush(stdout);
        _exit(0);
    }
    wait(&status);
    if (status)
        printf("%s: signal %d, status %d\n", name, WTERMSIG(status), WEXITSTATUS(status));
}

static void framing(void)
{
    static const struct script scripts[] = {
        {{"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello\n", OK_6, OK_6}},
        {{"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\nbytes"}},
        {{"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 P\r\n\r\n" OK_6, OK_6}},
        {{"HTTP/1.1 200 OK\r\nContent-Length: 60\r\n\r\nhello\n"}},
        {{"HTTP/1.1 200 OK\r\nContent-Le"}},
        {{"HTTP/1.1 2"}},
        {{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nhel"}},
        {{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nhello\n\r\n"}},
        {{"HTTP/1.1 200 OK\r\n\r\nhello\n"}},
        {{NULL}},
        {{NULL}, {0}, NULL, 1},
        {{"HTTP/1.1 200 OK\r\nContent-Length: 60\r\n\r\nhello\n"}, {0}, NULL, 1},
        {{OK_6, OK_6}, {0}, NULL, 0, 1},
        {{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
          "6\r\nhello\n\r\n0\r\nA: b\r\n\r\n", OK_6},
         {0}, NULL, 0, 1},
        {{NULL}, {0}, NULL, 0, 0, 1},
        {{"HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775808\r\n\r\nhello\n"}},
        {{"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n"
          "5\r\nhello\r\n0\r\n\r\n", OK_6}},
        {{"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nContent-Length: 7\r\n\r\nhello\n"}},
    };
    for (size_t at = 0; at < sizeof(scripts) / sizeof(*scripts); at++) {
        char name[32];
        snprintf(name, sizeof(name), "get %zu", at);
        twice(name, &scripts[at], 0);
    }
}

/* Bytes behind the end of a response: they are no response to the next request. */
static void poisoning(void)
{
    static const struct script scripts[] = {
        {{"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello\n", OK_6}},
        {{"HTTP/1.1 204 None\r\nContent-Length: 6\r\n\r\nhello\n", OK_6}},
        {{"HTTP/1.1 304 Not\r\nContent-Length: 6\r\n\r\nhello\n", OK_6}},
        {{"HTTP/1.1 304 Not\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", OK_6}},
        {{OK_6, OK_6}, {0}, "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison"},
        {{"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", OK_6}, {0}, OK_6},
        {{OK_6 "HTTP/1.1 100 Continue\r\n\r\n", OK_6}},
    };
    for (size_t at = 0; at < sizeof(scripts) / sizeof(*scripts); at++) {
        char name[32];
        snprintf(name, sizeof(name), "%s %zu", at ? "get" : "head", at);
        twice(name, &scripts[at], at == 0);
    }
}

/* Heads without an end, and large ones. */
static void floods(void)
{
    static struct script given;
    static char *text;
    const struct {
        const char *name, *start, *piece, *end;
        int count;
    } rows[] = {
        {"interim", "", "HTTP/1.1 103 Early\r\n\r\n", OK_6, 100},
        {"fields", "HTTP/1.1 200 OK\r\n", "A: b\r\n", "Content-Length: 0\r\n\r\n", 5000},
        {"folds", "HTTP/1.1 200 OK\r\nA: b\r\n", " c\r\n", "Content-Length: 0\r\n\r\n", 5000},
        {"value", "HTTP/1.1 200 OK\r\nA: ", "0123456789", "\r\nContent-Length: 0\r\n\r\n", 9000},
        {"long value", "HTTP/1.1 200 OK\r\nA: ", "0123456789", "\r\nContent-Length: 0\r\n\r\n",
                11000},
        {"300 KB", "HTTP/1.1 200 OK\r\nA: ", "0123456789", "\r\nContent-Length: 0\r\n\r\n",
                31000},
        {"reason", "HTTP/1.1 200 ", "0123456789", "\r\nContent-Length: 0\r\n\r\n", 11000},
        {"cookies", "HTTP/1.1 200 OK\r\n", "Set-Cookie: abcdefghij=k\r\n",
                "Content-Length: 0\r\n\r\n", 1000},
        {"chunk extension", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;",
                "0123456789",
         "\r\na\r\n0\r\n\r\n", 20000},
        {"trailers", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", "A: b\r\n",
                "\r\n", 200},
        {"small chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "1\r\na\r\n",
         "0\r\n\r\n", 20000},
    };
    for (size_t at = 0; at < sizeof(rows) / sizeof(*rows); at++) {
        size_t piece = strlen(rows[at].piece);
        text = malloc(strlen(rows[at].start) + piece * (size_t)rows[at].count + 100);
        strcpy(text, rows[at].start);
        char *to = text + strlen(text);
        for (int i = 0; i < rows[at].count; i++, to += piece)
            memcpy(to, rows[at].piece, piece);
        strcpy(to, rows[at].end);
        memset(&given, 0, sizeof(given));
        given.responses[0] = text;
        twice(rows[at].name, &given, 0);
        free(text);
    }
}

static void in_process(const char *name, void (*act)(void))
{
    int status;
    printf("# %s\n", name);
    fflush(stdout);
    if (fork() == 0) {
        alarm(30);
        act();
        fflush(stdout);
        _exit(0);
    }
    wait(&status);
    if (status)
        printf("signal %d, status %d\n", WTERMSIG(status), WEXITSTATUS(status));
}

/* Responses before the body of the request has been sent. */
static void early_responses(void)
{
    static const struct script scripts[] = {
        {{"HTTP/1.1 413 Large\r\nContent-Length: 0\r\n\r\n"}, {0}, NULL, 0, 0, 0, 1},
        {{"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"}, {0}, NULL, 0, 0, 0, 1},
        {{"HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n"}, {0}, NULL, 0, 0, 0, 1},
    };
    for (size_t at = 0; at < 3; at++) {
        char *posted = calloc(1, 3000001);
        CURL *easy;
        memset(posted, 'a', 3000000);
        connections = requests = 0;
        start_server(&scripts[at]);
        easy = transfer();
        curl_easy_setopt(easy, CURLOPT_POSTFIELDS, posted);
        report(easy, "early");
        report_server();
        curl_easy_cleanup(easy);
        free(posted);
    }
}

/* A POST on a connection that the server closes is repeated if nothing was received, else not. */
static void repetitions(void)
{
    static const struct script scripts[] = {
        {{OK_6}},
        {{OK_6, "HTTP/1.1 100 Continue\r\n\r\n"}},
        {{NULL}},
    };
    for (size_t at = 0; at < 3; at++) {
        CURL *easy;
        connections = requests = 0;
        start_server(&scripts[at]);
        easy = transfer();
        for (int i = 0; i < 3; i++) {
            curl_easy_setopt(easy, CURLOPT_POSTFIELDS, "a=b");
            report(easy, "repeated");
        }
        report_server();
        curl_easy_cleanup(easy);
    }
}

/* Redirects with credentials of each kind to another host, port and scheme. */
static void redirects(void)
{
    static char to_host[300], to_itself[300], to_file[] =
        "HTTP/1.1 302 F\r\nContent-Length: 0\r\nLocation: file:///etc/passwd\r\n\r\n";
    static struct script given;
    const char *targets[3];
    static const char *names[] = {"other host", "itself", "file"};
    struct curl_slist *lines = curl_slist_append(NULL, "Authorization: custom");
    lines = curl_slist_append(lines, "Cookie: custom=1");
    start_server(&given);
    snprintf(to_host, sizeof(to_host), "HTTP/1.1 302 F\r\nContent-Length: 0\r\nLocation: "
             "http://user:secret@localhost:%d/next?a#b\r\n\r\n", port);
    snprintf(to_itself, sizeof(to_itself), "HTTP/1.1 302 F\r\nContent-Length: 0\r\nLocation: "
             "/next\r\n\r\n");
    targets[0] = to_host;
    targets[1] = to_itself;
    targets[2] = to_file;
    for (int at = 0; at < 3; at++)
        for (int kind = 0; kind < 6; kind++) {
            CURL *easy = transfer();
            char url[100];
            seen_len = 0;
            given.responses[0] = targets[at];
            given.responses[1] = OK_6;
            given.responses[2] = OK_6;
            curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 1L);
            curl_easy_setopt(easy, CURLOPT_MAXREDIRS, 3L);
            curl_easy_setopt(easy, CURLOPT_AUTOREFERER, 1L);
            if (kind == 0)
                curl_easy_setopt(easy, CURLOPT_USERPWD, "user:password");
            if (kind == 1) {
                curl_easy_setopt(easy, CURLOPT_XOAUTH2_BEARER, "token");
                curl_easy_setopt(easy, CURLOPT_HTTPAUTH, CURLAUTH_BEARER);
            }
            if (kind == 2)
                curl_easy_setopt(easy, CURLOPT_HTTPHEADER, lines);
            if (kind == 3)
                curl_easy_setopt(easy, CURLOPT_COOKIE, "a=b");
            if (kind == 4) {
                curl_easy_setopt(easy, CURLOPT_COOKIELIST, "Set-Cookie: c=d; domain=127.0.0.1");
            }
            if (kind == 5) {
                snprintf(url, sizeof(url), "http://me:mine@127.0.0.1:%d/#f", port);
                curl_easy_setopt(easy, CURLOPT_URL, url);
            }
            report(easy, names[at]);
            print_text(seen);
            curl_easy_cleanup(easy);
        }
    curl_slist_free_all(lines);
}

/* A redirect without an end. */
static void redirect_loop(void)
{
    static struct script given;
    static char to_itself[] = "HTTP/1.1 302 F\r\nContent-Length: 0\r\nLocation: /next\r\n\r\n";
    CURL *easy;
    for (int at = 0; at < 4; at++)
        given.responses[at] = to_itself;
    start_server(&given);
    for (long max = -1; max < 12; max += 3) {
        if (max == -1)
            continue; /* without a limit */
        easy = transfer();
        curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 1L);
        curl_easy_setopt(easy, CURLOPT_MAXREDIRS, max);
        report(easy, "loop");
        curl_easy_cleanup(easy);
    }
}

/* Cookies that a server may not set. */
static void cookies(void)
{
    static const char *values[] = {
        "a=1; domain=com", "a=1; domain=.127.0.0.1", "a=1; domain=0.0.1", "a=1; domain=localhost",
        "__Host-a=1", "__Host-a=1; path=/; secure", "__Secure-a=1", "a=1; secure", "=novalue",
                "noname",
        "a=\x01", "a=1; path=/deep", "a=1; path=", "a=1; domain=127.0.0.1.", "a=1; max-age=-1",
        "a=1; max-age=99999999999999999999", "a=1; expires=Thu, 01 Jan 1970 00:00:01 GMT",
                "a\tb=1", "a=b\tc",
    };
    static struct script given;
    CURL *easy;
    start_server(&given);
    for (size_t at = 0; at < sizeof(values) / sizeof(*values); at++) {
        static char response[400];
        struct curl_slist *list = NULL;
        snprintf(response, sizeof(response),
                 "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nSet-Cookie: %s\r\n\r\n", values[at]);
        given.responses[0] = given.responses[1] = response;
        easy = transfer();
        curl_easy_setopt(easy, CURLOPT_COOKIEFILE, "");
        curl_easy_perform(easy);
        curl_easy_getinfo(easy, CURLINFO_COOKIELIST, &list);
        printf("%zu: %s\n", at, list ? list->data : "none");
        curl_slist_free_all(list);
        curl_easy_cleanup(easy);
    }
}

/* No descriptors. */
static void no_descriptors(void)
{
    static const struct script given = {{OK_6, OK_6}};
    struct rlimit limit;
    CURL *easy, *other;
    int used, highest = 0;
    start_server(&given);
    easy = transfer();
    other = transfer();
    report(easy, "before");
    getrlimit(RLIMIT_NOFILE, &limit);
    used = dup(0);
    highest = used;
    close(used);
    limit.rlim_cur = (rlim_t)highest;
    setrlimit(RLIMIT_NOFILE, &limit);
    printf("socket: %d\n", socket(AF_INET, SOCK_STREAM, 0));
    {
        char error[CURL_ERROR_SIZE] = "";
        curl_easy_setopt(other, CURLOPT_ERRORBUFFER, error);
        printf("without: %d\n", curl_easy_perform(other));
    }
    printf("multi: %d\n", curl_multi_init() != NULL);
    limit.rlim_cur = 256;
    setrlimit(RLIMIT_NOFILE, &limit);
    report(other, "after");
    curl_easy_cleanup(easy);
    curl_easy_cleanup(other);
}

/* Texts that are no hosts, and addresses in other forms. */
static void names(void)
{
    static const char *urls[] = {
        "http://[::1/", "http://[::1]x/", "http://a b/", "http://%00/", "http://a%2fb/",
        "http://a:65536/", "http://:80/", "http:///", "http://", "http://user@/",
        "http://[fe80::1%25nothing]/", "http://[v1.a]/", "http://a\\@b/", "http://127.0.0.1:0/",
        "http://0x7f.1:1/", "http://2130706433:1/", "http://127.1:1/", "http://0177.0.0.1:1/",
    };
    for (size_t at = 0; at < sizeof(urls) / sizeof(*urls); at++) {
        char error[CURL_ERROR_SIZE] = "";
        CURL *easy = transfer();
        curl_easy_setopt(easy, CURLOPT_URL, urls[at]);
        curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, error);
        printf("%s: %d\n", urls[at], curl_easy_perform(easy));
        curl_easy_cleanup(easy);
    }
}

/* Content codings: broken, stacked, of unknown names. */
static void codings(void)
{
    static const char *heads[] = {"gzip", "deflate", "br", "zstd",
                                  "gzip, gzip, gzip, gzip, gzip, gzip", "x-gzip",
                                  "unknown", "identity", "gzip, identity", "none", ""};
    static const unsigned char gzip[] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 0xcb, 0x48,
                                         0xcd, 0xc9, 0xc9, 0xe7, 2, 0, 0x20, 0x30, 0x3a, 0x36,
                                         6, 0, 0, 0};
    static struct script given;
    start_server(&given);
    for (size_t at = 0; at < sizeof(heads) / sizeof(*heads); at++)
        for (int kind = 0; kind < 4; kind++) {
            static char response[400];
            CURL *easy = transfer();
            char name[64];
            /* whole, cut, with bytes behind it, not coded at all */
            size_t len = kind == 1 ? sizeof(gzip) - 9 : sizeof(gzip);
            int head = snprintf(response, sizeof(response),
                                "HTTP/1.1 200 OK\r\nContent-Encoding: %s\r\n"
                                "Content-Length: %zu\r\n\r\n", heads[at],
                                kind == 2 ? len + 4 : len);
            memcpy(response + head, gzip, len);
            memcpy(response + (size_t)head + len, "junk", 4);
            if (kind == 3)
                memset(response + head, 'a', len);
            given.responses[0] = given.responses[1] = response;
            given.lens[0] = given.lens[1] = (size_t)head + len + (kind == 2 ? 4 : 0);
            curl_easy_setopt(easy, CURLOPT_ACCEPT_ENCODING, "");
            snprintf(name, sizeof(name), "'%s' %d", heads[at], kind);
            report(easy, name);
            curl_easy_cleanup(easy);
        }
}

int main(int count, char **arguments)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    curl_global_init(CURL_GLOBAL_ALL);
    if (count > 1 && !strcmp(arguments[1], "poisoning")) {
        poisoning();
        return 0;
    }
    in_process("framing", framing);
    in_process("floods", floods);
    in_process("early_responses", early_responses);
    in_process("repetitions", repetitions);
    in_process("redirects", redirects);
    in_process("redirect_loop", redirect_loop);
    in_process("cookies", cookies);
    in_process("no_descriptors", no_descriptors);
    in_process("names", names);
    in_process("codings", codings);
    return 0;
}
