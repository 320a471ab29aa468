/* Callbacks for sockets, connections of the application (CURLOPT_CONNECT_ONLY), and what
   curl_easy_getinfo knows of connections. Argument: a URL of a server that keeps connections. */
#define CURL_DISABLE_DEPRECATION /* CURLINFO_LASTSOCKET */
#include <arpa/inet.h>
#include <curl/curl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int opened, closed, prepared, prepare_result, open_fails;

static curl_socket_t open_it(void *user, curlsocktype purpose, struct curl_sockaddr *address) {
  (void)user;
  opened++;
  printf("open purpose %d family %d type %d protocol %d len %u\n", purpose,
         address->family == AF_INET, address->socktype == SOCK_STREAM, address->protocol,
         address->addrlen);
  if (open_fails)
    return CURL_SOCKET_BAD;
  return socket(address->family, address->socktype, address->protocol);
}

static int close_it(void *user, curl_socket_t fd) {
  closed++;
  printf("close %s\n", (char *)user);
  return close(fd);
}

static int prepare_it(void *user, curl_socket_t fd, curlsocktype purpose) {
  (void)user;
  prepared++;
  printf("prepare purpose %d fd %d\n", purpose, fd > 2);
  return prepare_result;
}

static size_t drop(char *bytes, size_t one, size_t len, void *user) {
  CURL *easy = *(CURL **)user;
  char *ip = NULL, *local = NULL;
  long port = 0, local_port = 0;
  (void)bytes;
  curl_easy_getinfo(easy, CURLINFO_PRIMARY_IP, &ip);
  curl_easy_getinfo(easy, CURLINFO_LOCAL_IP, &local);
  curl_easy_getinfo(easy, CURLINFO_PRIMARY_PORT, &port);
  curl_easy_getinfo(easy, CURLINFO_LOCAL_PORT, &local_port);
  printf("in a callback: %s %d %s %d\n", ip, port > 0, local, local_port > 0);
  return one * len;
}

static void show(CURL *easy, CURLcode code, const char *error) {
  curl_socket_t fd = -2;
  long connects = -1, last = -2, os = -1;
  char *ip = NULL, *local = NULL;
  curl_easy_getinfo(easy, CURLINFO_ACTIVESOCKET, &fd);
  curl_easy_getinfo(easy, CURLINFO_LASTSOCKET, &last);
  curl_easy_getinfo(easy, CURLINFO_NUM_CONNECTS, &connects);
  curl_easy_getinfo(easy, CURLINFO_PRIMARY_IP, &ip);
  curl_easy_getinfo(easy, CURLINFO_LOCAL_IP, &local);
  curl_easy_getinfo(easy, CURLINFO_OS_ERRNO, &os);
  if (strstr(error, " after "))
    error = strrchr(error, ':');
  printf("-> %d '%s' active %d same %d connects %ld ip '%s' local '%s'\n", code, error, fd >= 0,
         (long)fd == last, connects, ip, local);
}

static void set_hooks(CURL *easy, const char *name) {
  curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, open_it);
  curl_easy_setopt(easy, CURLOPT_CLOSESOCKETFUNCTION, close_it);
  curl_easy_setopt(easy, CURLOPT_CLOSESOCKETDATA, name);
  curl_easy_setopt(easy, CURLOPT_SOCKOPTFUNCTION, prepare_it);
}

/* Sends a request and prints the status line of the response. */
static void talk(CURL *easy, const char *host) {
  char text[512], bytes[4096];
  size_t n = 99, total = 0;
  CURLcode code;
  curl_socket_t fd;
  int again = 0;
  snprintf(text, sizeof(text), "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", host);
  curl_easy_getinfo(easy, CURLINFO_ACTIVESOCKET, &fd);
  code = curl_easy_recv(easy, bytes, sizeof(bytes), &n);
  printf("recv before a request: %d %zu\n", code, n);
  code = curl_easy_send(easy, text, strlen(text), &n);
  printf("send %d %d\n", code, n == strlen(text));
  do {
    struct pollfd wait = {fd, POLLIN, 0};
    poll(&wait, 1, 5000);
    n = 99;
    code = curl_easy_recv(easy, bytes + total, 5, &n);
    if (code == CURLE_OK)
      total += n;
    else if (code != CURLE_AGAIN || ++again > 50)
      break;
    bytes[total] = 0;
  } while (!strstr(bytes, "hello") && total < 4000 && n > 0);
  bytes[15] = 0;
  printf("recv %d %zu '%s'\n", code, total, bytes);
}

int main(int argc, char **argv) {
  char error[CURL_ERROR_SIZE] = "", host[256] = "";
  CURL *easy = curl_easy_init();
  CURLM *multi;
  size_t n = 99;
  int running, left;
  if (argc < 2)
    return 1;
  sscanf(argv[1], "http%*[s:/]%255[^/]", host);
  curl_easy_setopt(easy, CURLOPT_URL, argv[1]);
  curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 0L);
  curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 0L);
  curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, error);
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, drop);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, &easy);

  printf("1. without a connection\n");
  printf("%d %s\n", curl_easy_recv(easy, host, 0, &n), error);
  curl_easy_setopt(easy, CURLOPT_CONNECT_ONLY, 1L);
  printf("%d\n", curl_easy_send(easy, host, 0, &n));
  curl_easy_setopt(easy, CURLOPT_CONNECT_ONLY, 0L);

  printf("2. hooks, and a connection that is used again\n");
  set_hooks(easy, "first");
  show(easy, curl_easy_perform(easy), error);
  curl_easy_setopt(easy, CURLOPT_CLOSESOCKETDATA, "second");
  show(easy, curl_easy_perform(easy), error);
  curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, 1L);
  curl_easy_setopt(easy, CURLOPT_FORBID_REUSE, 1L);
  show(easy, curl_easy_perform(easy), error);

  printf("3. refused by hooks\n");
  prepare_result = CURL_SOCKOPT_ERROR;
  show(easy, curl_easy_perform(easy), error);
  prepare_result = CURL_SOCKOPT_OK;
  open_fails = 1;
  show(easy, curl_easy_perform(easy), error);
  open_fails = 0;

  printf("4. connect only\n");
  curl_easy_setopt(easy, CURLOPT_CONNECT_ONLY, 1L);
  curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, 2000L);
  show(easy, curl_easy_perform(easy), error);
  curl_easy_setopt(easy, CURLOPT_FORBID_REUSE, 0L);
  show(easy, curl_easy_perform(easy), error);
  talk(easy, host);
  curl_easy_cleanup(easy);

  printf("5. connect only, in a multi handle\n");
  easy = curl_easy_init();
  multi = curl_multi_init();
  curl_easy_setopt(easy, CURLOPT_URL, argv[1]);
  curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 0L);
  curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 0L);
  curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, error);
  curl_easy_setopt(easy, CURLOPT_CONNECT_ONLY, 1L);
  set_hooks(easy, "third");
  curl_multi_add_handle(multi, easy);
  do {
    curl_multi_perform(multi, &running);
    curl_multi_poll(multi, NULL, 0, running ? 1000 : 0, NULL);
  } while (running);
  CURLMsg *message = curl_multi_info_read(multi, &left);
  show(easy, message ? message->data.result : (CURLcode)99, error);
  talk(easy, host);
  curl_multi_remove_handle(multi, easy);
  printf("removed: %d\n", curl_easy_recv(easy, host, 1, &n));
  curl_multi_cleanup(multi);
  curl_easy_cleanup(easy);
  printf("%d opened, %d prepared, %d closed\n", opened, prepared, closed);
  return 0;
}
