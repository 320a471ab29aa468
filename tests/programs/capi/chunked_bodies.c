/* Bodies of a read callback with a custom Transfer-Encoding: the request as a server receives it,
 * for sizes that are right, too small, too large, and none. Argument: a URL that returns it. */

#include <curl/curl.h>
#include <stdio.h>
#include <string.h>

static const char text[] = "hello world";
static size_t at;
static int calls;

static size_t supply(char *bytes, size_t size, size_t count, void *user)
{
    size_t len = sizeof text - 1 - at;
    (void)user;
    calls++;
    len = len < size * count ? len : size * count;
    memcpy(bytes, text + at, len);
    at += len;
    return len;
}

static void run(const char *url, int is_put, long len, int is_chunked)
{
    CURL *easy = curl_easy_init();
    struct curl_slist *lines = curl_slist_append(NULL, "Expect:");
    char error[CURL_ERROR_SIZE] = "";
    if (is_chunked)
        lines = curl_slist_append(lines, "Transfer-Encoding: chunked");
    at = 0;
    calls = 0;
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, lines);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, error);
    curl_easy_setopt(easy, CURLOPT_READFUNCTION, supply);
    curl_easy_setopt(easy, is_put ? CURLOPT_UPLOAD : CURLOPT_POST, 1L);
    curl_easy_setopt(easy, is_put ? CURLOPT_INFILESIZE : CURLOPT_POSTFIELDSIZE, len);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, 5000L);
    printf("# %s, size %ld, chunked %d\n", is_put ? "PUT" : "POST", len, is_chunked);
    fflush(stdout);
    CURLcode code = curl_easy_perform(easy);
    printf("\n= %d '%s', %d calls\n", (int)code, error, calls);
    fflush(stdout);
    curl_easy_cleanup(easy);
    curl_slist_free_all(lines);
}

int main(int count, char **arguments)
{
    static const long sizes[] = {-1, 5, 11, 100};
    curl_global_init(CURL_GLOBAL_ALL);
    for (int is_put = 0; is_put <= 1; is_put++) {
        for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++)
            run(arguments[count - 1], is_put, sizes[i], 1);
        run(arguments[count - 1], is_put, 11, 0);
    }
    curl_global_cleanup();
    return 0;
}
