/* A body that is paused by its first piece, and resumed by the progress callback while more has
 * arrived: the argument is the URL of a body of ten chunks. */
#include <curl/curl.h>
#include <stdio.h>
#include <string.h>

static CURL *easy;
static char body[256];
static int calls;

static size_t on_write(char *bytes, size_t size, size_t count, void *user) {
  (void)user;
  if (calls++ == 0)
    return CURL_WRITEFUNC_PAUSE;
  strncat(body, bytes, size * count);
  return size * count;
}

static int on_progress(void *user, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d) {
  (void)user, (void)a, (void)b, (void)c, (void)d;
  if (calls == 1) {
    calls++;
    curl_easy_pause(easy, CURLPAUSE_CONT);
  }
  return 0;
}

int main(int count, char **arguments) {
  int code;
  if (count < 2)
    return 2;
  curl_global_init(CURL_GLOBAL_ALL);
  easy = curl_easy_init();
  curl_easy_setopt(easy, CURLOPT_URL, arguments[1]);
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_write);
  curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, on_progress);
  code = curl_easy_perform(easy);
  printf("%d '%s'\n", code, body);
  curl_easy_cleanup(easy);
  curl_global_cleanup();
  return 0;
}
