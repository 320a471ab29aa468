/* Forms: what curl_formadd accepts, what curl_formget makes of it, who owns the parts of
   curl_mime_*, and the requests that carry them. The argument is the URL of an echo server. */

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

/* Prints text with every boundary as B, and with the length that depends on it. */
static size_t show(void *user, const char *text, size_t length)
{
    static const char dashes[] = "------------------------";
    size_t i;
    (void)user;
    for (i = 0; i < length; i++) {
        size_t rest = length - i;
        if (rest >= 40 && !memcmp(text + i, dashes, 24) && text[i + 24] != '-') {
            putchar('B');
            i += 39;
        }
        else if (text[i] != '\r')
            putchar(text[i]);
    }
    return length;
}

static size_t show_body(char *text, size_t size, size_t count, void *user)
{
    return show(user, text, size * count);
}

static void form_codes(void)
{
    struct curl_httppost *first = NULL, *last = NULL;
    struct curl_forms inner[] = { { CURLFORM_ARRAY, "x" }, { CURLFORM_END, NULL } };
    struct curl_forms array[] = { { CURLFORM_COPYNAME, "array" },
        { CURLFORM_COPYCONTENTS, "from an array" }, { CURLFORM_END, NULL } };
    int codes[16], i = 0, j;
    codes[i++] = curl_formadd(&first, &last, CURLFORM_COPYNAME, "a", CURLFORM_COPYCONTENTS, "b",
        CURLFORM_END);
    codes[i++] = curl_formadd(&first, &last, CURLFORM_COPYNAME, "a", CURLFORM_COPYNAME, "b",
        CURLFORM_END);
    codes[i++] = curl_formadd(&first, &last, CURLFORM_COPYNAME, NULL, CURLFORM_END);
    codes[i++] = curl_formadd(&first, &last, 99, CURLFORM_END);
    codes[i++] = curl_formadd(&first, &last, CURLFORM_COPYNAME, "a", CURLFORM_END);
    codes[i++] = curl_formadd(&first, &last, CURLFORM_ARRAY, inner, CURLFORM_END);
    codes[i++] = curl_formadd(&first, &last, CURLFORM_ARRAY, array, CURLFORM_END);
    codes[i++] = curl_formadd(&first, &last, CURLFORM_ARRAY, NULL, CURLFORM_END);
    codes[i++] = curl_formadd(&first, &last, CURLFORM_COPYNAME, "f", CURLFORM_FILE, "x",
        CURLFORM_CONTENTSLENGTH, 3L, CURLFORM_END);
    codes[i++] = curl_formadd(&first, &last, CURLFORM_COPYNAME, "f", CURLFORM_FILECONTENT, "x",
        CURLFORM_FILECONTENT, "x", CURLFORM_END);
    codes[i++] = curl_formadd(&first, &last, CURLFORM_COPYNAME, "a\0b", CURLFORM_NAMELENGTH, 3L,
        CURLFORM_COPYCONTENTS, "b", CURLFORM_END);
    codes[i++] = curl_formadd(&first, &last, CURLFORM_PTRNAME, "pointer", CURLFORM_NAMELENGTH, 5L,
        CURLFORM_PTRCONTENTS, "x\0y", CURLFORM_CONTENTSLENGTH, 3L, CURLFORM_END);
    codes[i++] = curl_formadd(&first, &last, CURLFORM_COPYNAME, "buffer", CURLFORM_BUFFER, "a.png",
        CURLFORM_BUFFERPTR, "data", CURLFORM_BUFFERLENGTH, 2L, CURLFORM_END);
    codes[i++] = curl_formadd(&first, &last, CURLFORM_COPYNAME, "large", CURLFORM_COPYCONTENTS,
        "12345", CURLFORM_CONTENTLEN, (curl_off_t)4, CURLFORM_CONTENTTYPE, "t/t", CURLFORM_END);
    for (j = 0; j < i; j++)
        printf("%d ", codes[j]);
    printf("\nform: %d\n", curl_formget(first, NULL, show));
    curl_formfree(first);
    printf("empty: %d\n", curl_formget(NULL, NULL, show));
}

static int freed;

static void count_free(void *user)
{
    freed += *(int *)user;
}

static size_t read_text(char *to, size_t size, size_t count, void *user)
{
    const char **text = user;
    size_t length = strlen(*text);
    if (length > size * count)
        length = size * count;
    memcpy(to, *text, length);
    *text += length;
    return length;
}

static void ownership(CURL *curl)
{
    static int one = 1, ten = 10;
    curl_mime *outer = curl_mime_init(curl), *inner = curl_mime_init(curl);
    curl_mimepart *part = curl_mime_addpart(outer), *below = curl_mime_addpart(inner);
    CURL *copy;
    printf("null: %d %d %p\n", curl_mime_name(NULL, "x"), curl_mime_data(NULL, "x", 1),
        (void *)curl_mime_addpart(NULL));
    printf("encoder: %d %d %d\n", curl_mime_encoder(part, "BASE64"),
        curl_mime_encoder(part, "none"), curl_mime_encoder(part, NULL));
    printf("file: %d\n", curl_mime_filedata(part, "/nonexistent/file"));
    printf("itself: %d\n", curl_mime_subparts(part, outer));
    printf("attach: %d ", curl_mime_subparts(part, inner));
    printf("%d ", curl_mime_subparts(part, inner));
    printf("loop: %d\n", curl_mime_subparts(below, outer));
    curl_mime_data_cb(below, 1, read_text, NULL, count_free, &one);
    curl_mime_data_cb(below, 1, read_text, NULL, count_free, &ten);
    printf("freed: %d\n", freed);
    printf("post: %d %d\n", curl_easy_setopt(curl, CURLOPT_MIMEPOST, outer),
        curl_mime_subparts(below, outer));
    printf("freed: %d\n", freed);
    curl_mime_data_cb(below, 1, read_text, NULL, count_free, &ten);
    copy = curl_easy_duphandle(curl);
    curl_mime_free(outer);
    printf("freed: %d\n", freed);
    curl_easy_cleanup(copy);
    printf("freed: %d\n", freed);
}

static void post(CURL *curl, const char *url)
{
    const char *text = "callback", *stream = "stream", *again = "once";
    struct curl_slist *headers = curl_slist_append(NULL, "X-Part: 1");
    struct curl_httppost *first = NULL, *last = NULL;
    curl_mime *mime = curl_mime_init(curl);
    curl_mimepart *part = curl_mime_addpart(mime);
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, show_body);
    curl_mime_name(part, "quoted \"name\"");
    curl_mime_data(part, "va\0ue", 5);
    curl_mime_headers(part, headers, 1);
    part = curl_mime_addpart(mime);
    curl_mime_name(part, "callback");
    curl_mime_data_cb(part, 8, read_text, NULL, NULL, &text);
    part = curl_mime_addpart(mime);
    curl_mime_data(part, "base", CURL_ZERO_TERMINATED);
    curl_mime_encoder(part, "base64");
    curl_mime_type(part, "text/x");
    curl_easy_setopt(curl, CURLOPT_MIMEPOST, mime);
    printf("\n%d\n", curl_easy_perform(curl));
    /* The callback cannot go back. */
    printf("%d\n", curl_easy_perform(curl));
    text = again;
    part = curl_mime_addpart(mime);
    curl_mime_free(mime);
    printf("\n%d\n", curl_easy_perform(curl));

    mime = curl_mime_init(curl);
    part = curl_mime_addpart(mime);
    curl_mime_data_cb(part, -1, read_text, NULL, NULL, &again);
    curl_easy_setopt(curl, CURLOPT_MIME_OPTIONS, CURLMIMEOPT_FORMESCAPE);
    curl_mime_name(part, "a\"b");
    curl_easy_setopt(curl, CURLOPT_MIMEPOST, mime);
    printf("\n%d\n", curl_easy_perform(curl));
    curl_mime_free(mime);

    curl_formadd(&first, &last, CURLFORM_COPYNAME, "s", CURLFORM_STREAM, &stream,
        CURLFORM_CONTENTLEN, (curl_off_t)6, CURLFORM_END);
    curl_easy_setopt(curl, CURLOPT_READFUNCTION, read_text);
    curl_easy_setopt(curl, CURLOPT_HTTPPOST, first);
    printf("\n%d\n", curl_easy_perform(curl));
    curl_easy_setopt(curl, CURLOPT_HTTPPOST, NULL);
    printf("\n%d\n", curl_easy_perform(curl));
    curl_formfree(first);
}

int main(int count, char **arguments)
{
    CURL *curl;
    curl_global_init(CURL_GLOBAL_ALL);
    curl = curl_easy_init();
    form_codes();
    ownership(curl);
    if (count > 1)
        post(curl, arguments[1]);
    curl_easy_cleanup(curl);
    curl_global_cleanup();
    return 0;
}
