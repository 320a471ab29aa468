/* TLS that ends early, and certificates that are not accepted: results, without the texts, which
 * name the functions of OpenSSL. Arguments: two ports of tls_ends.py, a folder of certificates, and
 * "cut" for the cases in which libcurl takes what was cut for complete. */
#include <curl/curl.h>
#include <stdio.h>
#include <string.h>

static const char *folder;

static size_t count(char *bytes, size_t size, size_t len, void *user)
{
    (void)bytes;
    *(size_t *)user += size * len;
    return size * len;
}

static void transfer(const char *name, const char *host, const char *port, const char *path,
                     const char *ca)
{
    char url[200], file[200], error[CURL_ERROR_SIZE] = "";
    struct curl_slist *hosts;
    size_t body = 0;
    long status = 0, verified = -1;
    CURL *easy = curl_easy_init();
    int code;
    snprintf(url, sizeof(url), "%s:%s:127.0.0.1", host, port);
    hosts = curl_slist_append(NULL, url);
    snprintf(url, sizeof(url), "https://%s:%s%s", host, port, path);
    snprintf(file, sizeof(file), "%s/%s", folder, ca);
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_RESOLVE, hosts);
    curl_easy_setopt(easy, CURLOPT_CAINFO, file);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, count);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, &body);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, error);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT, 10L);
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    code = curl_easy_perform(easy);
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_getinfo(easy, CURLINFO_SSL_VERIFYRESULT, &verified);
    if (code == CURLE_SSL_CACERT_BADFILE)
        verified = 0; /* nothing was verified */
    printf("%s: %d, status %ld, %zu bytes, verified %ld, %s\n", name, code, status, body, verified,
           *error ? "text" : "no text");
    curl_easy_cleanup(easy);
    curl_slist_free_all(hosts);
}

int main(int count, char **arguments)
{
    static const char *responses[] = {"nothing", "line", "head", "half", "whole", "chunk", "chunks",
                                      "endless"};
    static const char *ends[] = {"notify", "eof"};
    const char *port;
    if (count < 4)
        return 1;
    folder = arguments[3];
    port = arguments[2];
    setvbuf(stdout, NULL, _IOLBF, 0);
    curl_global_init(CURL_GLOBAL_ALL);
    if (count > 4) {
        transfer("endless eof", "server.test", port, "/endless/eof", "ca.pem");
        transfer("line eof", "server.test", port, "/line/eof", "ca.pem");
        return 0;
    }
    for (int at = 0; at < 6; at++)
        transfer("handshake", "server.test", arguments[1], "/", "ca.pem");
    for (size_t at = 0; at < sizeof(responses) / sizeof(*responses); at++)
        for (int end = 0; end < 2; end++) {
            char path[100], name[100];
            if (end == 1 && (!strcmp(responses[at], "endless") || !strcmp(responses[at], "line")))
                continue; /* what was cut is complete for libcurl */
            snprintf(path, sizeof(path), "/%s/%s", responses[at], ends[end]);
            snprintf(name, sizeof(name), "%s %s", responses[at], ends[end]);
            transfer(name, "server.test", port, path, "ca.pem");
        }
    transfer("reset", "server.test", port, "/nothing/reset", "ca.pem");
    transfer("other name", "other.test", port, "/whole/notify", "ca.pem");
    transfer("unknown issuer", "server.test", port, "/whole/notify", "server.pem");
    transfer("no file", "server.test", port, "/whole/notify", "missing.pem");
    transfer("no certificate", "server.test", port, "/whole/notify", "server.key");
    return 0;
}
