/* Local ports and addresses that are taken, free, or not available. The argument is the URL of a
 * server on 127.0.0.1. */
#include <arpa/inet.h>
#include <curl/curl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

static const char *url;

static size_t ignore(char *bytes, size_t size, size_t count, void *user)
{
    (void)bytes;
    (void)user;
    return size * count;
}

/* A port of all addresses of a family that is taken. */
static int taken_port(int family)
{
    struct sockaddr_in6 bound;
    struct sockaddr *address = (struct sockaddr *)&bound;
    socklen_t len = sizeof bound;
    int fd = socket(family, SOCK_STREAM, 0);
    memset(&bound, 0, sizeof bound);
    bound.sin6_family = (sa_family_t)family;
    if (bind(fd, address, family == AF_INET ? sizeof(struct sockaddr_in) : sizeof bound) ||
        getsockname(fd, address, &len))
        return 0;
    return ntohs(bound.sin6_port);
}

static void get(const char *to, const char *interface, int port, int range)
{
    char error[CURL_ERROR_SIZE] = "";
    long used = 0;
    CURL *easy = curl_easy_init();
    curl_easy_setopt(easy, CURLOPT_URL, to);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, ignore);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, error);
    curl_easy_setopt(easy, CURLOPT_INTERFACE, interface);
    curl_easy_setopt(easy, CURLOPT_LOCALPORT, (long)port);
    curl_easy_setopt(easy, CURLOPT_LOCALPORTRANGE, (long)range);
    printf("range %d: %d", range, curl_easy_perform(easy));
    curl_easy_getinfo(easy, CURLINFO_LOCAL_PORT, &used);
    printf(", %s, '%s'\n", used > port && used < port + range ? "behind" : "other", error);
    curl_easy_cleanup(easy);
}

int main(int count, char **arguments)
{
    int port = taken_port(AF_INET), port6 = taken_port(AF_INET6);
    url = count > 1 ? arguments[1] : "";
    curl_global_init(CURL_GLOBAL_ALL);
    get(url, NULL, port, 0);
    get(url, NULL, port, 1);
    get(url, NULL, port, 40);
    get(url, "127.0.0.1", port, 40);
    get(url, "host!127.0.0.1", 0, 0);
    get(url, "203.0.113.7", 0, 0);
    get(url, "host!203.0.113.7", port, 40);
    get(url, "if!absent", 0, 0);
    get(url, "absent.invalid", 0, 0);
    get(url, "localhost", 0, 0);
    get(url, "host!localhost", port, 40);
    get(url, "if!localhost", 0, 0);
    if (port6)
        get("http://[::1]:1/", NULL, port6, 1);
    return 0;
}
