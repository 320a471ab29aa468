/* What is known of requests that were not sent, and of malformed URLs. */

#include <curl/curl.h>
#include <stdio.h>

static void show(CURL *easy, const char *url)
{
    const CURLINFO times[] = {CURLINFO_CONNECT_TIME_T, CURLINFO_APPCONNECT_TIME_T,
                              CURLINFO_PRETRANSFER_TIME_T, CURLINFO_STARTTRANSFER_TIME_T};
    char *method = NULL, *file = NULL, *folder = NULL, *address = NULL;
    long size = 0, version = 0;
    curl_off_t sent = 0, length = 0, time = 0;
    size_t at;
    curl_easy_setopt(easy, CURLOPT_URL, url);
    printf("%s: %d", url, (int)curl_easy_perform(easy));
    curl_easy_getinfo(easy, CURLINFO_EFFECTIVE_METHOD, &method);
    curl_easy_getinfo(easy, CURLINFO_CAINFO, &file);
    curl_easy_getinfo(easy, CURLINFO_CAPATH, &folder);
    curl_easy_getinfo(easy, CURLINFO_PRIMARY_IP, &address);
    curl_easy_getinfo(easy, CURLINFO_REQUEST_SIZE, &size);
    curl_easy_getinfo(easy, CURLINFO_HTTP_VERSION, &version);
    curl_easy_getinfo(easy, CURLINFO_SIZE_UPLOAD_T, &sent);
    curl_easy_getinfo(easy, CURLINFO_CONTENT_LENGTH_UPLOAD_T, &length);
    printf(", %s, %s, %s, '%s', %ld, %ld, %ld, %ld, times", method, file, folder, address, size,
           version, (long)sent, (long)length);
    for (at = 0; at < sizeof(times) / sizeof(*times); at++) {
        curl_easy_getinfo(easy, times[at], &time);
        printf(" %d", time > 0);
    }
    printf("\n");
}

int main(void)
{
    const char *const urls[] = {"http://127.0.0.1:1/", "http://host.invalid/", "http://[::",
                                "unknown://host/"};
    CURL *easy = curl_easy_init();
    size_t at;
    for (at = 0; at < sizeof(urls) / sizeof(*urls); at++)
        show(easy, urls[at]);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, "body");
    for (at = 0; at < sizeof(urls) / sizeof(*urls); at++)
        show(easy, urls[at]);
    curl_easy_cleanup(easy);
    return 0;
}
