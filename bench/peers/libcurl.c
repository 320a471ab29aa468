/* A libcurl client with thousands of transfers on one thread: curl_multi_socket_action over epoll,
 * or libevent (multi.h).
 *
 *   libcurl --mode MODE --use USE --clients N [--seconds S | --requests R] [--handles HANDLES]
 *           [--buffer B] [--protocol http1|http2] [--cacert FILE] --url URL...
 *
 * --mode requests  N transfers at a time; each is removed when it is done, gets its URL and is
 *                  added again. Measured from the first response of the last of them, for S
 *                  seconds or R requests.
 * --mode waiting   opens N transfers without a response. Measured until all requests are sent.
 * --mode pooled    N transfers at a time, each once, then freed: the idle connections remain.
 *                  The server has to hold its responses until all requests are sent.
 * --mode performed N handles, one curl_easy_perform(3) each, one after the other; all are kept.
 *
 * --use plain      the loop is changed whenever the socket callback says so.
 * --use no-mask    the same, and libcurl is not passed what a descriptor is ready for.
 * --use best       descriptors stay in epoll, for reading, until they are closed (epoll only).
 * --handles new    each transfer of the mode 'requests' has a handle of its own; the default is
 *                  'reused'.
 * --buffer B       size of the receive buffer (CURLOPT_BUFFERSIZE(3); default: libcurl's 16 KB).
 * --protocol http2 HTTP/2 with prior knowledge: transfers are streams of one connection. Until
 *                  8.0, libcurl fails on a connection that a request with prior knowledge reuses:
 *                  only the first has it, and the others are for HTTP/2 on an open connection.
 *
 * The transfers are spread over the URLs, at most OPENING_MAX of them on their way to a connection
 * at a time. Prints one JSON object; README.md says what is in it. Settings of proxies in the
 * environment are ignored.
 */
#define _GNU_SOURCE
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include "multi.h"

enum {
    URLS_MAX = 16,
    ERRORS_MAX = 100,
    STREAMS_MAX = 100, /* of the connection: libcurl's default */
};

static const char *const proxies[] = {"http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy",
                                      "ALL_PROXY"};

enum mode { REQUESTS, WAITING, POOLED, PERFORMED };

struct options {
    enum mode mode;
    bool is_best, has_no_mask;
    bool is_http2;
    bool has_new_handles;
    long clients;
    double seconds;
    long requests; /* 0: as many as the seconds bring */
    long buffer_size; /* 0: as libcurl has it */
    const char *cacert;
    const char *urls[URLS_MAX];
    int url_count;
};

struct bench {
    struct options options;
    struct loop loop;
    unsigned events[DESCRIPTORS_MAX]; /* what epoll watches, where descriptors stay in it */
    bool *has_answered;               /* by client */
    long started, answered;           /* clients that did so at least once */
    long requests, bytes, errors, turns;
    long connections; /* that were opened */
};

static long allocations;

/* Everything that is measured, at one moment. */
struct reading {
    int64_t wall_ns, user_us, system_us;
    long rss_bytes, requests, bytes, errors, turns, allocations, clock_reads, eagain;
    long calls[CALLS];
};

/* What libcurl takes from the allocator, through curl_global_init_mem(3). */

static void *counted_malloc(size_t size) {
    allocations++;
    return malloc(size);
}

static void *counted_realloc(void *memory, size_t size) {
    allocations++;
    return realloc(memory, size);
}

static char *counted_strdup(const char *text) {
    allocations++;
    return strdup(text);
}

static void *counted_calloc(size_t count, size_t size) {
    allocations++;
    return calloc(count, size);
}

/* Resident memory: the second field of proc(5) statm. */
static long rss_bytes(void) {
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL || fscanf(file, "%*s %ld", &pages) != 1) fail("cannot read /proc/self/statm");
    fclose(file);
    return pages * sysconf(_SC_PAGESIZE);
}

static struct reading take(const struct bench *bench) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    struct reading reading = {
        .wall_ns = now_ns(),
        .user_us = (int64_t)usage.ru_utime.tv_sec * 1000000 + usage.ru_utime.tv_usec,
        .system_us = (int64_t)usage.ru_stime.tv_sec * 1000000 + usage.ru_stime.tv_usec,
        .rss_bytes = rss_bytes(),
        .requests = bench->requests,
        .bytes = bench->bytes,
        .errors = bench->errors,
        .turns = bench->turns,
        .allocations = allocations,
        .clock_reads = clock_reads,
        .eagain = eagain,
    };
    memcpy(reading.calls, calls, sizeof calls);
    return reading;
}

static void report(const struct reading *from, const struct reading *to) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("{\"requests\":%ld,\"errors\":%ld,\"bytes\":%ld,\"seconds\":%.6f,"
           "\"cpu_user_us\":%lld,\"cpu_system_us\":%lld,"
           "\"rss_before_bytes\":%ld,\"rss_bytes\":%ld,\"rss_max_bytes\":%ld,"
           "\"allocations\":%ld,\"clock_reads\":%ld,\"turns\":%ld,\"eagain\":%ld,\"syscalls\":{",
           to->requests - from->requests, to->errors, to->bytes - from->bytes,
           (double)(to->wall_ns - from->wall_ns) / 1e9, (long long)(to->user_us - from->user_us),
           (long long)(to->system_us - from->system_us), from->rss_bytes, to->rss_bytes,
           usage.ru_maxrss * 1024, to->allocations - from->allocations,
           to->clock_reads - from->clock_reads, to->turns - from->turns, to->eagain - from->eagain);
    for (int call = 0; call < CALLS; call++)
        printf("%s\"%s\":%ld", call > 0 ? "," : "", call_names[call],
               to->calls[call] - from->calls[call]);
    printf("}}\n");
}

/* The callbacks. */

static size_t handle_body(char *bytes, size_t size, size_t count, void *user) {
    (void)bytes;
    ((struct bench *)user)->bytes += (long)(size * count);
    return size * count;
}

#ifndef WITH_LIBEVENT

/* Between two transfers the descriptor stays as it is: an idle connection is not readable. */
static int handle_socket_best(CURL *easy, curl_socket_t fd, int what, void *user, void *known) {
    (void)easy, (void)known;
    struct bench *bench = user;
    unsigned wanted = events_of(what), watched = bench->events[fd];
    if (what == CURL_POLL_REMOVE || wanted == watched) return 0;
    watch(&bench->loop, watched != 0 ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, wanted);
    bench->events[fd] = wanted;
    return 0;
}

static int handle_close(void *user, curl_socket_t fd) {
    ((struct bench *)user)->events[fd] = 0;
    return close(fd);
}

static void set_best_socket(struct bench *bench) {
    curl_multi_setopt(bench->loop.multi, CURLMOPT_SOCKETFUNCTION, handle_socket_best);
    curl_multi_setopt(bench->loop.multi, CURLMOPT_SOCKETDATA, bench);
}

#else

static int handle_close(void *user, curl_socket_t fd) {
    (void)user;
    return close(fd);
}

static void set_best_socket(struct bench *bench) {
    (void)bench;
    fail("--use best needs epoll");
}

#endif

/* The transfers. */

static void set(CURL *easy, CURLoption option, const void *value) {
    if (curl_easy_setopt(easy, option, value) != CURLE_OK) fail("curl_easy_setopt failed");
}

static const char *url_of(const struct options *options, long client) {
    return options->urls[client % options->url_count];
}

static CURL *new_handle(struct bench *bench, long client) {
    CURL *easy = curl_easy_init();
    if (easy == NULL) fail("curl_easy_init failed");
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    set(easy, CURLOPT_URL, url_of(&bench->options, client));
    set(easy, CURLOPT_PRIVATE, (void *)client);
    set(easy, CURLOPT_WRITEFUNCTION, (void *)handle_body);
    set(easy, CURLOPT_WRITEDATA, bench);
    if (bench->options.buffer_size > 0)
        curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, bench->options.buffer_size);
    if (bench->options.is_http2) {
        long version = client == 0 ? CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE : CURL_HTTP_VERSION_2_0;
        curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, version);
        curl_easy_setopt(easy, CURLOPT_PIPEWAIT, 1L); /* not a connection for each transfer */
    }
    if (bench->options.cacert != NULL) set(easy, CURLOPT_CAINFO, bench->options.cacert);
    if (bench->options.is_best) {
        set(easy, CURLOPT_CLOSESOCKETFUNCTION, (void *)handle_close);
        set(easy, CURLOPT_CLOSESOCKETDATA, bench);
    }
    return easy;
}

static void add(struct bench *bench, CURL *easy) {
    CURLMcode code = curl_multi_add_handle(bench->loop.multi, easy);
    if (code != CURLM_OK) fail("curl_multi_add_handle failed");
}

static void start_clients(struct bench *bench) {
    if (bench->options.is_http2 && bench->started == 1 && bench->answered == 0) return;
    while (bench->started < bench->options.clients && bench->started - senders < OPENING_MAX) {
        add(bench, new_handle(bench, bench->started));
        bench->started++;
    }
}

/* HTTP/2, over one connection. */
static void check_http2(struct bench *bench, CURL *easy) {
    long version = 0, opened = 0;
    curl_easy_getinfo(easy, CURLINFO_HTTP_VERSION, &version);
    curl_easy_getinfo(easy, CURLINFO_NUM_CONNECTS, &opened);
    bench->connections += opened;
    if (version != CURL_HTTP_VERSION_2_0) fail("a response is not of HTTP/2");
    if (bench->connections > 1) fail("transfers do not share their connection");
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2_0);
}

static void handle_done(struct bench *bench, CURL *easy, CURLcode result) {
    char *private = NULL;
    long status = 0;
    curl_easy_getinfo(easy, CURLINFO_PRIVATE, &private);
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    long client = (long)private;
    bench->requests++;
    if (result != CURLE_OK || status != 200) {
        fprintf(stderr, "libcurl: %s, status %ld\n", curl_easy_strerror(result), status);
        if (++bench->errors == ERRORS_MAX) fail("too many errors");
    } else if (bench->options.is_http2) {
        check_http2(bench, easy);
    }
    curl_multi_remove_handle(bench->loop.multi, easy);
    if (!bench->has_answered[client]) {
        bench->has_answered[client] = true;
        bench->answered++;
    }
    if (bench->options.mode == POOLED || bench->options.has_new_handles) curl_easy_cleanup(easy);
    if (bench->options.mode == POOLED) return;
    if (bench->options.has_new_handles) easy = new_handle(bench, client);
    else set(easy, CURLOPT_URL, url_of(&bench->options, client));
    add(bench, easy);
}

static void handle_messages(struct bench *bench) {
    CURLMsg *message;
    int left;
    while ((message = curl_multi_info_read(bench->loop.multi, &left)) != NULL)
        if (message->msg == CURLMSG_DONE)
            handle_done(bench, message->easy_handle, message->data.result);
}

/* The loop. */

/* One wait, what is ready, and the transfers that follow: they leave in the same turn. */
static void turn(struct bench *bench) {
    wait_and_act(&bench->loop, -1);
    bench->turns++;
    handle_messages(bench);
    if (handle_due(&bench->loop)) handle_messages(bench);
}

static struct reading open_all(struct bench *bench) {
    struct reading from = take(bench);
    const long *count = bench->options.mode == WAITING ? &senders : &bench->answered;
    while (*count < bench->options.clients) {
        start_clients(bench);
        turn(bench);
    }
    malloc_trim(0); /* transfers that are gone do not count as connections */
    return from;
}

static void steady(struct bench *bench) {
    long until = bench->requests + bench->options.requests;
    int64_t end_ns = now_ns() + (int64_t)(bench->options.seconds * 1e9);
    if (bench->options.requests > 0)
        while (bench->requests < until) turn(bench);
    else
        while (now_ns() < end_ns) turn(bench);
}

/* Handles that have been used alone: each has connections of its own. */
static struct reading perform_each(struct bench *bench) {
    struct reading from = take(bench);
    for (; bench->requests < bench->options.clients; bench->requests++)
        if (curl_easy_perform(new_handle(bench, bench->requests)) != CURLE_OK)
            fail("curl_easy_perform failed");
    return from;
}

static struct bench *new_bench(const struct options *options) {
    struct bench *bench = calloc(1, sizeof *bench);
    bool *has_answered = calloc((size_t)options->clients, sizeof *has_answered);
    if (bench == NULL || has_answered == NULL) fail("no memory");
    curl_global_init_mem(CURL_GLOBAL_ALL, counted_malloc, free, counted_realloc, counted_strdup,
                         counted_calloc);
    bench->options = *options;
    bench->has_answered = has_answered;
    open_loop(&bench->loop);
    hear(&bench->loop);
    bench->loop.has_no_mask = options->has_no_mask;
    if (options->is_best) set_best_socket(bench);
    curl_multi_setopt(bench->loop.multi, CURLMOPT_MAXCONNECTS, options->clients);
    if (options->is_http2) {
        curl_multi_setopt(bench->loop.multi, CURLMOPT_PIPELINING, CURLPIPE_MULTIPLEX);
        curl_multi_setopt(bench->loop.multi, CURLMOPT_MAX_CONCURRENT_STREAMS, (long)STREAMS_MAX);
    }
    return bench;
}

static bool set_option(struct options *options, const char *name, const char *value) {
    if (strcmp(name, "--clients") == 0) options->clients = atol(value);
    else if (strcmp(name, "--seconds") == 0) options->seconds = atof(value);
    else if (strcmp(name, "--requests") == 0) options->requests = atol(value);
    else if (strcmp(name, "--buffer") == 0) options->buffer_size = atol(value);
    else if (strcmp(name, "--cacert") == 0) options->cacert = value;
    else if (strcmp(name, "--protocol") == 0) options->is_http2 = strcmp(value, "http2") == 0;
    else if (strcmp(name, "--use") == 0) {
        options->is_best = strcmp(value, "best") == 0;
        options->has_no_mask = strcmp(value, "no-mask") == 0;
    }
    else if (strcmp(name, "--url") == 0 && options->url_count < URLS_MAX)
        options->urls[options->url_count++] = value;
    else if (strcmp(name, "--mode") == 0 && strcmp(value, "requests") == 0)
        options->mode = REQUESTS;
    else if (strcmp(name, "--mode") == 0 && strcmp(value, "waiting") == 0) options->mode = WAITING;
    else if (strcmp(name, "--mode") == 0 && strcmp(value, "pooled") == 0) options->mode = POOLED;
    else if (strcmp(name, "--mode") == 0 && strcmp(value, "performed") == 0)
        options->mode = PERFORMED;
    else if (strcmp(name, "--handles") == 0) options->has_new_handles = strcmp(value, "new") == 0;
    else return false;
    return true;
}

int main(int count, char **words) {
    struct options options = {.clients = 1, .seconds = 5};
    for (int i = 1; i < count; i += 2)
        if (i + 1 == count || !set_option(&options, words[i], words[i + 1])) {
            fprintf(stderr, "libcurl: %s: unknown, or without its value\n", words[i]);
            return 2;
        }
    if (options.url_count == 0 || options.clients < 1) {
        fprintf(stderr, "libcurl: --url is missing, or --clients is less than one\n");
        return 2;
    }
    if (options.is_http2 && options.clients > STREAMS_MAX) {
        fprintf(stderr, "libcurl: --clients is more than the streams of a connection\n");
        return 2;
    }
    for (size_t i = 0; i < sizeof proxies / sizeof *proxies; i++) unsetenv(proxies[i]);
    struct bench *bench = new_bench(&options);
    struct reading from = options.mode == PERFORMED ? perform_each(bench) : open_all(bench);
    if (options.mode == REQUESTS) {
        from = take(bench);
        steady(bench);
    }
    struct reading to = take(bench);
    report(&from, &to);
    return to.errors > 0;
}
