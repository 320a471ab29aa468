/* Answers of a name server, good and bad ones. The server is this program, on port 53 of loopback,
 * in a network namespace of its own, in which /etc/resolv.conf names it. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <curl/curl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { TYPE_A = 1, TYPE_CNAME = 5, TYPE_AAAA = 28 };

static int bound(int kind, uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int on = 1, fd = socket(AF_INET, kind, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, (struct sockaddr *)&address, sizeof(address)))
        abort();
    if (kind == SOCK_STREAM)
        listen(fd, 16);
    return fd;
}

/* Appends a record for the name at `name` of the message. */
static size_t record(unsigned char *to, int name, int type, const void *data, size_t len)
{
    unsigned char head[12] = {0xc0, (unsigned char)name, 0, (unsigned char)type, 0, 1, 0, 0, 0, 0,
                              0, (unsigned char)len};
    memcpy(to, head, sizeof(head));
    memcpy(to + sizeof(head), data, len);
    return sizeof(head) + len;
}

/* The response to a question; 0: none. */
static size_t respond(const unsigned char *question, size_t len, unsigned char *out, int is_tcp)
{
    static const unsigned char four[] = {127, 0, 0, 1}, six[16] = {[15] = 1};
    static const unsigned char good[] = "\x04good\x04test", loop[] = "\xc0\x0c";
    char label[64] = "";
    size_t end = 12, used;
    int type, count = 0;
    if (len < 17)
        return 0;
    memcpy(label, question + 13, question[12] < 63 ? question[12] : 63);
    while (end < len && question[end])
        end += question[end] + 1u;
    type = question[end + 2];
    used = end + 5; /* without further records of the question */
    memcpy(out, question, used);
    out[2] = 0x85;
    out[3] = 0x80;
    memset(out + 6, 0, 6);
    if (!strcmp(label, "silent"))
        return 0;
    if (!strcmp(label, "garbage")) {
        memset(out, 0xff, 9);
        return 9;
    }
    if (!strcmp(label, "missing"))
        out[3] |= 3;
    if (!strcmp(label, "broken"))
        out[3] |= 2;
    if (!strcmp(label, "refused"))
        out[3] |= 5;
    if (!strcmp(label, "foreign"))
        out[0] ^= 0xff; /* another question's number */
    if (!strcmp(label, "cut") && !is_tcp)
        out[2] |= 2;
    else if (!strcmp(label, "loop"))
        used += record(out + used, 12, TYPE_CNAME, loop, 2), count++;
    else if (!strcmp(label, "alias")) {
        size_t at = used + 12;
        used += record(out + used, 12, TYPE_CNAME, good, sizeof(good)), count++;
        if (type == TYPE_A)
            used += record(out + used, (int)at, TYPE_A, four, 4), count++;
    } else if (!strcmp(label, "stranger") && type == TYPE_A) {
        /* a record of a name that was not asked for: good.test, written out */
        memcpy(out + used, good, sizeof(good));
        used += sizeof(good);
        memcpy(out + used, "\0\1\0\1\0\0\0\0\0\4\x7f\0\0\1", 14);
        used += 14, count++;
    } else if (!strcmp(label, "many") && type == TYPE_A && (is_tcp || (out[2] |= 2, 0))) {
        for (int at = 0; at < 1000; at++, count++) {
            unsigned char address[4] = {127, 1, (unsigned char)(at >> 8), (unsigned char)at};
            used += record(out + used, 12, TYPE_A, at == 0 ? four : address, 4);
        }
    } else if (type == TYPE_AAAA && (!strcmp(label, "six") || !strcmp(label, "both")))
        used += record(out + used, 12, TYPE_AAAA, six, 16), count++;
    else if (type == TYPE_A && (!strcmp(label, "good") || !strcmp(label, "both") ||
                                !strcmp(label, "foreign") || !strcmp(label, "cut")))
        used += record(out + used, 12, TYPE_A, four, 4), count++;
    out[6] = (unsigned char)(count >> 8);
    out[7] = (unsigned char)count;
    return used;
}

static void *serve_udp(void *argument)
{
    int fd = (int)(long)argument;
    static unsigned char question[1500], out[65536];
    struct sockaddr_in peer;
    socklen_t peer_len = sizeof(peer);
    ssize_t got;
    while ((got = recvfrom(fd, question, sizeof(question), 0, (struct sockaddr *)&peer,
                           &peer_len)) >= 0) {
        size_t len = respond(question, (size_t)got, out, 0);
        if (len)
            sendto(fd, out, len, 0, (struct sockaddr *)&peer, peer_len);
    }
    return NULL;
}

static void *serve_tcp(void *argument)
{
    static unsigned char question[1500], out[65538];
    int fd;
    while ((fd = accept((int)(long)argument, NULL, NULL)) >= 0) {
        while (recv(fd, question, 2, MSG_WAITALL) == 2) {
            size_t len = (size_t)(question[0] << 8 | question[1]);
            if (len > sizeof(question) || recv(fd, question, len, MSG_WAITALL) != (ssize_t)len)
                break;
            len = respond(question, len, out + 2, 1);
            out[0] = (unsigned char)(len >> 8);
            out[1] = (unsigned char)len;
            send(fd, out, len + 2, MSG_NOSIGNAL);
        }
        close(fd);
    }
    return NULL;
}

static void *serve_names(void *argument)
{
    pthread_t thread;
    (void)argument;
    pthread_create(&thread, NULL, serve_tcp, (void *)(long)bound(SOCK_STREAM, 53));
    return NULL;
}

int main(void)
{
    static const char *names[] = {"good", "alias", "cut", "many", "both", "six", "missing",
                                  "broken", "refused", "empty", "loop", "stranger", "silent",
                                  "garbage", "foreign"};
    pthread_t thread;
    setvbuf(stdout, NULL, _IOLBF, 0);
    serve_names(NULL);
    pthread_create(&thread, NULL, serve_udp, (void *)(long)bound(SOCK_DGRAM, 53));
    bound(SOCK_STREAM, 8080);
    curl_global_init(CURL_GLOBAL_ALL);
    for (size_t at = 0; at < sizeof(names) / sizeof(*names); at++) {
        char url[100], error[CURL_ERROR_SIZE] = "";
        const char *address = NULL;
        CURL *easy = curl_easy_init();
        int code;
        snprintf(url, sizeof(url), "http://%s.test:8080/", names[at]);
        curl_easy_setopt(easy, CURLOPT_URL, url);
        curl_easy_setopt(easy, CURLOPT_CONNECT_ONLY, 1L);
        curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, error);
        curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, 20000L);
        code = curl_easy_perform(easy);
        curl_easy_getinfo(easy, CURLINFO_PRIMARY_IP, &address);
        if (strchr(error, '0')) /* with the milliseconds of a refused connection */
            *strchr(error, '0') = 0;
        printf("%s: %d, '%s', %s\n", names[at], code, address, error);
        curl_easy_cleanup(easy);
    }
    return 0;
}
