/* CURLOPT_CRLF and CURLOPT_BUFFERSIZE: uploads as a server receives them, and the sizes of the
 * pieces of a response. With an argument: uploads with line feeds, which libcurl miscounts. */
#include <arpa/inet.h>
#include <curl/curl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BODY 300000

static int listener;
static char request[4096];

/* A request ends with this text. */
static const char *end_of_request;

static void *serve(void *unused)
{
    static char body[BODY];
    char head[100];
    int fd;
    memset(body, 'x', sizeof body);
    sprintf(head, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n", BODY);
    while ((fd = accept(listener, NULL, NULL)) >= 0) {
        size_t len = 0, sent = 0, ended = strlen(end_of_request);
        ssize_t count;
        while (len < ended || memcmp(request + len - ended, end_of_request, ended)) {
            count = read(fd, request + len, sizeof request - 1 - len);
            if (count <= 0)
                break;
            len += count;
        }
        request[len] = 0;
        if (write(fd, head, strlen(head)) > 0)
            while (sent < BODY && (count = write(fd, body + sent, BODY - sent)) > 0)
                sent += count;
        close(fd);
    }
    return unused;
}

static size_t largest, whole, largest_debug;

static size_t on_write(char *bytes, size_t size, size_t count, void *user)
{
    (void)bytes, (void)user;
    if (size * count > largest)
        largest = size * count;
    whole += size * count;
    return size * count;
}

static int on_debug(CURL *easy, curl_infotype kind, char *bytes, size_t size, void *user)
{
    (void)easy, (void)bytes, (void)user;
    if (kind == CURLINFO_DATA_IN && size > largest_debug)
        largest_debug = size;
    return 0;
}

static const char *pieces[3];
static int next;

static size_t on_read(char *to, size_t size, size_t count, void *user)
{
    const char *piece = pieces[next];
    (void)size, (void)count, (void)user;
    if (!piece)
        return 0;
    next++;
    memcpy(to, piece, strlen(piece));
    return strlen(piece);
}

static char url[64];

static CURL *handle(void)
{
    CURL *easy = curl_easy_init();
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_write);
    largest = whole = largest_debug = 0;
    return easy;
}

static void download(long size)
{
    CURL *easy = handle();
    int code;
    end_of_request = "\r\n\r\n";
    curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, size);
    curl_easy_setopt(easy, CURLOPT_VERBOSE, 1L);
    curl_easy_setopt(easy, CURLOPT_DEBUGFUNCTION, on_debug);
    code = curl_easy_perform(easy);
    printf("%ld: %d, %zu in pieces of up to %zu", size, code, whole, largest);
    if (size < CURL_MAX_WRITE_SIZE)
        printf(", %zu", largest_debug);
    puts("");
    curl_easy_cleanup(easy);
}

static void upload(const char *first, const char *second, long size, int posts, const char *end)
{
    CURL *easy = handle();
    struct curl_slist *fields = curl_slist_append(NULL, "Expect:");
    int code;
    fields = curl_slist_append(fields, "Host: h");
    end_of_request = end;
    pieces[0] = first, pieces[1] = second, next = 0;
    curl_easy_setopt(easy, CURLOPT_CRLF, 1L);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, fields);
    curl_easy_setopt(easy, CURLOPT_READFUNCTION, on_read);
    if (posts) {
        curl_easy_setopt(easy, CURLOPT_POST, 1L);
        curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE, size);
        if (posts == 2)
            curl_easy_setopt(easy, CURLOPT_POSTFIELDS, first);
    } else {
        curl_easy_setopt(easy, CURLOPT_UPLOAD, 1L);
        curl_easy_setopt(easy, CURLOPT_INFILESIZE, size);
    }
    code = curl_easy_perform(easy);
    printf("%d\n%s\n", code, request);
    curl_easy_cleanup(easy);
    curl_slist_free_all(fields);
}

int main(int count, char **arguments)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t len = sizeof address;
    pthread_t thread;
    (void)arguments;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&address, len) || listen(listener, 9) ||
        getsockname(listener, (struct sockaddr *)&address, &len))
        return 2;
    sprintf(url, "http://127.0.0.1:%d/", ntohs(address.sin_port));
    end_of_request = "\r\n\r\n";
    curl_global_init(CURL_GLOBAL_ALL);
    pthread_create(&thread, NULL, serve, NULL);
    if (count > 1) {
        upload("one\n\ntwo\r\n", "three\n", -1, 0, "0\r\n\r\n");
        upload("one\n\ntwo\r\n", "three\n", 16, 0, "0\r\n\r\n");
        upload("one\n\ntwo\r\n", "three\n", 16, 1, "0\r\n\r\n");
    } else {
        upload("one", "two\r", -1, 0, "0\r\n\r\n");
        upload("one", "two\r", -1, 1, "0\r\n\r\n");
        upload("one\ntwo\nend", NULL, 11, 2, "end");
        download(1024);
        download(5000);
        download(16384);
        download(100000);
        download(10000000);
    }
    fflush(stdout);
    _exit(0);
}
