/* HTTPS proxies and routes through proxies: arguments are the ports of an HTTPS proxy, an HTTP
 * proxy, an HTTP server and an HTTPS server, and the folder of their certificates. */
#include <curl/curl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char body[4096], heads[4096], error[CURL_ERROR_SIZE];
static size_t body_len, total_len, heads_len;
static int https_proxy, http_proxy, http, https;
static const char *folder;

static size_t write_body(char *bytes, size_t size, size_t count, void *user) {
  size_t len = size * count, room = sizeof body - 1 - body_len;
  (void)user;
  total_len += len;
  if (len > room)
    len = room;
  memcpy(body + body_len, bytes, len);
  body_len += len;
  return size * count;
}

static size_t write_head(char *bytes, size_t size, size_t count, void *user) {
  size_t len = size * count, room = sizeof heads - 1 - heads_len;
  (void)user;
  if (len <= room) {
    memcpy(heads + heads_len, bytes, len);
    heads_len += len;
  }
  return size * count;
}

/* Prints with names instead of the ports, which differ between runs. */
static void print(const char *text) {
  int ports[] = {https_proxy, http_proxy, http, https};
  const char *names[] = {"HTTPSPROXY", "HTTPPROXY", "HTTP", "HTTPS"};
  char number[16];
  while (*text) {
    int i, found = 0;
    for (i = 0; i < 4 && !found; i++) {
      snprintf(number, sizeof number, ":%d", ports[i]);
      if (!strncmp(text, number, strlen(number))) {
        printf(":%s", names[i]);
        text += strlen(number);
        found = 1;
      }
    }
    if (found)
      continue;
    if (*text == '\r')
      printf("\\r");
    else
      putchar(*text);
    text++;
  }
}

static CURL *new_handle(const char *scheme, int port, const char *path) {
  CURL *easy = curl_easy_init();
  char text[256];
  snprintf(text, sizeof text, "%s://localhost:%d%s", scheme, port, path);
  curl_easy_setopt(easy, CURLOPT_URL, text);
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, write_body);
  curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, write_head);
  curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, error);
  curl_easy_setopt(easy, CURLOPT_TIMEOUT, 20L);
  snprintf(text, sizeof text, "%s/ca.pem", folder);
  curl_easy_setopt(easy, CURLOPT_CAINFO, text);
  return easy;
}

static void use_https_proxy(CURL *easy) {
  char text[256];
  snprintf(text, sizeof text, "https://localhost:%d", https_proxy);
  curl_easy_setopt(easy, CURLOPT_PROXY, text);
  snprintf(text, sizeof text, "%s/ca.pem", folder);
  curl_easy_setopt(easy, CURLOPT_PROXY_CAINFO, text);
}

/* The texts of failed TLS are those of the TLS library. */
static void perform(CURL *easy, const char *name, int shows_error) {
  long status = 0, connect = 0, connects = 0, version = 0, verified = 0, proxy_verified = 0;
  CURLcode code;
  body_len = total_len = heads_len = 0;
  error[0] = 0;
  code = curl_easy_perform(easy);
  curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
  curl_easy_getinfo(easy, CURLINFO_HTTP_CONNECTCODE, &connect);
  curl_easy_getinfo(easy, CURLINFO_NUM_CONNECTS, &connects);
  curl_easy_getinfo(easy, CURLINFO_HTTP_VERSION, &version);
  curl_easy_getinfo(easy, CURLINFO_SSL_VERIFYRESULT, &verified);
  curl_easy_getinfo(easy, CURLINFO_PROXY_SSL_VERIFYRESULT, &proxy_verified);
  printf("# %s\n%d, status %ld, CONNECT %ld, %ld new, version %ld, %lu bytes\n", name, code, status,
         connect, connects, version, (unsigned long)total_len);
  if (code == CURLE_PEER_FAILED_VERIFICATION) /* otherwise OpenSSL verifies, too */
    printf("verified %ld %ld\n", verified, proxy_verified);
  if (shows_error && error[0]) {
    print(error);
    printf("\n");
  }
  body[body_len < 600 ? body_len : 0] = 0;
  heads[heads_len] = 0;
  print(heads);
  print(body);
}

static void https_proxies(void) {
  CURL *easy = new_handle("http", http, "/plain");
  use_https_proxy(easy);
  perform(easy, "request through an HTTPS proxy", 1);
  perform(easy, "again", 1);
  curl_easy_setopt(easy, CURLOPT_PROXYUSERPWD, "me:secret");
  perform(easy, "with credentials", 1);
  curl_easy_setopt(easy, CURLOPT_PROXYUSERPWD, NULL);
  curl_easy_setopt(easy, CURLOPT_HTTPPROXYTUNNEL, 1L);
  perform(easy, "tunnel to HTTP", 1);
  perform(easy, "again", 1);
  curl_easy_setopt(easy, CURLOPT_HTTPPROXYTUNNEL, 0L);
  perform(easy, "without a tunnel", 1);
  curl_easy_cleanup(easy);

  easy = new_handle("https", https, "/secure");
  use_https_proxy(easy);
  curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
  perform(easy, "TLS in TLS", 1);
  perform(easy, "again", 1);
  curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, 1L);
  perform(easy, "another tunnel", 1);
  curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, 0L);
  curl_easy_setopt(easy, CURLOPT_PROXY_SSL_VERIFYHOST, 0L);
  perform(easy, "another setting of the proxy", 1);
  curl_easy_cleanup(easy);

  easy = new_handle("https", https, "/big");
  use_https_proxy(easy);
  curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
  perform(easy, "3 MB in TLS in TLS", 1);
  curl_easy_cleanup(easy);
}

static void untrusted(void) {
  CURL *easy;
  char text[256];
  int tunnels;
  for (tunnels = 0; tunnels < 2; tunnels++) {
    easy = new_handle("http", http, "/");
    use_https_proxy(easy);
    curl_easy_setopt(easy, CURLOPT_HTTPPROXYTUNNEL, (long)tunnels);
    snprintf(text, sizeof text, "%s/other.pem", folder);
    curl_easy_setopt(easy, CURLOPT_PROXY_CAINFO, text);
    perform(easy, "untrusted proxy", 1);
    curl_easy_setopt(easy, CURLOPT_PROXY_SSL_VERIFYPEER, 0L);
    perform(easy, "not verified", 1);
    curl_easy_setopt(easy, CURLOPT_PROXY_PINNEDPUBLICKEY,
                     "sha256//AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=");
    curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, 1L);
    perform(easy, "another pin", 1);
    curl_easy_cleanup(easy);
  }
  /* The name of the proxy is not in its certificate. */
  easy = new_handle("http", http, "/");
  use_https_proxy(easy);
  snprintf(text, sizeof text, "https://other.test:%d", https_proxy);
  curl_easy_setopt(easy, CURLOPT_PROXY, text);
  snprintf(text, sizeof text, "other.test:%d:127.0.0.1", https_proxy);
  struct curl_slist *list = curl_slist_append(NULL, text);
  curl_easy_setopt(easy, CURLOPT_RESOLVE, list);
  perform(easy, "wrong name of the proxy", 1);
  curl_easy_setopt(easy, CURLOPT_PROXY_SSL_VERIFYHOST, 0L);
  perform(easy, "name not verified", 1);
  curl_easy_cleanup(easy);
  curl_slist_free_all(list);
}

static void routes(void) {
  struct curl_slist *to, *addresses;
  CURL *easy;
  char text[256];
  int i;
  for (i = 0; i < 3; i++) {
    int is_secure = i == 1;
    snprintf(text, sizeof text, "::via.test:");
    to = curl_slist_append(NULL, text);
    snprintf(text, sizeof text, "via.test:%d:127.0.0.1", is_secure ? https : http);
    addresses = curl_slist_append(NULL, text);
    easy = new_handle(is_secure ? "https" : "http", is_secure ? https : http, "/to");
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(easy, CURLOPT_CONNECT_TO, to);
    curl_easy_setopt(easy, CURLOPT_RESOLVE, addresses);
    if (i == 2)
      use_https_proxy(easy);
    perform(easy, i == 2 ? "other host, HTTPS proxy" : "other host, directly", 1);
    perform(easy, "again", 1);
    curl_easy_setopt(easy, CURLOPT_CONNECT_TO, NULL);
    perform(easy, "the host itself", 1);
    curl_easy_cleanup(easy);
    curl_slist_free_all(to);
    curl_slist_free_all(addresses);
  }
  /* The proxy's name is given an address. */
  snprintf(text, sizeof text, "proxy.test:%d:127.0.0.1", http_proxy);
  addresses = curl_slist_append(NULL, text);
  easy = new_handle("http", http, "/resolved");
  curl_easy_setopt(easy, CURLOPT_RESOLVE, addresses);
  snprintf(text, sizeof text, "http://proxy.test:%d", http_proxy);
  curl_easy_setopt(easy, CURLOPT_PROXY, text);
  perform(easy, "address of the proxy", 1);
  curl_easy_setopt(easy, CURLOPT_IPRESOLVE, (long)CURL_IPRESOLVE_V6);
  curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, 1L);
  perform(easy, "none of the demanded family", 0);
  curl_easy_cleanup(easy);
  curl_slist_free_all(addresses);
}

static void exchange(CURL *easy, const char *name) {
  static const char request[] = "GET /raw HTTP/1.0\r\n\r\n";
  char buffer[512];
  size_t len = 0, used = 0;
  CURLcode code;
  int tries;
  perform(easy, name, 1);
  code = curl_easy_send(easy, request, sizeof request - 1, &len);
  printf("sent %d %d\n", code, (int)len);
  for (tries = 0; tries < 200 && used < sizeof buffer - 1; tries++) {
    curl_socket_t fd = CURL_SOCKET_BAD;
    struct pollfd wait;
    code = curl_easy_recv(easy, buffer + used, sizeof buffer - 1 - used, &len);
    if (code == CURLE_OK && len > 0) {
      used += len;
      buffer[used] = 0;
      if (strstr(buffer, "\r\n\r\nGET"))
        break;
      continue;
    }
    if (code != CURLE_AGAIN)
      break;
    curl_easy_getinfo(easy, CURLINFO_ACTIVESOCKET, &fd);
    wait.fd = fd;
    wait.events = POLLIN;
    poll(&wait, 1, 1000);
  }
  buffer[used] = 0;
  printf("received %d: ", code);
  print(buffer);
}

static void connect_only(void) {
  CURL *easy;
  char text[256];
  int tls, secure, tunnels;
  for (tls = 0; tls < 2; tls++)
    for (secure = 0; secure < 2; secure++)
      for (tunnels = secure; tunnels < 2; tunnels++) {
        easy = new_handle(secure ? "https" : "http", secure ? https : http, "/");
        curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
        if (tls)
          use_https_proxy(easy);
        else {
          snprintf(text, sizeof text, "http://localhost:%d", http_proxy);
          curl_easy_setopt(easy, CURLOPT_PROXY, text);
        }
        curl_easy_setopt(easy, CURLOPT_HTTPPROXYTUNNEL, (long)tunnels);
        curl_easy_setopt(easy, CURLOPT_CONNECT_ONLY, 1L);
        exchange(easy, tunnels ? "connection in a tunnel" : "connection to a proxy");
        curl_easy_cleanup(easy);
      }
}

int main(int count, char **arguments) {
  if (count < 6)
    return 2;
  https_proxy = atoi(arguments[1]);
  http_proxy = atoi(arguments[2]);
  http = atoi(arguments[3]);
  https = atoi(arguments[4]);
  folder = arguments[5];
  curl_global_init(CURL_GLOBAL_ALL);
  https_proxies();
  untrusted();
  routes();
  connect_only();
  curl_global_cleanup();
  return 0;
}
