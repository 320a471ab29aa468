/* curl_easy_upkeep over HTTP/2: which PINGs a server receives, and when. */
#include <arpa/inet.h>
#include <curl/curl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int listener;
static atomic_int pings, odd_pings, connections;

static int read_all(int fd, unsigned char *to, size_t len)
{
    ssize_t count;
    for (; len; to += count, len -= count)
        if ((count = read(fd, to, len)) <= 0)
            return 0;
    return 1;
}

static void serve_one(int fd)
{
    unsigned char frame[9], payload[65536], settings[9] = {0, 0, 0, 4};
    unsigned char settings_ack[9] = {0, 0, 0, 4, 1};
    if (!read_all(fd, payload, 24) || write(fd, settings, 9) < 0)
        return;
    while (read_all(fd, frame, 9)) {
        size_t len = frame[1] << 8 | frame[2];
        if (!read_all(fd, payload, len))
            return;
        if (frame[3] == 4 && !(frame[4] & 1)) {
            if (write(fd, settings_ack, 9) < 0)
                return;
        } else if (frame[3] == 6) {
            unsigned char ack[17] = {0, 0, 8, 6, 1};
            static const unsigned char zeros[8];
            memcpy(ack + 9, payload, 8);
            odd_pings += len != 8 || frame[4] || memcmp(payload, zeros, 8);
            pings++;
            if (write(fd, ack, 17) < 0)
                return;
        } else if (frame[3] == 1) {
            unsigned char head[10] = {0, 0, 1, 1, 5};
            memcpy(head + 5, frame + 5, 4);
            head[9] = 0x88;
            if (write(fd, head, 10) < 0)
                return;
        }
    }
}

static void *serve(void *unused)
{
    int fd;
    while ((fd = accept(listener, NULL, NULL)) >= 0) {
        connections++;
        serve_one(fd);
        close(fd);
    }
    return unused;
}

static void perform(CURL *easy)
{
    long status = 0;
    int code = curl_easy_perform(easy);
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    printf("%d, %ld, %d connections\n", code, status, connections);
}

int main(int count, char **arguments)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t len = sizeof address;
    pthread_t thread;
    char url[64];
    CURL *easy;
    int round, calls;
    (void)arguments;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&address, len) || listen(listener, 9) ||
        getsockname(listener, (struct sockaddr *)&address, &len))
        return 2;
    sprintf(url, "http://127.0.0.1:%d/", ntohs(address.sin_port));
    curl_global_init(CURL_GLOBAL_ALL);
    pthread_create(&thread, NULL, serve, NULL);
    easy = curl_easy_init();
    printf("no connection: %d\n", curl_easy_upkeep(easy));
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE);
    perform(easy);
    /* The connection is younger than the default interval. */
    for (calls = 0; calls < 9; calls++)
        curl_easy_upkeep(easy);
    printf("%d pings\n", pings);
    curl_easy_setopt(easy, CURLOPT_UPKEEP_INTERVAL_MS, 1L);
    for (round = 1; round <= 3; round++) {
        while (pings < round && !curl_easy_upkeep(easy))
            sched_yield();
    }
    if (count > 1)
        perform(easy);
    printf("%s, %d others\n", pings >= 3 ? "pings" : "no pings", odd_pings);
    curl_easy_cleanup(easy);
    fflush(stdout);
    _exit(0);
}
