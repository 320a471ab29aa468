/* Handles that are freed within callbacks, their own ones too. libcurl does not allow that, and
 * crashes in most of these cases, so this program is for our library only. The argument is the URL
 * of a server that reads request bodies; the second one that of a file to write. */

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum place { WRITE, HEADER, READ, PROGRESS, DEBUG, SOCKET, TIMER, PLACES };

static enum place place;
static CURLM *multi;
static CURL *handles[2];
static int victim, calls;

static void free_victim(enum place here)
{
    if (here == place && handles[victim]) {
        CURL *easy = handles[victim];
        handles[victim] = NULL;
        curl_easy_cleanup(easy);
    }
}

static size_t on_write(char *bytes, size_t size, size_t count, void *user)
{
    (void)bytes;
    (void)user;
    calls++;
    free_victim(WRITE);
    return size * count;
}

static size_t on_header(char *bytes, size_t size, size_t count, void *user)
{
    (void)bytes;
    (void)user;
    calls++;
    free_victim(HEADER);
    return size * count;
}

static size_t on_read(char *bytes, size_t size, size_t count, void *user)
{
    (void)user;
    calls++;
    free_victim(READ);
    memset(bytes, 'a', size * count < 3 ? size * count : 3);
    return 3;
}

static int on_progress(void *user, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    (void)user;
    (void)a;
    (void)b;
    (void)c;
    (void)d;
    free_victim(PROGRESS);
    return 0;
}

static int on_debug(CURL *easy, curl_infotype type, char *text, size_t len, void *user)
{
    (void)easy;
    (void)type;
    (void)text;
    (void)len;
    (void)user;
    free_victim(DEBUG);
    return 0;
}

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *user, void *assigned)
{
    (void)easy;
    (void)fd;
    (void)what;
    (void)user;
    (void)assigned;
    free_victim(SOCKET);
    return 0;
}

static int on_timer(CURLM *of, long ms, void *user)
{
    (void)of;
    (void)ms;
    (void)user;
    free_victim(TIMER);
    return 0;
}

static CURL *transfer(const char *url)
{
    CURL *easy = curl_easy_init();
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_write);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(easy, CURLOPT_READFUNCTION, on_read);
    curl_easy_setopt(easy, CURLOPT_POST, 1L);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE, 30L);
    curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(easy, CURLOPT_DEBUGFUNCTION, on_debug);
    curl_easy_setopt(easy, CURLOPT_VERBOSE, 1L);
    return easy;
}

static void in_perform(const char *url)
{
    int result;
    victim = calls = 0;
    handles[0] = transfer(url);
    result = curl_easy_perform(handles[0]);
    printf("perform %d: %d", place, result);
    printf(", freed %d, %d calls\n", !handles[0], place == WRITE || place == HEADER ? calls : 0);
    if (handles[0])
        curl_easy_cleanup(handles[0]);
}

static void in_multi(const char *url)
{
    int running = 1, left, turns = 0, messages = 0, ends = 0;
    CURLMsg *message;
    multi = curl_multi_init();
    curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, on_socket);
    curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, on_timer);
    handles[0] = transfer(url);
    handles[1] = transfer(url);
    for (int at = 0; at < 2; at++)
        if (handles[at])
            curl_multi_add_handle(multi, handles[at]);
    curl_multi_socket_action(multi, CURL_SOCKET_TIMEOUT, 0, &running);
    while (running && turns++ < 1000) {
        curl_multi_wait(multi, NULL, 0, 20, NULL);
        curl_multi_perform(multi, &running);
    }
    while ((message = curl_multi_info_read(multi, &left))) {
        messages++;
        ends += message->easy_handle == handles[1 - victim] && message->data.result == CURLE_OK;
    }
    printf("multi %d, handle %d: %d running, %d messages, %d ends\n", place, victim, running,
           messages, ends);
    for (int at = 0; at < 2; at++)
        if (handles[at]) {
            curl_multi_remove_handle(multi, handles[at]);
            curl_easy_cleanup(handles[at]);
        }
    printf("end %d\n", curl_multi_cleanup(multi));
}

/* Reading goes on with nothing: not with the callback, and not with the input of the process. */
static void in_upload(const char *url, long from)
{
    int result;
    victim = calls = 0;
    place = READ;
    handles[0] = curl_easy_init();
    curl_easy_setopt(handles[0], CURLOPT_URL, url);
    curl_easy_setopt(handles[0], CURLOPT_UPLOAD, 1L);
    curl_easy_setopt(handles[0], CURLOPT_READFUNCTION, on_read);
    curl_easy_setopt(handles[0], CURLOPT_RESUME_FROM, from);
    result = curl_easy_perform(handles[0]);
    printf("upload: %d, freed %d, %d calls\n", result, !handles[0], calls);
}

static void fill_stdin(void)
{
    int ends[2];
    if (pipe(ends) || write(ends[1], "SECRET", 6) != 6 || dup2(ends[0], 0) || close(ends[1]))
        exit(3);
}

int main(int count, char **arguments)
{
    const char *url = count > 2 ? arguments[1] : "";
    fill_stdin();
    curl_global_init(CURL_GLOBAL_ALL);
    in_upload(url, 100);
    in_upload(arguments[2], 0);
    for (place = WRITE; place < SOCKET; place++)
        in_perform(url);
    for (place = WRITE; place < PLACES; place++)
        for (victim = 0; victim < 2; victim++)
            in_multi(url);
    curl_global_cleanup();
    return 0;
}
