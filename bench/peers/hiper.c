/* libcurl with many transfers, as project Hiper measured it in 2005: the time of a wait and of the
 * work after it, by the number of transfers.
 *
 *   hiper --use USE --idle N --idle-peers HOST:PORT,... --sizes B,B [--seconds S | --events E]
 *   hiper --use USE --alive N,N [--laps L]
 *
 * --use perform   curl_multi_poll(3) and curl_multi_perform(3): all transfers are walked.
 * --use socket    epoll (or libevent: multi.h) and curl_multi_socket_action(3): only those with
 *                 action.
 * --use no-mask   the same, and libcurl is not passed what a descriptor is ready for.
 *
 * With --idle, N transfers without a response are opened, spread over the peers, then one with its
 * other end in this program: an event is B bytes that it sends, and the work of libcurl to deliver
 * them. With --alive, all other ends are in this program: a lap is one byte to each of the N active
 * transfers, the largest number first.
 *
 * Sending is neither timed nor counted. Prints one JSON object.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <unistd.h>

#include "multi.h"

enum {
    WORDS_MAX = 32,
    WARM_UP = 64,
    BLOCK_SIZE = 16 * 1024,
    BACKLOG = 4096,
    STEP_MS = 100, /* while connections are opened */
};

struct words {
    const char *words[WORDS_MAX];
    int count;
};

struct options {
    bool is_socket, has_no_mask;
    long idle, events, laps;
    double seconds;
    struct words peers, sizes, alive;
};

struct bench {
    struct options options;
    struct loop loop;
    long started;        /* idle transfers */
    int64_t received;    /* bytes of bodies */
    int listener, port;
    int *ends; /* other ends of transfers; those that were closed are at the back */
    long end_count;
    int silent[OPENING_MAX]; /* accepted, without a request yet */
    int silent_count;
};

/* What the calls of an event took. */
struct spent {
    int64_t wait_ns, handle_ns;
    long turns, empty; /* waits, and those after which nothing was delivered */
    int64_t delivered_max; /* bytes, after a single wait */
};

/* The callbacks. */

static size_t handle_body(char *bytes, size_t size, size_t count, void *user) {
    (void)bytes;
    ((struct bench *)user)->received += (int64_t)(size * count);
    return size * count;
}

/* The loop. */

static void handle_messages(struct bench *bench) {
    CURLMsg *message;
    int left;
    while ((message = curl_multi_info_read(bench->loop.multi, &left)) != NULL) {
        CURL *easy = message->easy_handle;
        if (message->msg != CURLMSG_DONE) continue;
        if (message->data.result != CURLE_OK) fail(curl_easy_strerror(message->data.result));
        curl_multi_remove_handle(bench->loop.multi, easy);
        curl_easy_cleanup(easy);
    }
}

/* One wait of at most so long (-1: as libcurl wants), and all that is ready. */
static struct spent turn(struct bench *bench, int most_ms) {
    struct loop *loop = &bench->loop;
    int64_t begin = now_ns(), before = bench->received, ready;
    if (bench->options.is_socket) {
        ready = wait_and_act(loop, most_ms);
        handle_due(loop);
    } else {
        int count;
        CURLMcode waited =
            curl_multi_poll(loop->multi, NULL, 0, most_ms < 0 ? 1000 : most_ms, &count);
        ready = now_ns();
        loop->actions++;
        if (waited != CURLM_OK) fail("curl_multi_poll failed");
        if (curl_multi_perform(loop->multi, &loop->running) != CURLM_OK)
            fail("curl_multi_perform failed");
    }
    handle_messages(bench);
    int64_t delivered = bench->received - before;
    return (struct spent){ready - begin, now_ns() - ready, 1, delivered == 0, delivered};
}

static void add_to(struct spent *sum, const struct spent *one) {
    sum->wait_ns += one->wait_ns;
    sum->handle_ns += one->handle_ns;
    sum->turns += one->turns;
    sum->empty += one->empty;
    if (one->delivered_max > sum->delivered_max) sum->delivered_max = one->delivered_max;
}

/* The other ends. */

static void listen_here(struct bench *bench) {
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    bench->listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (bench->listener < 0) fail_call("socket");
    if (bind(bench->listener, (struct sockaddr *)&address, size) != 0) fail_call("bind");
    if (listen(bench->listener, BACKLOG) != 0) fail_call("listen");
    struct sockaddr *to = (struct sockaddr *)&address;
    if (getsockname(bench->listener, to, &size) != 0) fail_call("getsockname");
    bench->port = ntohs(address.sin_port);
}

/* Not by send(2), which is counted. */
static void put(int fd, const char *bytes, size_t size) {
    while (size > 0) {
        ssize_t sent = write(fd, bytes, size);
        if (sent <= 0) fail_call("write");
        bytes += sent;
        size -= (size_t)sent;
    }
}

/* Takes those that have connected. */
static void accept_all(struct bench *bench) {
    int on = 1, fd;
    while ((fd = accept4(bench->listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
        if (bench->silent_count == OPENING_MAX) fail("more connections than transfers");
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        bench->silent[bench->silent_count++] = fd;
    }
    if (errno != EAGAIN) fail_call("accept4");
}

/* Starts the responses to requests. The request has to arrive before the response is sent, or the
 * kernel treats the client as interactive and delays acknowledgements, which makes events cheaper.
 * An unread request would turn a close into a reset (tcp(7)). */
static void answer_all(struct bench *bench) {
    static const char head[] = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n";
    char request[1024];
    int left = 0;
    for (int i = 0; i < bench->silent_count; i++) {
        int fd = bench->silent[i];
        if (recvfrom(fd, request, sizeof request, MSG_DONTWAIT, NULL, NULL) > 0) {
            put(fd, head, sizeof head - 1);
            bench->ends[bench->end_count++] = fd;
        } else {
            if (errno != EAGAIN) fail_call("recvfrom");
            bench->silent[left++] = fd;
        }
    }
    bench->silent_count = left;
}

/* The transfers. */

static void start(struct bench *bench, const char *url) {
    CURL *easy = curl_easy_init();
    if (easy == NULL) fail("curl_easy_init failed");
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, handle_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, bench);
    if (curl_multi_add_handle(bench->loop.multi, easy) != CURLM_OK)
        fail("curl_multi_add_handle failed");
}

static void open_idle(struct bench *bench) {
    const struct options *options = &bench->options;
    char url[256];
    while (senders < options->idle) { /* until all requests are sent */
        while (bench->started < options->idle && bench->started - senders < OPENING_MAX) {
            long peer = bench->started++ * options->peers.count / options->idle;
            snprintf(url, sizeof url, "http://%s/idle", options->peers.words[peer]);
            start(bench, url);
        }
        turn(bench, STEP_MS);
    }
}

/* Transfers whose other ends are ours, until each has had a byte. */
static void open_near(struct bench *bench, long count) {
    char url[64];
    snprintf(url, sizeof url, "http://127.0.0.1:%d/", bench->port);
    for (long started = 0; bench->end_count < count;) {
        while (started < count && started - bench->end_count < OPENING_MAX) {
            start(bench, url);
            started++;
        }
        turn(bench, 1);
        accept_all(bench);
        answer_all(bench);
    }
    for (long i = 0; i < count; i++) put(bench->ends[i], "x", 1);
    while (bench->received < count) turn(bench, STEP_MS);
}

/* `size` bytes to each of the first `count`, and what it takes until all have arrived. */
static struct spent deliver(struct bench *bench, long count, size_t size) {
    static char block[BLOCK_SIZE];
    int64_t until = bench->received + (int64_t)size * count;
    struct spent spent = {0};
    for (long i = 0; i < count; i++) put(bench->ends[i], block, size);
    while (bench->received < until) {
        struct spent one = turn(bench, -1);
        add_to(&spent, &one);
    }
    return spent;
}

/* Packets received at the other end of the one stream: its request, and acknowledgements. */
static long packets_in(const struct bench *bench) {
    struct tcp_info info = {0};
    socklen_t size = sizeof info;
    if (getsockopt(bench->ends[0], IPPROTO_TCP, TCP_INFO, &info, &size) != 0)
        fail_call("getsockopt");
    return info.tcpi_segs_in;
}

/* One stream, events of this size; instructions are counted in here (callgrind(1)). */
__attribute__((noinline)) void steady(struct bench *bench, size_t size, const char *before) {
    const struct options *options = &bench->options;
    struct spent spent = {0};
    long packets = packets_in(bench);
    long events = 0, calls_before[CALLS], eagain_before = eagain, reads = clock_reads;
    memcpy(calls_before, calls, sizeof calls);
    int64_t end_ns = now_ns() + (int64_t)(options->seconds * 1e9);
    while (options->events > 0 ? events < options->events : now_ns() < end_ns) {
        struct spent one = deliver(bench, 1, size);
        add_to(&spent, &one);
        events++;
    }
    printf("%s{\"size\":%zu,\"events\":%ld,\"turns\":%ld,\"wait_us\":%.3f,\"handle_us\":%.3f,"
           "\"packets\":%ld,\"eagain\":%ld,\"clock_reads\":%ld,\"calls\":{",
           before, size, events, spent.turns, (double)spent.wait_ns / 1e3,
           (double)spent.handle_ns / 1e3,
           packets_in(bench) - packets, eagain - eagain_before, clock_reads - reads);
    for (int call = 0; call < CALLS; call++)
        printf("%s\"%s\":%ld", call > 0 ? "," : "", call_names[call],
               calls[call] - calls_before[call]);
    printf("}}");
}

static int64_t cpu_us(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (int64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 +
           usage.ru_utime.tv_usec + usage.ru_stime.tv_usec;
}

static void among_idle(struct bench *bench) {
    int64_t begin_us = cpu_us();
    open_idle(bench);
    printf("{\"idle\":%ld,\"open_cpu_us\":%lld,\"phases\":[", bench->options.idle,
           (long long)(cpu_us() - begin_us));
    open_near(bench, 1);
    for (int i = 0; i < WARM_UP; i++) deliver(bench, 1, 1);
    for (int i = 0; i < bench->options.sizes.count; i++)
        steady(bench, strtoul(bench->options.sizes.words[i], NULL, 10), i > 0 ? "," : "");
    printf("]}\n");
}

static void by_alive(struct bench *bench) {
    const struct words *levels = &bench->options.alive;
    open_near(bench, atol(levels->words[0]));
    printf("{\"levels\":[");
    for (int level = 0; level < levels->count; level++) {
        long alive = atol(levels->words[level]);
        struct spent sum = {0};
        int64_t max_ns = 0;
        while (bench->end_count > alive) close(bench->ends[--bench->end_count]);
        while (bench->loop.running > alive) turn(bench, STEP_MS);
        deliver(bench, alive, 1);
        long actions = bench->loop.actions;
        for (long lap = 0; lap < bench->options.laps; lap++) {
            struct spent one = deliver(bench, alive, 1);
            add_to(&sum, &one);
            if (one.wait_ns + one.handle_ns > max_ns) max_ns = one.wait_ns + one.handle_ns;
        }
        printf("%s{\"alive\":%ld,\"laps\":%ld,\"turns\":%ld,\"empty\":%ld,\"actions\":%ld,"
               "\"wait_us\":%.3f,\"handle_us\":%.3f,\"max_us\":%.3f,\"delivered_max\":%lld}",
               level > 0 ? "," : "", alive, bench->options.laps, sum.turns, sum.empty,
               bench->loop.actions - actions, (double)sum.wait_ns / 1e3,
               (double)sum.handle_ns / 1e3, (double)max_ns / 1e3, (long long)sum.delivered_max);
    }
    printf("]}\n");
}

static struct words split(char *text) {
    struct words words = {.count = 0};
    for (char *word = strtok(text, ","); word != NULL && words.count < WORDS_MAX;
         word = strtok(NULL, ","))
        words.words[words.count++] = word;
    return words;
}

static bool set_option(struct options *options, const char *name, char *value) {
    if (strcmp(name, "--use") == 0) {
        options->is_socket = strcmp(value, "perform") != 0;
        options->has_no_mask = strcmp(value, "no-mask") == 0;
    }
    else if (strcmp(name, "--idle") == 0) options->idle = atol(value);
    else if (strcmp(name, "--idle-peers") == 0) options->peers = split(value);
    else if (strcmp(name, "--sizes") == 0) options->sizes = split(value);
    else if (strcmp(name, "--seconds") == 0) options->seconds = atof(value);
    else if (strcmp(name, "--events") == 0) options->events = atol(value);
    else if (strcmp(name, "--alive") == 0) options->alive = split(value);
    else if (strcmp(name, "--laps") == 0) options->laps = atol(value);
    else return false;
    return true;
}

int main(int count, char **words) {
    struct bench bench = {.options = {.seconds = 1, .laps = 50}};
    for (int i = 1; i < count; i += 2)
        if (i + 1 == count || !set_option(&bench.options, words[i], words[i + 1])) {
            fprintf(stderr, "hiper: %s: unknown, or without its value\n", words[i]);
            return 2;
        }
    const struct options *options = &bench.options;
    bool is_alive = options->alive.count > 0;
    bool lacks_peers = options->idle > 0 && options->peers.count == 0;
    if (!is_alive && (options->sizes.count == 0 || lacks_peers)) {
        fprintf(stderr, "hiper: --alive, or --sizes and --idle-peers are needed\n");
        return 2;
    }
    curl_global_init(CURL_GLOBAL_ALL);
    open_loop(&bench.loop);
    if (options->is_socket) hear(&bench.loop);
    bench.loop.has_no_mask = options->has_no_mask;
    bench.ends = calloc((size_t)(is_alive ? atol(options->alive.words[0]) : 1), sizeof *bench.ends);
    if (bench.ends == NULL) fail("no memory");
    listen_here(&bench);
    if (is_alive) by_alive(&bench);
    else among_idle(&bench);
    return 0;
}
