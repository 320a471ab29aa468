/* Options that select what a request needs before it is sent, and how its response ends. The server
 * is a child on a socket with an abstract name: its responses are longer than they declare. */

#include <curl/curl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static char name[64];

static int listen_on_name(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t size = offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    strcpy(address.sun_path + 1, name);
    if (bind(fd, (struct sockaddr *)&address, (socklen_t)size) || listen(fd, 8))
        return -1;
    return fd;
}

static void serve(int fd)
{
    static const char response[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhello";
    for (;;) {
        char request[4096];
        int peer = accept(fd, NULL, NULL);
        if (peer < 0)
            _exit(1);
        if (read(peer, request, sizeof(request)) > 0
            && write(peer, response, sizeof(response) - 1) < 0)
            _exit(1);
        close(peer);
    }
}

static size_t show(char *bytes, size_t size, size_t count, void *user)
{
    (void)user;
    printf("[%.*s]", (int)(size * count), bytes);
    return size * count;
}

static int allowed;

static int permit(void *user, char *peer, char *local, int peer_port, int local_port)
{
    (void)peer;
    (void)local;
    printf("%s %d %d ", (char *)user, peer_port, local_port);
    return allowed ? CURL_PREREQFUNC_OK : CURL_PREREQFUNC_ABORT;
}

static int begin(void *state, void *reserved, void *user)
{
    (void)state;
    printf("%s%s ", (char *)user, reserved ? "?" : "");
    return !allowed;
}

static void run(CURL *easy, const char *what)
{
    curl_off_t length = 0;
    char error[CURL_ERROR_SIZE] = "";
    int result;
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, error);
    result = curl_easy_perform(easy);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, NULL);
    curl_easy_getinfo(easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
    printf("%s: %d, length %ld, %s\n", what, result, (long)length, result == 7 ? "" : error);
    fflush(stdout);
}

int main(void)
{
    CURL *easy;
    char path[120], proxy[160];
    int fd, size;
    pid_t child;
    snprintf(name, sizeof(name), "@options-%ld", (long)getpid());
    fd = listen_on_name();
    if (fd < 0)
        return 1;
    child = fork();
    if (child == 0)
        serve(fd);
    curl_global_init(CURL_GLOBAL_ALL);
    easy = curl_easy_init();
    curl_easy_setopt(easy, CURLOPT_URL, "http://host/");
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, show);
    curl_easy_setopt(easy, CURLOPT_ABSTRACT_UNIX_SOCKET, name);
    run(easy, "declared length");
    curl_easy_setopt(easy, CURLOPT_IGNORE_CONTENT_LENGTH, 1L);
    run(easy, "ignored length");
    curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
    run(easy, "without a body");
    curl_easy_setopt(easy, CURLOPT_NOBODY, 0L);
    /* A path, not an abstract name. */
    curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, name);
    run(easy, "path");
    curl_easy_setopt(easy, CURLOPT_ABSTRACT_UNIX_SOCKET, name);
    run(easy, "abstract name again");
    for (size = 106; size < 109; size++) {
        memset(path, 'p', sizeof(path));
        path[0] = '/';
        path[size] = 0;
        curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, path);
        run(easy, "long path");
        curl_easy_setopt(easy, CURLOPT_ABSTRACT_UNIX_SOCKET, path);
        run(easy, "long abstract name");
        snprintf(proxy, sizeof(proxy), "socks5h://localhost%s", path);
        curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, NULL);
        curl_easy_setopt(easy, CURLOPT_PROXY, proxy);
        run(easy, "long path of a proxy");
        curl_easy_setopt(easy, CURLOPT_PROXY, NULL);
    }
    curl_easy_setopt(easy, CURLOPT_ABSTRACT_UNIX_SOCKET, name);
    curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, permit);
    curl_easy_setopt(easy, CURLOPT_PREREQDATA, "permit");
    run(easy, "refused");
    allowed = 1;
    run(easy, "permitted");
    curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, 1L);
    run(easy, "permitted, fresh");
    curl_easy_setopt(easy, CURLOPT_CONNECT_ONLY, 1L);
    run(easy, "permitted, connect only");
    curl_easy_setopt(easy, CURLOPT_CONNECT_ONLY, 0L);
    curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, NULL);
    curl_easy_setopt(easy, CURLOPT_URL, "http://127.0.0.1:0/");
    run(easy, "neither");
    curl_easy_setopt(easy, CURLOPT_URL, "http://127.0.0.1:1/");
    curl_easy_setopt(easy, CURLOPT_RESOLVER_START_FUNCTION, begin);
    curl_easy_setopt(easy, CURLOPT_RESOLVER_START_DATA, "resolve");
    allowed = 0;
    run(easy, "not resolved");
    curl_easy_setopt(easy, CURLOPT_PROXY, "http://127.0.0.1:2/");
    run(easy, "proxy not resolved");
    curl_easy_setopt(easy, CURLOPT_PROXY, NULL);
    allowed = 1;
    run(easy, "resolved");
    run(easy, "resolved before");
    curl_easy_setopt(easy, CURLOPT_URL, "http://host.invalid/");
    run(easy, "unknown name");
    run(easy, "unknown name again");
    curl_easy_cleanup(easy);
    curl_global_cleanup();
    kill(child, 9);
    waitpid(child, NULL, 0);
    return 0;
}
