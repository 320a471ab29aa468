/* The headers that curl_easy_header and curl_easy_nextheader find. The arguments are URLs. */

#include <curl/curl.h>
#include <stdio.h>

static size_t drop(char *text, size_t size, size_t count, void *user)
{
    (void)text;
    (void)user;
    return size * count;
}

static void show(CURL *curl, unsigned origins, int request)
{
    struct curl_header *header = NULL;
    while ((header = curl_easy_nextheader(curl, origins, request, header)))
        printf("  %s=%s %zu/%zu %u\n", header->name, header->value, header->index, header->amount,
            header->origin);
}

int main(int count, char **urls)
{
    static const unsigned every =
        CURLH_HEADER | CURLH_TRAILER | CURLH_CONNECT | CURLH_1XX | CURLH_PSEUDO;
    struct curl_header *found;
    CURL *curl;
    int i, request;
    curl_global_init(CURL_GLOBAL_ALL);
    curl = curl_easy_init();
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, drop);
    curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 1L);
    for (i = 1; i < count; i++) {
        curl_easy_setopt(curl, CURLOPT_URL, urls[i]);
        printf("%d\n", curl_easy_perform(curl));
        for (request = -1; request < 3; request++) {
            int code = curl_easy_header(curl, "SET-cookie", 1, every, request, &found);
            printf("%d: %d", request, code);
            printf(" %d", curl_easy_header(curl, "x", 0, CURLH_TRAILER, request, &found));
            printf(" %d", curl_easy_header(curl, "Location", 0, CURLH_HEADER, request, &found));
            printf(" %d\n", curl_easy_header(curl, "Missing", 0, every, request, &found));
            show(curl, every, request);
            show(curl, CURLH_HEADER, request);
        }
    }
    printf("%d %d %d %d\n", curl_easy_header(NULL, "a", 0, 1, 0, &found),
        curl_easy_header(curl, NULL, 0, 1, 0, &found), curl_easy_header(curl, "a", 0, 0, 0, &found),
        curl_easy_header(curl, "a", 0, 64, 0, &found));
    printf("%d\n", curl_easy_header(curl, "a", 0, 1, -2, &found));
    curl_easy_reset(curl);
    show(curl, every, -1);
    curl_easy_cleanup(curl);
    return 0;
}
