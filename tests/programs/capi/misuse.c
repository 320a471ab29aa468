/* Arguments, options, callbacks and orders of calls that no program should use. Each case runs in a
 * process of its own, and prints codes: a crash is a line, too. The argument is the URL of a server
 * that reads request bodies. */

#define CURL_DISABLE_DEPRECATION
#include <curl/curl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *url;

static void run_case(const char *name, void (*body)(void))
{
    int status;
    printf("# %s\n", name);
    fflush(stdout);
    if (fork() == 0) {
        alarm(20);
        body();
        fflush(stdout);
        _exit(0);
    }
    wait(&status);
    if (status)
        printf("signal %d, status %d\n", WTERMSIG(status), WEXITSTATUS(status));
}

static size_t ignore(char *bytes, size_t size, size_t count, void *user)
{
    (void)bytes;
    (void)user;
    return size * count;
}

static CURL *transfer(void)
{
    CURL *easy = curl_easy_init();
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, ignore);
    return easy;
}

static void null_easy(void)
{
    long number = 7;
    struct curl_header *header = NULL;
    curl_easy_cleanup(NULL);
    printf("perform %d\n", curl_easy_perform(NULL));
    printf("setopt %d\n", curl_easy_setopt(NULL, CURLOPT_URL, url));
    printf("getinfo %d\n", curl_easy_getinfo(NULL, CURLINFO_RESPONSE_CODE, &number));
    printf("pause %d\n", curl_easy_pause(NULL, 0));
    printf("upkeep %d\n", curl_easy_upkeep(NULL));
    printf("header %d\n", curl_easy_header(NULL, "a", 0, CURLH_HEADER, -1, &header));
    printf("escape -1 %d\n", curl_easy_escape(NULL, "a b", -1) == NULL);
    printf("unescape -1 %d\n", curl_easy_unescape(NULL, "a", -1, NULL) == NULL);
    printf("strerror %s, %s\n", curl_easy_strerror((CURLcode)-1),
            curl_easy_strerror((CURLcode)9999));
    printf("option %d %d %d\n", curl_easy_option_by_name(NULL) == NULL,
           curl_easy_option_by_name("") == NULL, curl_easy_option_by_id((CURLoption)-5) == NULL);
    printf("option next %d\n", curl_easy_option_next(NULL) != NULL);
    curl_free(NULL);
    curl_slist_free_all(NULL);
    printf("slist %d\n", curl_slist_append(NULL, "a") != NULL);
    printf("getdate %ld %ld\n", (long)curl_getdate("", NULL), (long)curl_getdate("99", NULL));
    printf("%ld\n", number);
}

static void null_multi(void)
{
    int count = 7;
    long ms = 7;
    CURL *easy = curl_easy_init();
    CURLM *multi = curl_multi_init();
    fd_set set;
    FD_ZERO(&set);
    printf("cleanup %d\n", curl_multi_cleanup(NULL));
    printf("add %d %d %d\n", curl_multi_add_handle(NULL, NULL), curl_multi_add_handle(multi,
            NULL),
           curl_multi_add_handle(NULL, easy));
    printf("remove %d %d %d %d\n", curl_multi_remove_handle(NULL, NULL),
           curl_multi_remove_handle(multi, NULL), curl_multi_remove_handle(NULL, easy),
           curl_multi_remove_handle(multi, easy));
    printf("setopt %d\n", curl_multi_setopt(NULL, CURLMOPT_MAXCONNECTS, 1L));
    printf("setopt unknown %d %d\n", curl_multi_setopt(multi, (CURLMoption)9999, 1L),
           curl_multi_setopt(multi, (CURLMoption)-1, 1L));
    printf("perform %d\n", curl_multi_perform(NULL, &count));
    printf("info %d\n", curl_multi_info_read(NULL, &count) == NULL);
    printf("count %d\n", count);
    printf("timeout %d\n", curl_multi_timeout(NULL, &ms));
    printf("assign %d %d\n", curl_multi_assign(multi, -1, NULL),
           curl_multi_assign(multi, 1 << 30, NULL));
    printf("fdset %d\n", curl_multi_fdset(NULL, &set, &set, &set, &count));
    printf("wait %d %d %d\n", curl_multi_wait(NULL, NULL, 0, 0, &count),
           curl_multi_wait(multi, NULL, 0, -1, &count), curl_multi_wait(multi, NULL, 0, 0, NULL));
    printf("poll %d %d %d\n", curl_multi_poll(NULL, NULL, 0, 0, &count),
           curl_multi_poll(multi, NULL, 0, -1, &count), curl_multi_poll(multi, NULL, 0, 0, NULL));
    printf("wakeup %d\n", curl_multi_wakeup(NULL));
    printf("strerror %s, %s\n", curl_multi_strerror((CURLMcode)-2),
            curl_multi_strerror((CURLMcode)99));
    printf("share %s, %s\n", curl_share_strerror((CURLSHcode)-2),
            curl_share_strerror((CURLSHcode)99));
    printf("url %s, %s\n", curl_url_strerror((CURLUcode)-2), curl_url_strerror((CURLUcode)99));
    printf("share %d %d\n", curl_share_cleanup(NULL), curl_share_setopt(NULL, CURLSHOPT_SHARE,
            2));

    printf("unknown socket %d\n", curl_multi_socket_action(multi, 77777, CURL_CSELECT_IN,
            &count));
    printf("-5 %d\n", curl_multi_socket_action(multi, -5, CURL_CSELECT_IN, &count));
    printf("end %d\n", curl_multi_cleanup(multi));
    curl_easy_cleanup(easy);
}

static void null_url_and_mime(void)
{
    char *part = NULL;
    CURLU *handle = curl_url();
    CURL *easy = curl_easy_init();
    curl_mime *mime = curl_mime_init(easy);
    curl_mimepart *mimepart;
    curl_url_cleanup(NULL);
    printf("dup %d\n", curl_url_dup(handle) != NULL);
    printf("set %d %d %d\n", curl_url_set(NULL, CURLUPART_URL, "http://a", 0),
           curl_url_set(handle, (CURLUPart)99, "a", 0), curl_url_set(handle, CURLUPART_HOST,
                   NULL, 0));
    printf("get %d %d %d %d\n", curl_url_get(NULL, CURLUPART_URL, &part, 0),
           curl_url_get(handle, CURLUPART_URL, NULL, 0), curl_url_get(handle, (CURLUPart)99,
                   &part, 0),
           curl_url_get(handle, CURLUPART_URL, &part, 0));
    curl_mime_free(NULL);
    printf("mime %d\n", curl_mime_init(NULL) != NULL);
    printf("addpart %d\n", curl_mime_addpart(NULL) == NULL);
    mimepart = curl_mime_addpart(mime);
    printf("name %d %d\n", curl_mime_name(NULL, "a"), curl_mime_name(mimepart, NULL));
    printf("filename %d %d\n", curl_mime_filename(NULL, "a"), curl_mime_filename(mimepart, NULL));
    printf("type %d %d\n", curl_mime_type(NULL, "a"), curl_mime_type(mimepart, NULL));
    printf("encoder %d %d %d\n", curl_mime_encoder(NULL, "8bit"), curl_mime_encoder(mimepart,
            NULL),
           curl_mime_encoder(mimepart, "nonsense"));
    printf("data %d %d\n", curl_mime_data(NULL, "a", 1), curl_mime_data(mimepart, NULL, 5));
    printf("filedata %d %d %d\n", curl_mime_filedata(NULL, "a"), curl_mime_filedata(mimepart,
            NULL),
           curl_mime_filedata(mimepart, "/no/such/file"));
    printf("data_cb %d %d\n", curl_mime_data_cb(NULL, 1, NULL, NULL, NULL, NULL),
           curl_mime_data_cb(mimepart, 1, NULL, NULL, NULL, NULL));
    printf("subparts %d %d %d\n", curl_mime_subparts(NULL, mime), curl_mime_subparts(mimepart,
            NULL),
           curl_mime_subparts(mimepart, mime));
    printf("headers %d %d\n", curl_mime_headers(NULL, NULL, 0), curl_mime_headers(mimepart, NULL,
            1));
    curl_mime_free(mime);
    curl_easy_cleanup(easy);
    curl_url_cleanup(handle);
    curl_formfree(NULL);

}

/* The numbers of all options with values at the borders. */
static void options_out_of_range(void)
{
    const long values[] = {LONG_MIN, INT_MIN, -2, -1, 0, 1, 2, 3, 7, 100, 65535, 65536, INT_MAX,
            LONG_MAX};
    const struct curl_easyoption *option = NULL;
    while ((option = curl_easy_option_next(option))) {
        CURL *easy;
        if (option->type != CURLOT_LONG && option->type != CURLOT_VALUES &&
                option->type != CURLOT_OFF_T)
            continue;
        if (option->id == CURLOPT_WS_OPTIONS) /* Debian's library is built without */
            continue;
        easy = curl_easy_init();
        printf("%s", option->name);
        for (size_t at = 0; at < sizeof(values) / sizeof(*values); at++)
            printf(" %d", option->type == CURLOT_OFF_T ?
                   curl_easy_setopt(easy, option->id, (curl_off_t)values[at]) :
                   curl_easy_setopt(easy, option->id, values[at]));
        printf("\n");
        curl_easy_cleanup(easy);
    }
}

/* Lengths for which there is no memory. */
static void lengths_out_of_range(void)
{
    static const curl_off_t lengths[] = {1LL << 46, 1LL << 62, LLONG_MAX, -1, LLONG_MIN};
    for (size_t at = 0; at < sizeof(lengths) / sizeof(*lengths); at++) {
        CURL *easy = curl_easy_init();
        struct curl_blob blob = {(void *)"x", (size_t)lengths[at], CURL_BLOB_COPY};
        curl_mime *mime = curl_mime_init(easy);
        curl_mimepart *part = curl_mime_addpart(mime);
        printf("%d", curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, lengths[at]));
        printf(" %d", curl_easy_setopt(easy, CURLOPT_COPYPOSTFIELDS, "a"));
        printf(" %d", curl_easy_setopt(easy, CURLOPT_SSLCERT_BLOB, &blob));
        printf(" %d\n", curl_mime_data(part, "a", (size_t)lengths[at]));
        curl_mime_free(mime);
        curl_easy_cleanup(easy);
    }
}

/* A string for each text option: empty, long, longer than allowed. */
static void texts_too_long(void)
{
    const struct curl_easyoption *option = NULL;
    char *text = malloc(8000002);
    memset(text, 'a', 8000001);
    text[8000001] = 0;
    while ((option = curl_easy_option_next(option))) {
        CURL *easy;
        int codes[4];
        if (option->type != CURLOT_STRING)
            continue;
        if (option->id == CURLOPT_COOKIELIST || option->id == CURLOPT_COOKIEFILE)
            continue;
        easy = curl_easy_init();
        codes[0] = curl_easy_setopt(easy, option->id, "");
        codes[1] = curl_easy_setopt(easy, option->id, text);
        codes[2] = curl_easy_setopt(easy, option->id, text + 1);
        codes[3] = curl_easy_setopt(easy, option->id, NULL);
        printf("%s %d %d %d %d\n", option->name, codes[0], codes[1], codes[2], codes[3]);
        if (option->id == CURLOPT_COOKIEJAR)
            curl_easy_setopt(easy, CURLOPT_COOKIEJAR, NULL);
        curl_easy_cleanup(easy);
    }
    free(text);
}

static void unknown_options(void)
{
    CURL *easy = curl_easy_init();
    long number = 7;
    char *text = NULL;
    const int ids[] = {-1, 0, 1, 9999, 10000, 10500, 19999, 20999, 30999, 40999, 50000, INT_MAX,
            INT_MIN};
    for (size_t at = 0; at < sizeof(ids) / sizeof(*ids); at++)
        printf("%d: %d\n", ids[at], curl_easy_setopt(easy, (CURLoption)ids[at], 0L));
    const int infos[] = {-1, 0, 0x100000, 0x1000ff, 0x200000, 0x2000ff, 0x300000, 0x3000ff,
            0x400000,
                         0x4000ff, 0x500000, 0x5000ff, 0x600000, 0x6000ff, 0x700000, INT_MAX,
                                 INT_MIN};
    for (size_t at = 0; at < sizeof(infos) / sizeof(*infos); at++) {
        void *place[4] = {0, 0, 0, 0};
        printf("%x: %d\n", infos[at], curl_easy_getinfo(easy, (CURLINFO)infos[at], place));
    }
    printf("null place %d %d\n", curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, NULL),
           curl_easy_getinfo(easy, CURLINFO_EFFECTIVE_URL, NULL));
    printf("number %ld %p\n", number, (void *)text);
    curl_easy_cleanup(easy);
}

/* A multi handle as an easy handle, and the other way round. */
static void foreign_handles(void)
{
    CURL *easy = curl_easy_init();
    CURLM *multi = curl_multi_init();
    int count = 7;
    printf("add %d\n", curl_multi_add_handle((CURLM *)easy, easy));
    printf("add multi %d\n", curl_multi_add_handle(multi, (CURL *)multi));
    printf("remove %d\n", curl_multi_remove_handle((CURLM *)easy, easy));
    printf("remove multi %d\n", curl_multi_remove_handle(multi, (CURL *)multi));
    printf("perform %d\n", curl_multi_perform((CURLM *)easy, &count));
    printf("cleanup %d\n", curl_multi_cleanup((CURLM *)easy));
    printf("pause %d\n", curl_easy_pause((CURL *)easy, 0));
    printf("info %d\n", curl_multi_info_read((CURLM *)easy, &count) == NULL);
    printf("cleanup %d\n", curl_multi_cleanup(multi));
    curl_easy_cleanup(easy);
}

static int drive(CURLM *multi)
{
    int running = 1, left, result = -1, turns = 0;
    CURLMsg *message;
    while (running && turns++ < 500) {
        int code = curl_multi_perform(multi, &running);
        if (code)
            printf("perform %d\n", code);
        curl_multi_wait(multi, NULL, 0, 20, NULL);
    }
    while ((message = curl_multi_info_read(multi, &left)))
        result = message->data.result;
    return result;
}

static void two_multis(void)
{
    CURL *easy = transfer();
    CURLM *one = curl_multi_init(), *two = curl_multi_init();
    printf("add %d\n", curl_multi_add_handle(one, easy));
    printf("add to the other %d\n", curl_multi_add_handle(two, easy));
    printf("remove from the other %d\n", curl_multi_remove_handle(two, easy));
    printf("perform %d\n", curl_easy_perform(easy));
    printf("drive %d\n", drive(one));
    printf("perform at its end %d\n", curl_easy_perform(easy));
    printf("add to the other at its end %d\n", curl_multi_add_handle(two, easy));
    printf("remove %d %d\n", curl_multi_remove_handle(one, easy), curl_multi_remove_handle(one,
            easy));
    printf("add to the other %d\n", curl_multi_add_handle(two, easy));
    printf("drive %d\n", drive(two));
    printf("cleanup %d\n", curl_multi_cleanup(one));
    curl_easy_cleanup(easy);
    printf("cleanup %d\n", curl_multi_cleanup(two));
}

static void multi_before_easy(void)
{
    CURL *easy = transfer();
    CURLM *one = curl_multi_init();
    int count = 0;
    curl_multi_add_handle(one, easy);
    curl_multi_perform(one, &count);
    printf("cleanup %d\n", curl_multi_cleanup(one));
    printf("pause %d\n", curl_easy_pause(easy, CURLPAUSE_ALL));
    curl_easy_pause(easy, CURLPAUSE_CONT);
    printf("perform %d\n", curl_easy_perform(easy));
    curl_easy_cleanup(easy);
}

/* What the callbacks return. */
enum { RETURN_0 = 0, RETURN_1 = 1, RETURN_MANY, RETURN_HUGE, RETURN_ABORT, RETURN_SHORT };
static int returned;

static size_t wrong_write(char *bytes, size_t size, size_t count, void *user)
{
    (void)bytes;
    (void)user;
    switch (returned) {
    case RETURN_0: return 0;
    case RETURN_1: return 1;
    case RETURN_MANY: return size * count + 1;
    case RETURN_HUGE: return SIZE_MAX;
    case RETURN_ABORT: return 0x10000000;
    default: return size * count - 1;
    }
}

static size_t wrong_read(char *bytes, size_t size, size_t count, void *user)
{
    (void)user;
    memset(bytes, 'a', size * count);
    switch (returned) {
    case RETURN_0: return 0;
    case RETURN_1: return 1;
    case RETURN_MANY: return size * count + 1;
    case RETURN_HUGE: return SIZE_MAX;
    case RETURN_ABORT: return CURL_READFUNC_ABORT;
    default: return 5;
    }
}

static void wrong_callbacks(void)
{
    char error[CURL_ERROR_SIZE];
    for (returned = RETURN_0; returned <= RETURN_SHORT; returned++) {
        CURL *easy = transfer();
        curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, wrong_write);
        curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, error);
        error[0] = 0;
        printf("write %d: %d", returned, curl_easy_perform(easy));
        printf(" %s\n", error);
        curl_easy_cleanup(easy);
        easy = transfer();
        curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, wrong_write);
        curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, error);
        error[0] = 0;
        printf("header %d: %d", returned, curl_easy_perform(easy));
        printf(" %s\n", error);
        curl_easy_cleanup(easy);
        for (long size = -1; size <= 10; size += 11) {
            easy = transfer();
            curl_easy_setopt(easy, CURLOPT_READFUNCTION, wrong_read);
            curl_easy_setopt(easy, CURLOPT_POST, 1L);
            curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, 1000L);
            curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE, size);
            curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, error);
            error[0] = 0;
            if (size < 0 ? returned == RETURN_1 || returned == RETURN_SHORT : !returned) {
                curl_easy_cleanup(easy);
                continue; /* endless, or too short: libcurl waits for its time limit */
            }
            printf("read %d of %ld: %d", returned, size, curl_easy_perform(easy));
            printf(" %s\n", error);
            curl_easy_cleanup(easy);
        }
    }
}

static int wrong_number(void)
{
    return returned == RETURN_0 ? -1 : returned == RETURN_1 ? 1 : returned == RETURN_MANY ? 2 :
            INT_MIN;
}

static int on_sockopt(void *user, curl_socket_t fd, curlsocktype purpose)
{
    (void)user;
    (void)fd;
    (void)purpose;
    return wrong_number();
}

static curl_socket_t on_open(void *user, curlsocktype purpose, struct curl_sockaddr *address)
{
    (void)user;
    (void)purpose;
    (void)address;
    return returned == RETURN_0 ? CURL_SOCKET_BAD : returned == RETURN_1 ? -7 : 500;
}

static int on_progress(void *user, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    (void)user;
    (void)a;
    (void)b;
    (void)c;
    (void)d;
    return wrong_number();
}

static int on_debug(CURL *easy, curl_infotype type, char *text, size_t len, void *user)
{
    (void)easy;
    (void)type;
    (void)text;
    (void)len;
    (void)user;
    return wrong_number();
}

static int on_seek(void *user, curl_off_t offset, int origin)
{
    (void)user;
    (void)offset;
    (void)origin;
    return wrong_number();
}

static void wrong_other_callbacks(void)
{
    char error[CURL_ERROR_SIZE];
    for (returned = RETURN_0; returned <= RETURN_HUGE; returned++) {
        CURL *easy = transfer();
        curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, error);
        error[0] = 0;
        curl_easy_setopt(easy, CURLOPT_SOCKOPTFUNCTION, on_sockopt);
        if (returned != RETURN_MANY) /* CURL_SOCKOPT_ALREADY_CONNECTED */
            printf("sockopt %d: %d", wrong_number(), curl_easy_perform(easy));
        printf(" %s\n", error);
        curl_easy_setopt(easy, CURLOPT_SOCKOPTFUNCTION, NULL);
        error[0] = 0;
        curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, on_open);
        curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, 1L);
        printf("open %d: %d\n", returned, curl_easy_perform(easy));
        curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, NULL);
        error[0] = 0;
        curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, on_progress);
        curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
        printf("progress %d: %d", wrong_number(), curl_easy_perform(easy));
        printf(" %s\n", error);
        curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 1L);
        error[0] = 0;
        curl_easy_setopt(easy, CURLOPT_DEBUGFUNCTION, on_debug);
        curl_easy_setopt(easy, CURLOPT_VERBOSE, 1L);
        printf("debug %d: %d", wrong_number(), curl_easy_perform(easy));
        printf(" %s\n", error);
        curl_easy_setopt(easy, CURLOPT_VERBOSE, 0L);
        error[0] = 0;
        curl_easy_setopt(easy, CURLOPT_SEEKFUNCTION, on_seek);
        curl_easy_setopt(easy, CURLOPT_UPLOAD, 1L);
        curl_easy_setopt(easy, CURLOPT_READFUNCTION, wrong_read);
        curl_easy_setopt(easy, CURLOPT_INFILESIZE, 10L);
        curl_easy_setopt(easy, CURLOPT_RESUME_FROM, 5L);
        curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, 1000L);
        printf("seek %d: %d", wrong_number(), curl_easy_perform(easy));
        printf(" %s\n", error);
        curl_easy_cleanup(easy);
    }
}

/* Calls of the callbacks on their own handle and multi handle. */
static CURLM *own_multi;
static CURL *own_easy;
static int in_callback;

static size_t misuse_in_write(char *bytes, size_t size, size_t count, void *user)
{
    int running;
    long code = 0;
    (void)bytes;
    (void)user;
    if (in_callback++)
        return size * count;
    printf("perform %d\n", curl_easy_perform(own_easy));
    if (own_multi) {
        fd_set set;
        int top;
        FD_ZERO(&set);
        printf("remove %d\n", curl_multi_remove_handle(own_multi, own_easy));
        printf("cleanup %d\n", curl_multi_cleanup(own_multi));
        printf("setopt %d\n", curl_multi_setopt(own_multi, CURLMOPT_MAXCONNECTS, 3L));
        printf("assign %d\n", curl_multi_assign(own_multi, 0, NULL));
        printf("fdset %d\n", curl_multi_fdset(own_multi, &set, &set, &set, &top));
        printf("wait %d\n", curl_multi_wait(own_multi, NULL, 0, 0, &running));
        printf("poll %d\n", curl_multi_poll(own_multi, NULL, 0, 0, &running));
        printf("action %d\n", curl_multi_socket_action(own_multi, CURL_SOCKET_TIMEOUT, 0,
                &running));
        printf("wakeup %d\n", curl_multi_wakeup(own_multi));
    }
    printf("url %d\n", curl_easy_setopt(own_easy, CURLOPT_URL, "http://127.0.0.1:1/"));
    printf("info %d", curl_easy_getinfo(own_easy, CURLINFO_RESPONSE_CODE, &code));
    printf(" %ld\n", code);
    printf("upkeep %d\n", curl_easy_upkeep(own_easy));
    printf("recv %d\n", curl_easy_recv(own_easy, bytes, 0, &count));
    curl_easy_cleanup(curl_easy_duphandle(own_easy));
    return size;
}

static void misuse_in_callbacks(void)
{
    own_easy = transfer();
    curl_easy_setopt(own_easy, CURLOPT_HEADERFUNCTION, misuse_in_write);
    printf("alone: %d\n", curl_easy_perform(own_easy));
    in_callback = 0;
    curl_easy_cleanup(own_easy);
    own_easy = transfer();
    curl_easy_setopt(own_easy, CURLOPT_HEADERFUNCTION, misuse_in_write);
    own_multi = curl_multi_init();
    curl_easy_setopt(own_easy, CURLOPT_URL, url);
    curl_multi_add_handle(own_multi, own_easy);
    printf("in a multi handle: %d\n", drive(own_multi));
    curl_multi_remove_handle(own_multi, own_easy);
    curl_easy_cleanup(own_easy);
    printf("end %d\n", curl_multi_cleanup(own_multi));
}

/* A second handle, not the one whose callback runs, is removed or freed. */
static CURL *other_easy;

static size_t free_other(char *bytes, size_t size, size_t count, void *user)
{
    (void)bytes;
    (void)user;
    if (!in_callback++)
        printf("remove other %d\n", curl_multi_remove_handle(own_multi, other_easy));
    return size * count;
}

static void other_in_callback(void)
{
    own_easy = transfer();
    other_easy = transfer();
    own_multi = curl_multi_init();
    curl_easy_setopt(own_easy, CURLOPT_WRITEFUNCTION, free_other);
    curl_multi_add_handle(own_multi, own_easy);
    curl_multi_add_handle(own_multi, other_easy);
    printf("%d\n", drive(own_multi));
    curl_easy_cleanup(own_easy);
    curl_easy_cleanup(other_easy);
    printf("end %d\n", curl_multi_cleanup(own_multi));
}

/* From the socket and timer callbacks. */
static int misuse_in_socket(CURL *easy, curl_socket_t fd, int what, void *user, void *assigned)
{
    (void)easy;
    (void)user;
    (void)assigned;
    if (what == CURL_POLL_REMOVE)
        return 0;
    if (!in_callback++) {
        int running;
        printf("assign %d\n", curl_multi_assign(own_multi, fd, &in_callback));
        printf("remove %d\n", curl_multi_remove_handle(own_multi, own_easy));
        printf("perform %d\n", curl_multi_perform(own_multi, &running));
        printf("cleanup %d\n", curl_multi_cleanup(own_multi));
        printf("add %d\n", curl_multi_add_handle(own_multi, other_easy));
    }
    return 0;
}

static int misuse_in_timer(CURLM *multi, long ms, void *user)
{
    static int calls;
    (void)user;
    (void)ms;
    if (!calls++) {
        int running;
        long other;
        printf("timer: remove %d\n", curl_multi_remove_handle(multi, own_easy));
        printf("timer: perform %d\n", curl_multi_perform(multi, &running));
        printf("timer: add %d\n", curl_multi_add_handle(multi, other_easy));
        printf("timer: timeout %d\n", curl_multi_timeout(multi, &other));
        printf("timer: cleanup %d\n", curl_multi_cleanup(multi));
    }
    return 0;
}

static void misuse_in_loop(void)
{
    int running, turns = 0;
    own_easy = transfer();
    other_easy = transfer();
    own_multi = curl_multi_init();
    curl_multi_setopt(own_multi, CURLMOPT_SOCKETFUNCTION, misuse_in_socket);
    curl_multi_setopt(own_multi, CURLMOPT_TIMERFUNCTION, misuse_in_timer);
    printf("add %d\n", curl_multi_add_handle(own_multi, own_easy));
    curl_multi_socket_action(own_multi, CURL_SOCKET_TIMEOUT, 0, &running);
    while (running && turns++ < 500) {
        curl_multi_wait(own_multi, NULL, 0, 20, NULL);
        curl_multi_socket_all(own_multi, &running);
    }
    printf("running %d\n", running);
    curl_multi_remove_handle(own_multi, own_easy);
    curl_easy_cleanup(own_easy);
    curl_easy_cleanup(other_easy);
    printf("end %d\n", curl_multi_cleanup(own_multi));
}

/* URLs and header lines of megabytes. */
static void long_urls_and_lines(void)
{
    const size_t sizes[] = {1000, 100000, 299999, 7999999, 8000000, 8000001};
    for (size_t at = 0; at < sizeof(sizes) / sizeof(*sizes); at++) {
        char *text = malloc(sizes[at] + 1);
        CURL *easy = transfer();
        CURLU *parsed = curl_url();
        struct curl_slist *list;
        char error[CURL_ERROR_SIZE] = "";
        memset(text, 'a', sizes[at]);
        memcpy(text, url, strlen(url));
        text[sizes[at]] = 0;
        printf("%zu: set %d", sizes[at], curl_easy_setopt(easy, CURLOPT_URL, text));
        curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, error);
        printf(", parse %d\n", curl_url_set(parsed, CURLUPART_URL, text, 0));
        if (sizes[at] <= 299999) {
            printf("perform %d %s\n", curl_easy_perform(easy), error);
            memcpy(text, "X-Long: ", 8);
            list = curl_slist_append(NULL, text);
            curl_easy_setopt(easy, CURLOPT_URL, url);
            curl_easy_setopt(easy, CURLOPT_HTTPHEADER, list);
            printf("with the line %d\n", curl_easy_perform(easy));
            curl_easy_setopt(easy, CURLOPT_HTTPHEADER, NULL);
            curl_slist_free_all(list);
            curl_easy_setopt(easy, CURLOPT_USERAGENT, text);
            curl_easy_setopt(easy, CURLOPT_COOKIE, text);
            printf("with fields %d\n", curl_easy_perform(easy));
        }
        curl_url_cleanup(parsed);
        curl_easy_cleanup(easy);
        free(text);
    }
}

/* Control characters in what becomes a request. */
static void control_characters(void)
{
    const char *texts[] = {"a\r\nX: y", "a\nX: y", "a\rX: y", "a\x01", "a\x7f", "a b", "a\tb"};
    const CURLoption options[] = {CURLOPT_USERAGENT, CURLOPT_REFERER, CURLOPT_COOKIE,
            CURLOPT_RANGE,
                                  CURLOPT_ACCEPT_ENCODING, CURLOPT_USERNAME,
                                  CURLOPT_XOAUTH2_BEARER, CURLOPT_COOKIELIST};
    /* Line ends are refused here, unlike in libcurl: capi/curl/src/line_ends.rs. */
    for (size_t at = 3; at < sizeof(texts) / sizeof(*texts); at++)
        for (size_t i = 0; i < sizeof(options) / sizeof(*options); i++) {
            CURL *easy = transfer();
            int code = curl_easy_setopt(easy, options[i], texts[at]);
            if (options[i] == CURLOPT_XOAUTH2_BEARER)
                curl_easy_setopt(easy, CURLOPT_HTTPAUTH, CURLAUTH_BEARER);
            printf("%zu/%zu: %d", at, i, code);
            printf(" %d\n", curl_easy_perform(easy));
            curl_easy_cleanup(easy);
        }
    for (size_t at = 0; at < sizeof(texts) / sizeof(*texts); at++) {
        char changed[400];
        CURL *easy = curl_easy_init();
        CURLU *parsed = curl_url();
        snprintf(changed, sizeof(changed), "%s%s", url, texts[at]);
        curl_easy_setopt(easy, CURLOPT_URL, changed);
        curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, ignore);
        printf("path %zu: %d", at, curl_easy_perform(easy));
        printf(", parse %d", curl_url_set(parsed, CURLUPART_URL, changed, 0));
        snprintf(changed, sizeof(changed), "http://%s/", texts[at]);
        printf(", host %d", curl_url_set(parsed, CURLUPART_URL, changed, 0));
        snprintf(changed, sizeof(changed), "http://%s:%s@a/", texts[at], texts[at]);
        printf(", user %d\n", curl_url_set(parsed, CURLUPART_URL, changed, 0));
        curl_url_cleanup(parsed);
        curl_easy_cleanup(easy);
    }
}

/* Limits of time at their borders. */
static void limits_of_time(void)
{
    const CURLoption options[] = {CURLOPT_TIMEOUT, CURLOPT_TIMEOUT_MS, CURLOPT_CONNECTTIMEOUT,
                                  CURLOPT_CONNECTTIMEOUT_MS, CURLOPT_EXPECT_100_TIMEOUT_MS,
                                  CURLOPT_MAXAGE_CONN, CURLOPT_MAXLIFETIME_CONN,
                                          CURLOPT_LOW_SPEED_TIME,
                                  CURLOPT_LOW_SPEED_LIMIT, CURLOPT_DNS_CACHE_TIMEOUT,
                                  CURLOPT_HAPPY_EYEBALLS_TIMEOUT_MS,
                                          CURLOPT_SERVER_RESPONSE_TIMEOUT,
                                  CURLOPT_TCP_KEEPIDLE, CURLOPT_BUFFERSIZE,
                                          CURLOPT_UPLOAD_BUFFERSIZE};
    const long values[] = {0, LONG_MAX, LONG_MAX / 1000, INT_MAX, INT_MAX / 1000,
            LONG_MAX / 1000 - 1};
    for (size_t i = 0; i < sizeof(options) / sizeof(*options); i++)
        for (size_t at = 0; at < sizeof(values) / sizeof(*values); at++) {
            CURL *easy = transfer();
            int code = curl_easy_setopt(easy, options[i], values[at]);
            printf("%d = %ld: %d %d", options[i], values[at], code, curl_easy_perform(easy));
            printf(" %d\n", curl_easy_perform(easy));
            curl_easy_cleanup(easy);
        }
    for (size_t at = 0; at < 2; at++) {
        CURL *easy = transfer();
        curl_easy_setopt(easy, CURLOPT_MAX_RECV_SPEED_LARGE, (curl_off_t)(at ? LLONG_MAX : 0));
        curl_easy_setopt(easy, CURLOPT_MAX_SEND_SPEED_LARGE, (curl_off_t)(at ? LLONG_MAX : 0));
        curl_easy_setopt(easy, CURLOPT_MAXFILESIZE_LARGE, (curl_off_t)(at ? LLONG_MAX : 0));
        curl_easy_setopt(easy, CURLOPT_TIMEVALUE_LARGE, (curl_off_t)(at ? LLONG_MAX : 0));
        printf("speeds %d\n", curl_easy_perform(easy));
        printf("resume %d", curl_easy_setopt(easy, CURLOPT_RESUME_FROM_LARGE,
                (curl_off_t)LLONG_MAX));
        printf(" %d\n", curl_easy_perform(easy));
        curl_easy_cleanup(easy);
    }
}

int main(int count, char **arguments)
{
    url = count > 1 ? arguments[1] : "";
    setvbuf(stdout, NULL, _IOLBF, 0);
    curl_global_init(CURL_GLOBAL_ALL);
#define CASE(name) if (count < 3 || !strcmp(arguments[2], #name)) run_case(#name, name)
    CASE(null_easy);
    CASE(null_multi);
    CASE(null_url_and_mime);
    CASE(options_out_of_range);
    CASE(lengths_out_of_range);
    CASE(texts_too_long);
    CASE(unknown_options);
    CASE(foreign_handles);
    CASE(two_multis);
    CASE(multi_before_easy);
    CASE(wrong_callbacks);
    CASE(wrong_other_callbacks);
    CASE(misuse_in_callbacks);
    CASE(other_in_callback);
    CASE(misuse_in_loop);
    CASE(long_urls_and_lines);
    CASE(control_characters);
    CASE(limits_of_time);
    return 0;
}
