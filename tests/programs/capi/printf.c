/* The printf family of libcurl: what each function writes and returns. */

#include <curl/curl.h>
#include <curl/mprintf.h>
#include <stdio.h>

int main(void)
{
    char buffer[200], *text;
    int length = curl_msnprintf(buffer, sizeof buffer, "%s|%5d|%-8.3f|%lx|%llu|%zu|%c|%%|%*d|%.*s",
                                "x", 5, 1.5, 255L, 7ULL, (size_t)9, 'c', 4, 2, 3, "abcdef");
    curl_mprintf("%d %s\n", length, buffer);
    length = curl_msprintf(buffer, "%-10s<%10s>%+d% d%#x", "ab", "cd", 1, 2, 255);
    curl_mprintf("%d %s\n", length, buffer);
    length = curl_mfprintf(stdout, "%hd %hhu %ld %5.1e %.0f %08lld\n", 3, 4, 5L, 6.0, 7.5, 12LL);
    curl_mprintf("%d\n", length);

    length = curl_mprintf("null: %s %.2s %p\n", NULL, NULL, NULL);
    curl_mprintf("%d\n", length);
    length = curl_msnprintf(buffer, sizeof buffer, "%2$s %1$s", "a", "b");
    curl_mprintf("numbered: %d %s\n", length, buffer);

    length = curl_msnprintf(buffer, 5, "%s", "abcdefgh");
    curl_mprintf("cut: %d %s\n", length, buffer);
    length = curl_msnprintf(buffer, 0, "%d", 5);
    curl_mprintf("no room: %d\n", length);
    text = curl_maprintf("%d-%s", 3, (char *)NULL);
    curl_mprintf("allocated: %s\n", text);
    curl_free(text);
    return 0;
}
