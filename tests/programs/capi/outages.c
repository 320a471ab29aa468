/* Networks, disks and names that fail: responses that arrive byte by byte, that end at each of
 * their bytes, addresses that refuse, a full disk, signals, names without an answer. The server is
 * this program, in the same thread: each byte has arrived before the client runs. */
#define _GNU_SOURCE
#define CURL_DISABLE_DEPRECATION
#include <arpa/inet.h>
#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static int port;

/* A socket with an address that it takes from others; -1 if the port is taken. It refuses
 * connections until it listens. */
static int bind_at(const char *host, int wanted)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)wanted)};
    socklen_t len = sizeof(address);
    int bound = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    inet_pton(AF_INET, host, &address.sin_addr);
    if (bind(bound, (struct sockaddr *)&address, len)) {
        close(bound);
        return -1;
    }
    getsockname(bound, (struct sockaddr *)&address, &len);
    port = ntohs(address.sin_port);
    return bound;
}

static int listen_at(const char *host)
{
    int listener = bind_at(host, 0);
    if (listen(listener, 64))
        abort();
    return listener;
}

/* What the callbacks have got: the calls, too, as letters. */
static char calls[4096];
static size_t calls_len, body_len;

static void note(char kind, size_t len)
{
    calls_len += (size_t)snprintf(calls + calls_len, sizeof(calls) - calls_len, "%c%zu", kind, len);
    if (calls_len > sizeof(calls) - 32)
        calls_len = 0;
}

static size_t on_body(char *bytes, size_t size, size_t count, void *user)
{
    (void)bytes;
    (void)user;
    note('b', size * count);
    body_len += size * count;
    return size * count;
}

static size_t on_header(char *bytes, size_t size, size_t count, void *user)
{
    (void)bytes;
    (void)user;
    note('h', size * count);
    return size * count;
}

static char error[CURL_ERROR_SIZE];

static CURL *transfer(const char *path)
{
    char url[100];
    CURL *easy = curl_easy_init();
    snprintf(url, sizeof(url), "http://127.0.0.1:%d%s", port, path);
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, error);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, 10000L);
    calls_len = body_len = 0;
    memset(calls, 0, sizeof(calls));
    memset(error, 0, sizeof(error));
    return easy;
}

/* Ports and times differ from run to run. */
static void print_text(const char *text)
{
    for (; *text; text++)
        if (*text < '0' || *text > '9')
            putchar(*text);
        else if (text[1] < '0' || text[1] > '9')
            putchar('N');
}

static void report(CURL *easy, const char *name, int code)
{
    long status = 0;
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    printf("%s: %d, status %ld, %zu bytes, ", name, code, status, body_len);
    print_text(error);
    printf("\n");
}

/* One transfer in lock step with its server. */
static CURLM *multi;
static CURL *running;
static int result, has_ended;

static void turn(void)
{
    CURLMsg *message;
    int left;
    curl_multi_perform(multi, &left);
    while ((message = curl_multi_info_read(multi, &left))) {
        result = message->data.result;
        has_ended = 1;
    }
}

/* Lets the client connect and send a whole request; returns the accepted connection. */
static int accept_request(int listener)
{
    static char request[65536];
    size_t len = 0;
    int fd = -1;
    has_ended = 0;
    while (!has_ended) {
        turn();
        if (fd < 0)
            fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            ssize_t got = recv(fd, request + len, sizeof(request) - 1 - len, 0);
            len += got > 0 ? (size_t)got : 0;
            request[len] = 0;
            if (strstr(request, "\r\n\r\n"))
                break;
        }
        curl_multi_poll(multi, NULL, 0, 1, NULL);
    }
    return fd;
}

static void begin(int is_head)
{
    multi = curl_multi_init();
    running = transfer("/");
    curl_easy_setopt(running, CURLOPT_NOBODY, (long)is_head);
    curl_easy_setopt(running, CURLOPT_ACCEPT_ENCODING, "gzip");
    curl_multi_add_handle(multi, running);
}

static void end(void)
{
    curl_multi_remove_handle(multi, running);
    curl_easy_cleanup(running);
    curl_multi_cleanup(multi);
}

static const struct {
    const char *name, *bytes;
    size_t len;
    int is_head;
} responses[] = {
    {"length", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nA: b\r\n\r\nabc", 0, 0},
    {"chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nab\r\n1\r\nc\r\n0\r\n"
               "T: u\r\n\r\n", 0, 0},
    {"close", "HTTP/1.0 200 OK\r\n\r\nabc", 0, 0},
    {"interim", "HTTP/1.1 103 Early\r\nL: m\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na",
     0, 0},
    {"head", "HTTP/1.1 200 OK\r\nContent-Length: 30\r\n\r\n", 0, 1},
    {"none", "HTTP/1.1 204 No\r\n\r\n", 0, 0},
    {"folded", "HTTP/1.1 200 OK\r\nA: b\r\n c\r\nContent-Length: 0\r\n\r\n", 0, 0},
    {"line feeds", "HTTP/1.1 200 OK\nContent-Length: 2\n\nab", 0, 0},
    {"gzip", "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 26\r\n\r\n"
             "\x1f\x8b\x08\0\0\0\0\0\0\x03\xcb\x48\xcd\xc9\xc9\xe7\x02\0\x20\x30\x3a\x36\x06\0\0\0",
     65 + 26, 0},
};
#define RESPONSES (sizeof(responses) / sizeof(*responses))

static size_t len_of(size_t at)
{
    return responses[at].len ? responses[at].len : strlen(responses[at].bytes);
}

/* Each byte in a read of its own. */
static void byte_by_byte(void)
{
    int listener = listen_at("127.0.0.1"), fd;
    fcntl(listener, F_SETFL, O_NONBLOCK);
    for (size_t at = 0; at < RESPONSES; at++) {
        begin(responses[at].is_head);
        fd = accept_request(listener);
        for (size_t i = 0; i < len_of(at) && !has_ended; i++) {
            send(fd, responses[at].bytes + i, 1, MSG_NOSIGNAL);
            turn();
        }
        shutdown(fd, SHUT_WR);
        for (int i = 0; i < 1000 && !has_ended; i++) {
            curl_multi_poll(multi, NULL, 0, 10, NULL);
            turn();
        }
        report(running, responses[at].name, result);
        printf("%s\n", calls);
        close(fd);
        end();
    }
}

/* The connection ends behind each byte, in order or by a reset. */
static void ends(int resets)
{
    int listener = listen_at("127.0.0.1"), fd;
    fcntl(listener, F_SETFL, O_NONBLOCK);
    for (size_t at = 0; at < RESPONSES; at++)
        for (size_t len = 0; len <= len_of(at); len++) {
            char name[64];
            struct linger linger = {1, 0};
            if (!resets && !strcmp(responses[at].name, "chunks") && len == len_of(at) - 1)
                continue; /* libcurl needs no last line feed */
            begin(responses[at].is_head);
            fd = accept_request(listener);
            send(fd, responses[at].bytes, len, MSG_NOSIGNAL);
            turn();
            if (resets)
                setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
            close(fd);
            for (int i = 0; i < 1000 && !has_ended; i++) {
                curl_multi_poll(multi, NULL, 0, 10, NULL);
                turn();
            }
            snprintf(name, sizeof(name), "%s %zu", responses[at].name, len);
            if (resets) /* lines of a head that was reset do not count here, unlike in libcurl */
                printf("%s: %d, %zu bytes, %s\n", name, has_ended ? result : -1, body_len, error);
            else
                report(running, name, has_ended ? result : -1);
            end();
        }
}

static void orderly_ends(void)
{
    ends(0);
}

static void resets(void)
{
    ends(1);
}

/* Peers that cannot be reached. */
static void connections(void)
{
    int refusing = bind_at("127.0.0.1", 0), refused = port, sockets[3] = {-1, -1, -1};
    long os_error = 0;
    struct curl_slist *names = NULL;
    char text[100];
    CURL *easy;
    easy = transfer("/");
    report(easy, "refused", curl_easy_perform(easy));
    curl_easy_getinfo(easy, CURLINFO_OS_ERRNO, &os_error);
    printf("error %ld of the system\n", os_error);
    curl_easy_cleanup(easy);

    /* Several addresses; the last one listens, or none. */
    while (sockets[2] < 0) {
        close(sockets[0]);
        close(sockets[1]);
        sockets[0] = bind_at("127.0.0.1", 0);
        sockets[1] = bind_at("127.0.0.2", port);
        sockets[2] = sockets[1] < 0 ? -1 : bind_at("127.0.0.3", port);
    }
    if (listen(sockets[2], 64))
        abort();
    for (int at = 0; at < 2; at++) {
        easy = transfer("/");
        snprintf(text, sizeof(text), "several.test:%d:127.0.0.1,127.0.0.2%s", port,
                 at ? "" : ",127.0.0.3");
        names = curl_slist_append(NULL, text);
        curl_easy_setopt(easy, CURLOPT_RESOLVE, names);
        snprintf(text, sizeof(text), "http://several.test:%d/", port);
        curl_easy_setopt(easy, CURLOPT_URL, text);
        curl_easy_setopt(easy, CURLOPT_CONNECT_ONLY, 1L);
        report(easy, "several addresses", curl_easy_perform(easy));
        curl_easy_cleanup(easy);
        curl_slist_free_all(names);
    }
    for (int at = 0; at < 3; at++)
        close(sockets[at]);

    /* Sockets of files. */
    for (int at = 0; at < 3; at++) {
        static const char *paths[] = {"/nothing/here", "/dev/null", "/"};
        easy = transfer("/");
        curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, paths[at]);
        report(easy, paths[at], curl_easy_perform(easy));
        curl_easy_cleanup(easy);
    }
    port = refused;
    easy = transfer("/");
    curl_easy_setopt(easy, CURLOPT_INTERFACE, "no-such-device");
    report(easy, "interface", curl_easy_perform(easy));
    curl_easy_setopt(easy, CURLOPT_INTERFACE, NULL);
    curl_easy_setopt(easy, CURLOPT_PROXY, "http://127.0.0.1:1");
    report(easy, "proxy", curl_easy_perform(easy));
    curl_easy_setopt(easy, CURLOPT_PROXY, "socks5://127.0.0.1:1");
    report(easy, "SOCKS proxy", curl_easy_perform(easy));
    curl_easy_cleanup(easy);
    close(refusing);
}

/* A server in a thread that sends a large body, or reads as slowly as it can. */
static void *send_large(void *argument)
{
    int fd, listener = (int)(long)argument;
    static char piece[65536];
    while ((fd = accept(listener, NULL, NULL)) >= 0) {
        ssize_t got = recv(fd, piece, sizeof(piece), 0);
        const char *head = "HTTP/1.1 200 OK\r\nContent-Length: 4194304\r\n\r\n";
        if (got > 0)
            send(fd, head, strlen(head), MSG_NOSIGNAL);
        memset(piece, 'x', sizeof(piece));
        for (int at = 0; at < 64; at++)
            if (send(fd, piece, sizeof(piece), MSG_NOSIGNAL) < 0)
                break;
        close(fd);
    }
    return NULL;
}

static void start_large(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, send_large, (void *)(long)listen_at("127.0.0.1"));
    pthread_detach(thread);
}

/* A full disk, and other files that cannot be written or read. */
static void disks(void)
{
    CURL *easy;
    FILE *full = fopen("/dev/full", "w");
    static const char *urls[] = {"file:///dev/full", "file:///nothing/here", "file:///"};
    start_large();
    for (int is_buffered = 0; is_buffered < 2; is_buffered++) {
        easy = transfer("/");
        setvbuf(full, NULL, is_buffered ? _IOFBF : _IONBF, 4096);
        curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, NULL);
        curl_easy_setopt(easy, CURLOPT_WRITEDATA, full);
        report(easy, "body", curl_easy_perform(easy));
        curl_easy_cleanup(easy);
    }
    easy = transfer("/");
    setvbuf(full, NULL, _IONBF, 0);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, NULL);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, full);
    report(easy, "head", curl_easy_perform(easy));
    curl_easy_cleanup(easy);
    for (size_t at = 0; at < sizeof(urls) / sizeof(*urls); at++) {
        FILE *source = fopen("/etc/passwd", "r");
        easy = transfer("/");
        curl_easy_setopt(easy, CURLOPT_URL, urls[at]);
        curl_easy_setopt(easy, CURLOPT_UPLOAD, 1L);
        curl_easy_setopt(easy, CURLOPT_READDATA, source);
        report(easy, urls[at], curl_easy_perform(easy));
        curl_easy_setopt(easy, CURLOPT_UPLOAD, 0L);
        if (at > 0)
            report(easy, urls[at], curl_easy_perform(easy));
        curl_easy_cleanup(easy);
        fclose(source);
    }
    easy = transfer("/");
    curl_easy_setopt(easy, CURLOPT_COOKIELIST, "Set-Cookie: a=b; domain=127.0.0.1");
    curl_easy_setopt(easy, CURLOPT_COOKIEJAR, "/nothing/jar");
    curl_easy_setopt(easy, CURLOPT_HSTS, "/nothing/hsts");
    curl_easy_setopt(easy, CURLOPT_COOKIEFILE, "/nothing/file");
    curl_easy_setopt(easy, CURLOPT_NETRC, (long)CURL_NETRC_OPTIONAL);
    curl_easy_setopt(easy, CURLOPT_NETRC_FILE, "/nothing/netrc");
    report(easy, "files that are missing", curl_easy_perform(easy));
    curl_easy_setopt(easy, CURLOPT_COOKIELIST, "FLUSH");
    curl_easy_cleanup(easy);
    fclose(full);
}

/* A server that resets connections in the midst of an upload: no SIGPIPE. */
static void *reset_uploads(void *argument)
{
    int fd, listener = (int)(long)argument;
    while ((fd = accept(listener, NULL, NULL)) >= 0) {
        struct linger linger = {1, 0};
        char piece[4096];
        ssize_t got = recv(fd, piece, sizeof(piece), 0);
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
        close(got < 0 ? -1 : fd);
    }
    return NULL;
}

static size_t endless(char *buffer, size_t size, size_t count, void *user)
{
    (void)user;
    memset(buffer, 'u', size * count);
    return size * count;
}

static volatile sig_atomic_t interrupts;

static void on_alarm(int number)
{
    (void)number;
    interrupts++;
}

static void signals(void)
{
    struct itimerval often = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
    struct sigaction action = {.sa_handler = on_alarm}, seen;
    pthread_t thread;
    sigset_t alarms;
    CURL *easy;
    int code;
    sigemptyset(&alarms);
    sigaddset(&alarms, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &alarms, NULL); /* for the servers */
    pthread_create(&thread, NULL, reset_uploads, (void *)(long)listen_at("127.0.0.1"));
    for (int at = 0; at < 5; at++) {
        easy = transfer("/");
        curl_easy_setopt(easy, CURLOPT_UPLOAD, 1L);
        curl_easy_setopt(easy, CURLOPT_READFUNCTION, endless);
        code = curl_easy_perform(easy);
        /* The reset arrives before a send, or before a receive. */
        code = code == CURLE_SEND_ERROR || code == CURLE_RECV_ERROR;
        printf("upload: %s\n", code ? "ended" : "?");
        curl_easy_cleanup(easy);
    }
    sigaction(SIGPIPE, NULL, &seen);
    printf("SIGPIPE: %d\n", seen.sa_handler == SIG_DFL);
    start_large();
    pthread_sigmask(SIG_UNBLOCK, &alarms, NULL);
    sigaction(SIGALRM, &action, NULL); /* without SA_RESTART */
    setitimer(ITIMER_REAL, &often, NULL);
    for (int at = 0; at < 20; at++) {
        easy = transfer("/");
        code = curl_easy_perform(easy);
        if (code || at == 19)
            report(easy, "interrupted", code);
        curl_easy_cleanup(easy);
    }
    setitimer(ITIMER_REAL, &never, NULL);
    printf("%s\n", interrupts ? "signals have come" : "no signals");
}

/* Names that cannot exist, entries of addresses, addresses of the other version of IP. */
static void names(void)
{
    static char label[80], whole[400], url[500];
    static const char *entries[] = {
        "x.test:80", "x.test:80:", "x.test:80:nonsense", "x.test:nonsense:127.0.0.1",
        "x.test:99999:127.0.0.1", "x.test", ":80:127.0.0.1", "x.test:80:[::1",
        "x.test:80:127.0.0.1,",
        "x.test:80:,127.0.0.1", "-x.test:80", "*:80:127.0.0.1", "",
    };
    const char *hosts[] = {label, whole, "a..b"};
    CURL *easy;
    memset(label, 'a', 64);
    for (int at = 0; at < 60; at++)
        strcat(whole, "abcde.");
    for (size_t at = 0; at < 3; at++) {
        easy = transfer("/");
        snprintf(url, sizeof(url), "http://%s:1/", hosts[at]);
        curl_easy_setopt(easy, CURLOPT_URL, url);
        report(easy, hosts[at], curl_easy_perform(easy));
        curl_easy_cleanup(easy);
    }
    for (size_t at = 0; at < sizeof(entries) / sizeof(*entries); at++) {
        struct curl_slist *list = curl_slist_append(NULL, entries[at]);
        easy = transfer("/");
        curl_easy_setopt(easy, CURLOPT_URL, "http://127.0.0.1:1/");
        curl_easy_setopt(easy, CURLOPT_RESOLVE, list);
        report(easy, entries[at], curl_easy_perform(easy));
        curl_easy_cleanup(easy);
        curl_slist_free_all(list);
    }
    for (long version = 1; version < 3; version++) {
        easy = transfer("/");
        snprintf(url, sizeof(url), "http://%s:1/", version == 1 ? "[::1]" : "127.0.0.1");
        curl_easy_setopt(easy, CURLOPT_URL, url);
        curl_easy_setopt(easy, CURLOPT_IPRESOLVE, version);
        report(easy, "other version", curl_easy_perform(easy));
        curl_easy_cleanup(easy);
    }
}

/* Limits of time in each phase, and which of two holds. */
static void timeouts(void)
{
    static const long limits[][2] = {{200, 0}, {0, 200}, {200, 300}, {300, 200}}; /* connect, all */
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int silent = listen_at("127.0.0.1"), silent_port = port, full = listen_at("127.0.0.1");
    listen(full, 0);
    address.sin_port = htons((uint16_t)port);
    for (int at = 0; at < 3; at++) { /* the queue is full: no further connection is established */
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        connect(fd, (struct sockaddr *)&address, sizeof(address));
    }
    for (int is_full = 0, full_port = port; is_full < 2; is_full++)
        for (size_t at = 0; at < sizeof(limits) / sizeof(*limits); at++) {
            CURL *easy;
            if (!is_full && !limits[at][1])
                continue;
            port = is_full ? full_port : silent_port;
            easy = transfer("/");
            curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, limits[at][0]);
            curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, limits[at][1]);
            report(easy, is_full ? "full queue" : "silent", curl_easy_perform(easy));
            curl_easy_cleanup(easy);
        }
    close(silent);
    close(full);
}

static void run_case(const char *name, void (*body)(void))
{
    int status;
    printf("# %s\n", name);
    fflush(stdout);
    if (fork() == 0) {
        alarm(50);
        body();
        fflush(stdout);
        _exit(0);
    }
    wait(&status);
    if (status)
        printf("signal %d, status %d\n", WTERMSIG(status), WEXITSTATUS(status));
}

int main(int count, char **arguments)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    curl_global_init(CURL_GLOBAL_ALL);
#define CASE(name) if (count < 2 || !strcmp(arguments[1], #name)) run_case(#name, name)
    CASE(byte_by_byte);
    CASE(orderly_ends);
    CASE(resets);
    CASE(connections);
    CASE(timeouts);
    CASE(disks);
    CASE(signals);
    CASE(names);
    return 0;
}
