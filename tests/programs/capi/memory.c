/* curl_global_init_mem: what the application gets is from its functions and goes back to them,
 * and calls without memory have the codes for that. Blocks of the functions here have a mark in
 * front of them, so that the C library can free none, and they none of the C library. */
#define CURL_DISABLE_DEPRECATION
#include <curl/curl.h>
#include <curl/mprintf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct block {
    size_t mark, len;
};
#define MARK 0x6d61726b6d61726bu

static size_t live;
static long left = -1; /* calls that succeed; negative: all */

static void *allocate(size_t len)
{
    struct block *block;
    if (left == 0)
        return NULL;
    if (left > 0)
        left--;
    block = malloc(sizeof(*block) + len);
    block->mark = MARK;
    block->len = len;
    live++;
    return block + 1;
}

static void release(void *memory)
{
    struct block *block = (struct block *)memory - 1;
    if (!memory)
        return;
    if (block->mark != MARK) {
        printf("a block of other functions is freed\n");
        fflush(stdout);
        abort();
    }
    block->mark = 0;
    live--;
    free(block);
}

static void *reallocate(void *memory, size_t len)
{
    void *copy = allocate(len);
    if (copy && memory) {
        size_t old = ((struct block *)memory - 1)->len;
        memcpy(copy, memory, old < len ? old : len);
        release(memory);
    }
    return copy;
}

static char *duplicate(const char *text)
{
    char *copy = allocate(strlen(text) + 1);
    return copy ? strcpy(copy, text) : NULL;
}

static void *allocate_zeroed(size_t count, size_t len)
{
    void *memory = allocate(count * len);
    return memory ? memset(memory, 0, count * len) : NULL;
}

static int initialize(void)
{
    return curl_global_init_mem(CURL_GLOBAL_ALL, allocate, release, reallocate, duplicate,
                                allocate_zeroed);
}

/* The application's own function frees it, or that of the library. */
static void give_back(const char *name, char *text)
{
    printf("%s: %s\n", name, text ? text : "NULL");
    if (strlen(name) % 2)
        curl_free(text);
    else
        release(text);
}

/* One call of each function that returns memory. */
static void strings(void)
{
    CURLU *url = curl_url();
    char *text = NULL;
    int code, len = -1;
    setenv("CAPI_MEMORY", "set", 1);
    give_back("escape", curl_easy_escape(NULL, "a b", 3));
    give_back("unescape", curl_easy_unescape(NULL, "a%20b", 0, &len));
    give_back("old escape", curl_escape("\xff", 1));
    give_back("old unescape", curl_unescape("%41", 3));
    give_back("getenv", curl_getenv("CAPI_MEMORY"));
    give_back("getenv none", curl_getenv("CAPI_MEMORY_NONE"));
    give_back("maprintf", curl_maprintf("%d %s", 7, "text"));
    give_back("maprintf empty", curl_maprintf("%s", ""));
    code = curl_url_set(url, CURLUPART_URL, "http://user@host:81/path?query#end", 0);
    printf("url: %d\n", code);
    for (int part = CURLUPART_URL; part <= CURLUPART_ZONEID; part++) {
        text = NULL;
        code = curl_url_get(url, (CURLUPart)part, &text, 0);
        printf("%d ", code);
        give_back("part", text);
    }
    curl_url_cleanup(url);
}

static void lists(void)
{
    struct curl_slist *list = NULL, *more;
    CURL *easy;
    for (int at = 0; at < 3; at++) {
        more = curl_slist_append(list, "line");
        printf("append: %s\n", more ? "list" : "NULL");
        list = more ? more : list;
    }
    if (list) { /* as programs do that change an element */
        release(list->data);
        list->data = duplicate("other");
    }
    curl_slist_free_all(list);
    easy = curl_easy_init();
    if (easy) {
        curl_easy_setopt(easy, CURLOPT_COOKIELIST, "Set-Cookie: a=b; domain=host");
        curl_easy_setopt(easy, CURLOPT_COOKIELIST, "Set-Cookie: c=d; domain=host");
        list = NULL;
        printf("cookies: %d\n", curl_easy_getinfo(easy, CURLINFO_COOKIELIST, &list));
        for (more = list; more; more = more->next)
            printf("%s\n", more->data);
        curl_slist_free_all(list);
    }
    curl_easy_cleanup(easy);
}

static size_t count_bytes(void *user, const char *bytes, size_t len)
{
    (void)bytes;
    *(size_t *)user += len;
    return len;
}

static void forms(void)
{
    struct curl_httppost *first = NULL, *last = NULL;
    struct curl_slist *lines = curl_slist_append(NULL, "X-Line: 1");
    size_t len = 0;
    CURL *easy = curl_easy_init();
    curl_mime *mime = curl_mime_init(easy);
    curl_mimepart *part = curl_mime_addpart(mime);
    printf("%d\n", curl_formadd(&first, &last, CURLFORM_COPYNAME, "n", CURLFORM_COPYCONTENTS, "c",
                                CURLFORM_CONTENTTYPE, "text/plain", CURLFORM_END));
    printf("%d\n", curl_formadd(&first, &last, CURLFORM_PTRNAME, "n", CURLFORM_FILE, "/dev/null",
                                CURLFORM_FILE, "/dev/null", CURLFORM_FILENAME, "x", CURLFORM_END));
    printf("%d\n", curl_formadd(&first, &last, CURLFORM_COPYNAME, "n", CURLFORM_COPYCONTENTS, "c",
                                CURLFORM_COPYNAME, "n", CURLFORM_END));
    printf("get: %d", curl_formget(first, &len, count_bytes));
    printf(", %s\n", len > 100 ? "has bytes" : "has none");
    curl_formfree(first);
    printf("mime: %d\n", curl_mime_headers(part, lines, 1)); /* freed with the part */
    curl_mime_free(mime);
    curl_easy_cleanup(easy);
}

/* What these return without memory. */
static void without_memory(void)
{
    struct curl_httppost *first = NULL, *last = NULL;
    struct curl_slist *list;
    CURLU *url = curl_url();
    char *text = (char *)1;
    int code;
    curl_url_set(url, CURLUPART_URL, "http://host/path", 0);
    list = curl_slist_append(NULL, "first");
    left = 0;
    printf("escape: %d\n", curl_easy_escape(NULL, "a b", 3) != NULL);
    printf("unescape: %d\n", curl_easy_unescape(NULL, "a b", 3, NULL) != NULL);
    printf("maprintf: %d\n", curl_maprintf("%d", 1) != NULL);
    printf("append: %d\n", curl_slist_append(NULL, "a") != NULL);
    printf("append to list: %d\n", curl_slist_append(list, "a") != NULL);
    code = curl_url_get(url, CURLUPART_HOST, &text, 0);
    printf("url_get: %d %d\n", code, text != NULL);
    text = (char *)1;
    code = curl_url_get(url, CURLUPART_URL, &text, 0);
    printf("url_get whole: %d\n", code);
    for (left = 0; left < 4; left++) {
        long kept = left;
        size_t before = live;
        code = curl_formadd(&first, &last, CURLFORM_COPYNAME, "n", CURLFORM_COPYCONTENTS, "c",
                            CURLFORM_CONTENTTYPE, "text/plain", CURLFORM_END);
        if (code)
            printf("formadd: %d %d, %zu blocks more\n", code, first != NULL, live - before);
        left = kept;
        if (!code)
            break;
    }
    left = -1;
    curl_formfree(first);
    curl_slist_free_all(list);
    curl_url_cleanup(url);
}

static void all(void)
{
    strings();
    lists();
    forms();
}

/* Only the first initialization selects functions, also if it is that of curl_easy_init. */
static void initializations(void)
{
    CURL *easy;
    char *text;
    printf("without a function: %d\n",
           curl_global_init_mem(0, allocate, release, reallocate, duplicate, NULL));
    printf("first: %d\n", initialize());
    printf("second: %d\n", curl_global_init(CURL_GLOBAL_ALL));
    curl_global_cleanup();
    give_back("after one cleanup", curl_easy_escape(NULL, "a", 1));
    text = curl_easy_escape(NULL, "a", 1);
    curl_global_cleanup();
    give_back("freed after the cleanup", text);
    curl_global_cleanup();
    printf("again: %d\n", curl_global_init(CURL_GLOBAL_ALL));
    text = curl_easy_escape(NULL, "b", 1);
    printf("%s, %zu blocks\n", text, live);
    free(text);
    printf("too late: %d\n", initialize());
    text = curl_easy_escape(NULL, "c", 1);
    printf("%s, %zu blocks\n", text, live);
    free(text);
    curl_global_cleanup();
    curl_global_cleanup();
    easy = curl_easy_init();
    printf("after a handle: %d\n", initialize());
    text = curl_easy_escape(easy, "d", 1);
    printf("%s, %zu blocks\n", text, live);
    free(text);
    curl_easy_cleanup(easy);
}

static void run(const char *name, int initializes, void (*body)(void))
{
    int status;
    printf("# %s\n", name);
    fflush(stdout);
    if (fork() == 0) {
        if (initializes)
            printf("%d\n", initialize());
        body();
        if (initializes) {
            curl_global_cleanup();
            printf("%zu blocks left\n", live);
        }
        fflush(stdout);
        _exit(0);
    }
    wait(&status);
    if (status)
        printf("signal %d, status %d\n", WTERMSIG(status), WEXITSTATUS(status));
}

int main(void)
{
    run("all", 1, all);
    run("without_memory", 1, without_memory);
    run("initializations", 0, initializations);
    return 0;
}
