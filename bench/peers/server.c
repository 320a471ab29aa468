/* The server of the client benchmarks: every response is sent in one send().
 *
 *   server [--workers N] [--hold N]
 *
 * Listens on a free port of every address of this machine and prints it. One thread and one epoll
 * for each worker. Targets:
 *
 *   /bytes/N   N bytes, head and body in one call
 *   /idle      nothing, ever
 *
 * With --hold N, the first response of each connection is sent when N connections have sent a
 * request, so that a client with N transfers has opened exactly N connections (one worker only).
 * At SIGTERM it prints its counts, and how many responses did not fit in one call, and ends.
 *
 * A request has to arrive whole; otherwise the connection is closed.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    DESCRIPTORS_MAX = 65536,
    EVENTS_MAX = 1024,
    REQUEST_SIZE_MAX = 16 * 1024,
    ANSWERS_MAX = 16,
    BACKLOG = 16384,                /* the kernel makes less of it: net.core.somaxconn */
    SEND_BUFFER_SIZE = 1024 * 1024, /* likewise: net.core.wmem_max, twice; 104 KB fit well */
};

/* Head and body. */
struct answer {
    size_t body_size;
    size_t size;
    char *bytes;
};

/* By descriptor. */
struct connection {
    bool has_asked;
    const struct answer *held; /* until enough connections have sent a request */
    const struct answer *rest; /* that did not fit in one call */
    size_t sent;               /* of `rest` */
};

static struct connection connections[DESCRIPTORS_MAX];
static struct answer answers[ANSWERS_MAX];
static int answer_count;
static int hold, asked;
static unsigned long requests, partial;
static volatile sig_atomic_t stopped;

static void fail(const char *what) {
    fprintf(stderr, "server: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void *allocated(size_t size) {
    void *memory = malloc(size);
    if (memory == NULL) fail("malloc");
    return memory;
}

static const struct answer *answer_of(size_t body_size) {
    for (int i = 0; i < answer_count; i++)
        if (answers[i].body_size == body_size) return &answers[i];
    if (answer_count == ANSWERS_MAX) return NULL;
    struct answer *answer = &answers[answer_count++];
    answer->body_size = body_size;
    answer->bytes = allocated(body_size + 256);
    int head = sprintf(answer->bytes,
                       "HTTP/1.1 200 OK\r\nServer: bench\r\n"
                       "Date: Sat, 21 Nov 2026 12:00:00 GMT\r\n"
                       "Content-Type: application/octet-stream\r\nContent-Length: %zu\r\n\r\n",
                       body_size);
    memset(answer->bytes + head, 'x', body_size);
    answer->size = (size_t)head + body_size;
    return answer;
}

static void watch(int epoll, int operation, int fd, unsigned events) {
    struct epoll_event event = {.events = events, .data.fd = fd};
    if (epoll_ctl(epoll, operation, fd, &event) != 0) fail("epoll_ctl");
}

static void drop(int fd) {
    memset(&connections[fd], 0, sizeof connections[fd]);
    close(fd);
}

/* One call, unless the kernel takes less. */
static void send_answer(int epoll, int fd, const struct answer *answer, size_t from) {
    ssize_t sent = send(fd, answer->bytes + from, answer->size - from, MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN) {
        drop(fd);
        return;
    }
    struct connection *connection = &connections[fd];
    bool was_partial = connection->rest != NULL;
    connection->sent = from + (sent > 0 ? (size_t)sent : 0);
    connection->rest = connection->sent < answer->size ? answer : NULL;
    bool is_partial = connection->rest != NULL;
    if (is_partial && !was_partial) partial++;
    if (is_partial != was_partial) watch(epoll, EPOLL_CTL_MOD, fd, is_partial ? EPOLLOUT : EPOLLIN);
}

/* True if the answer has to wait; the connection that completes the number lets all of them go. */
static bool is_held(int epoll, int fd, const struct answer *wanted) {
    struct connection *connection = &connections[fd];
    if (connection->has_asked) return false;
    connection->has_asked = true;
    if (++asked > hold) return false;
    connection->held = wanted;
    if (asked < hold) return true;
    for (int other = 0; other < DESCRIPTORS_MAX; other++) {
        const struct answer *held = connections[other].held;
        connections[other].held = NULL;
        if (held != NULL) send_answer(epoll, other, held, 0);
    }
    return true;
}

static void handle_request(int epoll, int fd) {
    static char buffer[REQUEST_SIZE_MAX + 1];
    ssize_t size = recv(fd, buffer, REQUEST_SIZE_MAX, 0);
    if (size < 0 && errno == EAGAIN) return;
    if (size < 4 || memcmp(buffer + size - 4, "\r\n\r\n", 4) != 0) {
        drop(fd);
        return;
    }
    buffer[size] = 0;
    if (strncmp(buffer, "GET /idle ", 10) == 0) return;
    const struct answer *wanted = NULL;
    if (strncmp(buffer, "GET /bytes/", 11) == 0) wanted = answer_of(strtoul(buffer + 11, NULL, 10));
    if (wanted == NULL) {
        drop(fd);
        return;
    }
    requests++;
    if (!is_held(epoll, fd, wanted)) send_answer(epoll, fd, wanted, 0);
}

static void accept_all(int epoll, int listener) {
    for (;;) {
        int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0 && errno == EAGAIN) return;
        if (fd < 0 && (errno == EINTR || errno == ECONNABORTED)) continue;
        if (fd < 0) fail("accept4");
        if (fd >= DESCRIPTORS_MAX) fail("more descriptors than there is room for");
        watch(epoll, EPOLL_CTL_ADD, fd, EPOLLIN);
    }
}

static void run(int listener) {
    static struct epoll_event events[EVENTS_MAX];
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    if (epoll < 0) fail("epoll_create1");
    watch(epoll, EPOLL_CTL_ADD, listener, EPOLLIN);
    while (!stopped) {
        int count = epoll_wait(epoll, events, EVENTS_MAX, -1);
        if (count < 0 && errno != EINTR) fail("epoll_wait");
        for (int i = 0; i < count; i++) {
            int fd = events[i].data.fd;
            struct connection *connection = &connections[fd];
            if (fd == listener) accept_all(epoll, listener);
            else if (connection->rest == NULL) handle_request(epoll, fd);
            else send_answer(epoll, fd, connection->rest, connection->sent);
        }
    }
}

/* Its port goes to `port`, which may name one. Accepted sockets inherit the options. */
static int listen_on(int *port) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int on = 1, buffer = SEND_BUFFER_SIZE;
    setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)*port)};
    socklen_t size = sizeof address;
    if (bind(fd, (struct sockaddr *)&address, size) != 0) fail("bind");
    if (listen(fd, BACKLOG) != 0) fail("listen");
    if (getsockname(fd, (struct sockaddr *)&address, &size) != 0) fail("getsockname");
    *port = ntohs(address.sin_port);
    return fd;
}

static void handle_signal(int number) {
    (void)number;
    stopped = 1;
}

int main(int count, char **words) {
    int workers = 1, port = 0;
    for (int i = 1; i + 1 < count; i += 2) {
        if (strcmp(words[i], "--workers") == 0) workers = atoi(words[i + 1]);
        else if (strcmp(words[i], "--hold") == 0) hold = atoi(words[i + 1]);
        else count = 0;
    }
    if (count % 2 == 0 || workers < 1 || (hold > 0 && workers > 1)) {
        fprintf(stderr, "usage: server [--workers N] [--hold N, with one worker]\n");
        return 2;
    }
    struct sigaction action = {.sa_handler = handle_signal};
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    int listener = listen_on(&port);
    for (int i = 1; i < workers; i++) {
        int another = listen_on(&port);
        pid_t child = fork();
        if (child < 0) fail("fork");
        if (child == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            close(listener);
            run(another);
            return 0;
        }
        close(another);
    }
    printf("%d\n", port);
    fflush(stdout);
    run(listener);
    printf("{\"requests\":%lu,\"partial\":%lu}\n", requests, partial);
    return 0;
}
