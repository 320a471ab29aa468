/* What an application sees of responses, well-formed or not: for each URL in the arguments its
 * result, the status, the number of header lines, the body and the error's text. */

#include <curl/curl.h>
#include <stdio.h>
#include <string.h>

static long lines;
static char body[65536];
static size_t body_size;

static size_t count_line(char *bytes, size_t size, size_t count, void *user)
{
    (void)bytes;
    (void)user;
    lines++;
    return size * count;
}

static size_t keep_body(char *bytes, size_t size, size_t count, void *user)
{
    size_t length = size * count;
    (void)user;
    if (length > sizeof(body) - body_size)
        return 0;
    memcpy(body + body_size, bytes, length);
    body_size += length;
    return length;
}

int main(int count, char **arguments)
{
    curl_global_init(CURL_GLOBAL_ALL);
    for (int at = 1; at < count; at++) {
        char error[CURL_ERROR_SIZE] = "";
        long status = 0;
        int result;
        const char *url = arguments[at];
        CURL *easy = curl_easy_init();
        lines = 0;
        body_size = 0;
        if (*url == '0') { /* HTTP/0.9 is allowed */
            curl_easy_setopt(easy, CURLOPT_HTTP09_ALLOWED, 1L);
            url++;
        }
        if (*url == 'H') {
            curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
            url++;
        }
        curl_easy_setopt(easy, CURLOPT_URL, url);
        curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, count_line);
        curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, keep_body);
        curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, error);
        result = curl_easy_perform(easy);
        curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
        printf("%s %d %ld %ld ", strrchr(url, '/') + 1, result, status, lines);
        for (size_t i = 0; i < body_size; i++)
            printf("%02x", (unsigned char)body[i]);
        printf(" %s\n", error);
        curl_easy_cleanup(easy);
    }
    curl_global_cleanup();
    return 0;
}
