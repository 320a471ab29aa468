/* The server of the `server-*` benchmarks, as a program that embeds libmicrohttpd writes it.
 *
 *   libmicrohttpd --site DIR [--cert FILE --key FILE]
 *
 * Listens on a free port of 127.0.0.1 and prints it. One thread of the library, with epoll and
 * MHD_USE_TURBO; over TLS with a certificate. Targets:
 *
 *   /tiny        128 bytes, from memory
 *   /modest      64 KB, from memory
 *   /continuous  ten pieces of one byte, chunked: a callback for each
 *   /104k, /1m   that file of DIR, by descriptor
 *
 * Constant responses are created once and queued again, as its manual advises.
 * SIGTERM ends it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    TINY_SIZE = 128,
    MODEST_SIZE = 64 * 1024,
    PIECES = 10,
    BLOCK_SIZE = 1024, /* what the callback may write at a time */
    CONNECTIONS_MAX = 20000,
    BACKLOG = 16384,
    PEM_SIZE_MAX = 64 * 1024,
};

struct answer {
    const char *target;
    struct MHD_Response *response; /* made once */
};

static struct answer answers[] = {
    {"/tiny", NULL},
    {"/modest", NULL},
    {"/104k", NULL},
    {"/1m", NULL},
};

static void fail(const char *what) {
    fprintf(stderr, "libmicrohttpd: %s: %s\n", what, strerror(errno));
    exit(1);
}

static struct MHD_Response *filled(size_t size) {
    char *bytes = malloc(size);
    if (bytes == NULL) fail("malloc");
    memset(bytes, 'x', size);
    return MHD_create_response_from_buffer(size, bytes, MHD_RESPMEM_MUST_FREE);
}

static struct MHD_Response *file(const char *site, const char *target) {
    char path[4096];
    struct stat status;
    snprintf(path, sizeof path, "%s%s", site, target);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &status) != 0) fail(path);
    return MHD_create_response_from_fd64((uint64_t)status.st_size, fd);
}

static ssize_t piece(void *state, uint64_t position, char *buffer, size_t size) {
    (void)state;
    if (position >= PIECES || size == 0) return MHD_CONTENT_READER_END_OF_STREAM;
    *buffer = 'x';
    return 1;
}

static enum MHD_Result continuous(struct MHD_Connection *connection) {
    struct MHD_Response *response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK_SIZE, piece, NULL, NULL);
    if (response == NULL) return MHD_NO;
    enum MHD_Result queued = MHD_queue_response(connection, MHD_HTTP_OK, response);
    MHD_destroy_response(response);
    return queued;
}

static enum MHD_Result answer(void *state, struct MHD_Connection *connection, const char *target,
                              const char *method, const char *version, const char *body,
                              size_t *body_size, void **request) {
    static int begun;
    (void)state, (void)method, (void)version, (void)body, (void)body_size;
    if (*request == NULL) { /* the first call of a request has only its head */
        *request = &begun;
        return MHD_YES;
    }
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++)
        if (strcmp(target, answers[i].target) == 0)
            return MHD_queue_response(connection, MHD_HTTP_OK, answers[i].response);
    return strcmp(target, "/continuous") == 0 ? continuous(connection) : MHD_NO;
}

/* A whole file, as text. */
static char *text(const char *path) {
    FILE *from = fopen(path, "r");
    char *bytes = calloc(1, PEM_SIZE_MAX);
    if (from == NULL || bytes == NULL) fail(path);
    if (fread(bytes, 1, PEM_SIZE_MAX - 1, from) == 0) fail(path);
    fclose(from);
    return bytes;
}

int main(int count, char **words) {
    const char *site = NULL, *cert = NULL, *key = NULL;
    for (int i = 1; i + 1 < count; i += 2) {
        if (strcmp(words[i], "--site") == 0) site = words[i + 1];
        else if (strcmp(words[i], "--cert") == 0) cert = words[i + 1];
        else if (strcmp(words[i], "--key") == 0) key = words[i + 1];
        else count = 0;
    }
    if (count % 2 == 0 || site == NULL || (cert == NULL) != (key == NULL)) {
        fprintf(stderr, "usage: libmicrohttpd --site DIR [--cert FILE --key FILE]\n");
        return 2;
    }
    answers[0].response = filled(TINY_SIZE);
    answers[1].response = filled(MODEST_SIZE);
    answers[2].response = file(site, answers[2].target);
    answers[3].response = file(site, answers[3].target);

    sigset_t ending;
    sigemptyset(&ending);
    sigaddset(&ending, SIGTERM);
    sigaddset(&ending, SIGINT);
    sigprocmask(SIG_BLOCK, &ending, NULL); /* before there is a second thread */

    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct MHD_OptionItem tls[] = {
        {MHD_OPTION_HTTPS_MEM_CERT, 0, cert != NULL ? text(cert) : NULL},
        {MHD_OPTION_HTTPS_MEM_KEY, 0, key != NULL ? text(key) : NULL},
        {MHD_OPTION_HTTPS_PRIORITIES, 0, "NORMAL:-VERS-ALL:+VERS-TLS1.3"},
        {MHD_OPTION_END, 0, NULL},
    };
    struct MHD_OptionItem none[] = {{MHD_OPTION_END, 0, NULL}};
    unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_TURBO | MHD_USE_ERROR_LOG;
    if (cert != NULL) flags |= MHD_USE_TLS;
    struct MHD_Daemon *daemon = MHD_start_daemon(
        flags, 0, NULL, NULL, answer, NULL, MHD_OPTION_SOCK_ADDR, &address,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS_MAX, MHD_OPTION_LISTEN_BACKLOG_SIZE,
        (unsigned)BACKLOG, MHD_OPTION_ARRAY, cert != NULL ? tls : none, MHD_OPTION_END);
    if (daemon == NULL) fail("MHD_start_daemon");

    printf("%u\n", MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_BIND_PORT)->port);
    fflush(stdout);
    int number;
    sigwait(&ending, &number);
    MHD_stop_daemon(daemon);
    return 0;
}
