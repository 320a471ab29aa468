/* What is kept and released: descriptors after the end of handles, texts that were returned,
 * transfers that a callback resumes or ends, credentials when a redirect leaves their host. The
 * argument is a base URL: /echo returns its request, /leave redirects to /echo of another host, and
 * everything else has six bytes. The second one is the path of a file to write. */

#include <curl/curl.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>

static const char *base;
static CURL *easy;
static int calls;
static char received[4096];
static size_t received_size;

static size_t ignore(char *bytes, size_t size, size_t count, void *user)
{
    (void)bytes;
    (void)user;
    return size * count;
}

static size_t keep(char *bytes, size_t size, size_t count, void *user)
{
    (void)user;
    if (received_size + size * count >= sizeof received)
        return 0;
    memcpy(received + received_size, bytes, size * count);
    received_size += size * count;
    received[received_size] = 0;
    return size * count;
}

static CURL *transfer(const char *path)
{
    char url[200];
    CURL *made = curl_easy_init();
    snprintf(url, sizeof url, "%s%s", base, path);
    curl_easy_setopt(made, CURLOPT_URL, url);
    curl_easy_setopt(made, CURLOPT_WRITEFUNCTION, ignore);
    curl_easy_setopt(made, CURLOPT_TIMEOUT, 20L);
    return made;
}

static int descriptors(void)
{
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    while (readdir(folder) != NULL)
        count++;
    closedir(folder);
    return count;
}

static void cleaned_handles_keep_no_descriptor(void)
{
    int before = 0;
    for (int i = 0; i < 20; i++) {
        easy = transfer("/");
        curl_easy_perform(easy);
        curl_easy_cleanup(easy);
        if (i == 0)
            before = descriptors();
    }
    printf("descriptors: %d more\n", descriptors() - before);
}

static void texts_stay(void)
{
    char *one = NULL, *two = NULL;
    easy = transfer("/");
    curl_easy_perform(easy);
    curl_easy_getinfo(easy, CURLINFO_EFFECTIVE_URL, &one);
    curl_easy_getinfo(easy, CURLINFO_EFFECTIVE_URL, &two);
    printf("same text: %d\n", one == two);
    curl_easy_cleanup(easy);
}

static void descriptors_below_zero_are_ignored(void)
{
    struct curl_waitfd none = { -1, CURL_WAIT_POLLIN, 1 };
    int ready = -1;
    CURLM *multi = curl_multi_init();
    printf("wait: %d", curl_multi_wait(multi, &none, 1, 1, &ready));
    printf(", %d ready, %d\n", ready, none.revents);
    curl_multi_cleanup(multi);
}

static size_t read_and_resume(char *bytes, size_t size, size_t count, void *user)
{
    (void)size;
    (void)count;
    (void)user;
    if (calls++ == 0)
        printf("resume: %d\n", curl_easy_pause(easy, CURLPAUSE_CONT));
    if (calls > 5)
        return 0;
    memset(bytes, 'a' + calls - 1, 4);
    return 4;
}

/* A resumed callback is not called within itself. */
static void read_callback_may_resume(void)
{
    for (int is_form = 0; is_form < 2; is_form++) {
        curl_mime *mime = NULL;
        calls = 0;
        received_size = 0;
        easy = transfer("/echo");
        curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, keep);
        if (is_form) {
            mime = curl_mime_init(easy);
            curl_mimepart *part = curl_mime_addpart(mime);
            curl_mime_name(part, "f");
            curl_mime_data_cb(part, 20, read_and_resume, NULL, NULL, NULL);
            curl_easy_setopt(easy, CURLOPT_MIMEPOST, mime);
        } else {
            curl_easy_setopt(easy, CURLOPT_UPLOAD, 1L);
            curl_easy_setopt(easy, CURLOPT_INFILESIZE, 20L);
            curl_easy_setopt(easy, CURLOPT_READFUNCTION, read_and_resume);
        }
        printf("upload: %d", curl_easy_perform(easy));
        printf(", %d\n", strstr(received, "aaaabbbbccccddddeeee") != NULL);
        curl_easy_cleanup(easy);
        curl_mime_free(mime);
    }
}

static size_t pause_once(char *bytes, size_t size, size_t count, void *user)
{
    (void)bytes;
    (void)size;
    (void)count;
    (void)user;
    return ++calls == 1 ? CURL_READFUNC_PAUSE : CURL_READFUNC_ABORT;
}

static int resume_and_abort(void *user, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    (void)user;
    (void)a;
    (void)b;
    (void)c;
    (void)d;
    if (calls != 1)
        return 0;
    printf("resume: %d\n", curl_easy_pause(easy, CURLPAUSE_CONT));
    return 1;
}

/* A transfer ends once, even if what a callback resumes would fail. */
static void transfer_ends_once(void)
{
    int left, running = 1;
    CURLMsg *message;
    CURLM *multi = curl_multi_init();
    calls = 0;
    easy = transfer("/echo");
    curl_easy_setopt(easy, CURLOPT_UPLOAD, 1L);
    curl_easy_setopt(easy, CURLOPT_INFILESIZE, 20L);
    curl_easy_setopt(easy, CURLOPT_READFUNCTION, pause_once);
    curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, resume_and_abort);
    curl_multi_add_handle(multi, easy);
    while (running) {
        curl_multi_perform(multi, &running);
        curl_multi_wait(multi, NULL, 0, 50, NULL);
    }
    while ((message = curl_multi_info_read(multi, &left)) != NULL)
        printf("message: %d, %d left\n", message->data.result, left);
    curl_multi_remove_handle(multi, easy);
    curl_easy_cleanup(easy);
    curl_multi_cleanup(multi);
}

static size_t pause_always(char *bytes, size_t size, size_t count, void *user)
{
    (void)bytes;
    (void)size;
    (void)count;
    (void)user;
    return CURL_WRITEFUNC_PAUSE;
}

/* The timeout holds although the whole response has arrived. */
static void paused_transfer_times_out(void)
{
    easy = transfer("/");
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, pause_always);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, 200L);
    printf("paused: %d\n", curl_easy_perform(easy));
    curl_easy_cleanup(easy);
}

/* The password of one host in a .netrc file is not for another one, nor is a token. */
static void credentials_stay_with_their_host(const char *path)
{
    FILE *file = fopen(path, "w");
    fputs("machine 127.0.0.1\nlogin one\npassword secret\n\nmachine localhost\nlogin two\n", file);
    fclose(file);
    for (int has_token = 0; has_token < 2; has_token++) {
        received_size = 0;
        easy = transfer("/leave");
        curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, keep);
        curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 1L);
        curl_easy_setopt(easy, CURLOPT_NETRC, (long)CURL_NETRC_OPTIONAL);
        curl_easy_setopt(easy, CURLOPT_NETRC_FILE, path);
        if (has_token) {
            curl_easy_setopt(easy, CURLOPT_XOAUTH2_BEARER, "token");
            curl_easy_setopt(easy, CURLOPT_HTTPAUTH, (long)CURLAUTH_BEARER);
        }
        printf("left: %d", curl_easy_perform(easy));
        printf(", %d\n", strstr(received, "Authorization") != NULL);
        curl_easy_cleanup(easy);
    }
}

int main(int count, char **arguments)
{
    if (count != 3)
        return 2;
    base = arguments[1];
    curl_global_init(CURL_GLOBAL_ALL);
    cleaned_handles_keep_no_descriptor();
    texts_stay();
    descriptors_below_zero_are_ignored();
    read_callback_may_resume();
    transfer_ends_once();
    paused_transfer_times_out();
    credentials_stay_with_their_host(arguments[2]);
    curl_global_cleanup();
    return 0;
}
