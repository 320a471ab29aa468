/* Verbose output: connections that are opened, refused, used again, kept and closed, and the
 * requests on them. Arguments: the URL of a server, and that of a proxy that refuses tunnels. */

#include <curl/curl.h>
#include <stdio.h>
#include <string.h>

/* Prints a piece without addresses of memory and times. */
static int print(CURL *easy, curl_infotype type, char *data, size_t size, void *user)
{
    static const char *const kinds[] = {"*", "<", ">", "{", "}"};
    char text[4096];
    char *at;
    (void)easy;
    (void)user;
    if (type > CURLINFO_DATA_OUT || size >= sizeof(text))
        return 0;
    memcpy(text, data, size);
    text[size] = 0;
    at = type == CURLINFO_TEXT ? strstr(text, "0x") : NULL;
    if (at)
        strcpy(at, strchr(at, ' ') ? strchr(at, ' ') : "\n");
    at = type == CURLINFO_TEXT ? strstr(text, " after ") : NULL;
    if (at && strstr(at, " ms: "))
        strcpy(at, strstr(at, " ms: "));
    printf("%s %s%s", kinds[type], text, strchr(text, '\n') ? "" : "\n");
    return 0;
}

static size_t drop(char *data, size_t size, size_t count, void *user)
{
    (void)data;
    (void)user;
    return size * count;
}

static void perform(CURL *easy, const char *base, const char *path)
{
    char url[512];
    snprintf(url, sizeof(url), "%s%s", base, path);
    printf("# %s\n", path);
    curl_easy_setopt(easy, CURLOPT_URL, url);
    printf("%d\n", (int)curl_easy_perform(easy));
}

int main(int count, char **arguments)
{
    CURL *easy = curl_easy_init();
    const char *base = arguments[1];
    struct curl_slist *names = NULL;
    char entry[128];
    if (count != 3)
        return 2;
    curl_easy_setopt(easy, CURLOPT_VERBOSE, 1L);
    curl_easy_setopt(easy, CURLOPT_DEBUGFUNCTION, print);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, drop);
    curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 1L);
    perform(easy, base, "/");
    perform(easy, base, "/");
    perform(easy, base, "/case/0");
    perform(easy, base, "/");
    perform(easy, base, "/case/1");
    perform(easy, base, "/case/2");
    perform(easy, base, "/case/3");
    perform(easy, "http://127.0.0.1:1", "/refused");
    perform(easy, "http://host.invalid", "/unresolved");
    perform(easy, "unknown://host", "/scheme");
    perform(easy, "http://[::", "/malformed");
    perform(easy, "file://", "/dev/null");
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, "body");
    perform(easy, base, "/echo");
    curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L);
    curl_easy_setopt(easy, CURLOPT_FORBID_REUSE, 1L);
    perform(easy, base, "/");
    curl_easy_setopt(easy, CURLOPT_FORBID_REUSE, 0L);
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);
    perform(easy, base, "/");
    perform(easy, base, "/");
    snprintf(entry, sizeof(entry), "host.example:%s:127.0.0.1", strrchr(base, ':') + 1);
    names = curl_slist_append(names, entry);
    curl_easy_setopt(easy, CURLOPT_RESOLVE, names);
    snprintf(entry, sizeof(entry), "http://host.example:%s", strrchr(base, ':') + 1);
    perform(easy, entry, "/");
    curl_easy_setopt(easy, CURLOPT_RESOLVE, NULL);
    curl_easy_setopt(easy, CURLOPT_PROXY, arguments[2]);
    perform(easy, base, "/proxied");
    perform(easy, base, "/proxied");
    curl_easy_setopt(easy, CURLOPT_HTTPPROXYTUNNEL, 1L);
    perform(easy, base, "/tunnel");
    curl_easy_cleanup(easy);
    curl_slist_free_all(names);
    return 0;
}
