/* Responses to CONNECT, and a redirect: arguments are the ports of a proxy that requests other
 * credentials for ever, of one whose response is malformed, and of a server that redirects to a URL
 * with credentials. */
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t ignore(char *bytes, size_t size, size_t count, void *user) {
  (void)bytes, (void)user;
  return size * count;
}

static size_t print(char *bytes, size_t size, size_t count, void *user) {
  (void)user;
  printf("line %.*s", (int)(size * count), bytes);
  return size * count;
}

static CURL *new_handle(const char *url) {
  CURL *easy = curl_easy_init();
  curl_easy_setopt(easy, CURLOPT_URL, url);
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, ignore);
  curl_easy_setopt(easy, CURLOPT_COOKIEFILE, "");
  return easy;
}

static CURL *through(const char *port) {
  CURL *easy = new_handle("http://example.com/");
  char proxy[64];
  snprintf(proxy, sizeof proxy, "http://u:p@127.0.0.1:%s", port);
  curl_easy_setopt(easy, CURLOPT_PROXY, proxy);
  curl_easy_setopt(easy, CURLOPT_PROXYAUTH, (long)CURLAUTH_DIGEST);
  curl_easy_setopt(easy, CURLOPT_HTTPPROXYTUNNEL, 1L);
  return easy;
}

static void endless(const char *port) {
  CURL *easy = through(port);
  long code = curl_easy_perform(easy), status = 0;
  curl_easy_getinfo(easy, CURLINFO_HTTP_CONNECTCODE, &status);
  printf("endless: %ld, CONNECT %ld\n", code, status);
  curl_easy_cleanup(easy);
}

static void malformed(const char *port, long is_suppressed) {
  CURL *easy = through(port);
  struct curl_slist *cookies = NULL;
  long status = 0, of_proxy = 0;
  int fails;
  curl_easy_setopt(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, is_suppressed);
  curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, print);
  fails = curl_easy_perform(easy) != CURLE_OK;
  curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
  curl_easy_getinfo(easy, CURLINFO_HTTP_CONNECTCODE, &of_proxy);
  curl_easy_getinfo(easy, CURLINFO_COOKIELIST, &cookies);
  printf("malformed: fails %d, status %ld, CONNECT %ld, %s\n", fails, status, of_proxy,
         cookies ? cookies->data : "no cookie");
  curl_slist_free_all(cookies);
  curl_easy_cleanup(easy);
}

static void redirected(const char *port, long is_disallowed) {
  char url[64];
  CURL *easy;
  long count = 0;
  int code;
  snprintf(url, sizeof url, "http://127.0.0.1:%s/", port);
  easy = new_handle(url);
  curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 1L);
  curl_easy_setopt(easy, CURLOPT_MAXREDIRS, 2L);
  curl_easy_setopt(easy, CURLOPT_DISALLOW_USERNAME_IN_URL, is_disallowed);
  code = curl_easy_perform(easy);
  curl_easy_getinfo(easy, CURLINFO_REDIRECT_COUNT, &count);
  printf("redirected: %d, %ld\n", code, count);
  curl_easy_cleanup(easy);
}

int main(int count, char **arguments) {
  if (count < 4)
    return 2;
  curl_global_init(CURL_GLOBAL_ALL);
  endless(arguments[1]);
  malformed(arguments[2], 0);
  malformed(arguments[2], 1);
  redirected(arguments[3], 0);
  redirected(arguments[3], 1);
  curl_global_cleanup();
  return 0;
}
