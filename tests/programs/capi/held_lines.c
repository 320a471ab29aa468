/* Header callbacks that pause, or end up paused, in each way: what is passed again, joined and in
 * which order, and that a response without further bytes does not end before it is resumed.
 * Argument: a URL. */

#include <curl/curl.h>
#include <stdio.h>

enum way { BY_HEADER, BY_PAUSE, BY_WRITE, IN_WRITE };

static CURL *easy;
static enum way way;
static int headers, writes, pause_at;

static size_t header(char *bytes, size_t size, size_t count, void *user)
{
    (void)user;
    headers++;
    printf("header %d: '%.*s'\n", headers, (int)(size * count), bytes);
    if (way == BY_HEADER && headers == pause_at)
        return CURL_WRITEFUNC_PAUSE;
    if (way == BY_PAUSE && headers == pause_at)
        curl_easy_pause(easy, CURLPAUSE_RECV);
    return size * count;
}

static size_t body(char *bytes, size_t size, size_t count, void *user)
{
    (void)user;
    writes++;
    printf("body %d: '%.*s'\n", writes, (int)(size * count), bytes);
    if (way == BY_WRITE && writes == pause_at)
        return CURL_WRITEFUNC_PAUSE;
    if (way == IN_WRITE && writes == pause_at)
        curl_easy_pause(easy, CURLPAUSE_RECV);
    return size * count;
}

static void run(const char *url, enum way pauses, int at, long shows, long bodiless)
{
    CURLM *multi = curl_multi_init();
    CURLMsg *message;
    int running = 1, left, resumed = 0;
    way = pauses;
    pause_at = at;
    headers = writes = 0;
    printf("# way %d at %d, shows %ld, bodiless %ld\n", (int)pauses, at, shows, bodiless);
    easy = curl_easy_init();
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_HEADER, shows);
    curl_easy_setopt(easy, CURLOPT_NOBODY, bodiless);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, header);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, body);
    curl_multi_add_handle(multi, easy);
    for (int turn = 0; running && turn < 2000; turn++) {
        int before = headers + writes;
        curl_multi_perform(multi, &running);
        if (running)
            curl_multi_poll(multi, NULL, 0, 20, NULL);
        if (running && headers + writes == before && before >= 1 && !resumed) {
            resumed = 1;
            printf("resumed: %d\n", (int)curl_easy_pause(easy, CURLPAUSE_CONT));
        }
    }
    message = curl_multi_info_read(multi, &left);
    printf("%d running, result %d\n", running, message ? (int)message->data.result : -1);
    curl_multi_remove_handle(multi, easy);
    curl_easy_cleanup(easy);
    curl_multi_cleanup(multi);
}

int main(int count, char **arguments)
{
    const char *url = arguments[count - 1];
    for (long shows = 0; shows <= 1; shows++)
        for (long bodiless = 0; bodiless <= 1; bodiless++)
            for (int at = 1; at <= 3; at++)
                for (int pauses = BY_HEADER; pauses <= IN_WRITE; pauses++)
                    run(url, (enum way)pauses, at, shows, bodiless);
    return 0;
}
