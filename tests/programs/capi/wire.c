/* What the options for sockets and for the first bytes of a connection do: each request is printed
 * as a server of this program receives it, with its ports by name. */
#include <arpa/inet.h>
#include <curl/curl.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* One that speaks IPv4, one that speaks IPv6, if the machine has it. */
static int listeners[2], ports[2];

static int receive(int fd, char *head, size_t size) {
  size_t len = 0;
  while (len + 1 < size) {
    ssize_t got = recv(fd, head + len, size - 1 - len, 0);
    if (got <= 0) return 0;
    len += (size_t)got;
    head[len] = 0;
    if (strstr(head, "\r\n\r\n")) return 1;
  }
  return 0;
}

/* The response to a path of one digit. A tunnel leads to this server itself. */
static const char *const responses[] = {
  "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
  "ICY 200 OK\r\nContent-Length: 3\r\n\r\nabc",
  "XYZ 404 Where\nContent-Length: 3\n\nabc",
  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: x\r\n\r\n"
  "3 ; a=b\r\nabc\r\n2\r\nde\r\n0\r\nx: y\r\n\r\n",
};

/* Accepts the upgrade of a request, and responds to its stream, in pieces of `step` bytes. */
static void serve_http2(int fd, int is_head, size_t step) {
  static const char start[] = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n"
                              "Upgrade: h2c\r\n\r\n\0\0\0\4\0\0\0\0\0";
  static const char headers[] = "\0\0\4\1\4\0\0\0\1\x88\x5c\1\x33";
  static const char end[] = "\0\0\4\1\5\0\0\0\1\x88\x5c\1\x33";
  static const char data[] = "\0\0\3\0\1\0\0\0\1\x61\x62\x63";
  char all[300], rest[512];
  size_t len = sizeof start - 1;
  int one = 1;
  memcpy(all, start, len);
  memcpy(all + len, is_head ? end : headers, sizeof headers - 1);
  len += sizeof headers - 1;
  if (!is_head) memcpy(all + len, data, sizeof data - 1);
  if (!is_head) len += sizeof data - 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  for (size_t at = 0; at < len; at += step)
    send(fd, all + at, at + step < len ? step : len - at, MSG_NOSIGNAL);
  while (recv(fd, rest, sizeof rest, 0) > 0) {
  }
}

static void *serve(void *socket) {
  char head[4096];
  int fd = (int)(long)socket;
  while (receive(fd, head, sizeof head)) {
    const char *line = head;
    if (!strncmp(line, "PROXY", 5)) {
      char family[8], from[64], to[64];
      int ours = 0, theirs = 0;
      if (sscanf(line, "PROXY %7s %63s %63s %d %d", family, from, to, &ours, &theirs) == 5) {
        struct sockaddr_storage peer;
        socklen_t len = sizeof peer;
        getpeername(fd, (struct sockaddr *)&peer, &len);
        int port = peer.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&peer)->sin6_port
                                              : ((struct sockaddr_in *)&peer)->sin_port;
        printf("PROXY %s %s %s, ports are %s\n", family, from, to,
               ours == ntohs((unsigned short)port) && (theirs == ports[0] || theirs == ports[1])
                   ? "right"
                   : "wrong");
      } else {
        printf("%.*s\n", (int)strcspn(line, "\r\n"), line);
      }
      line = strstr(line, "\r\n") + 2;
      if (!*line && !receive(fd, head, sizeof head)) break;
      if (!*line) line = head;
    }
    int is_connect = !strncmp(line, "CONNECT", 7);
    const char *path = strchr(line, ' ');
    unsigned number = path && path[1] == '/' ? (unsigned)(path[2] - '0') : 0;
    for (const char *at = line; *at != '\r' || at[1] != '\n' || at != line; at = line) {
      size_t size = strcspn(at, "\r");
      if (!strncmp(at, "GET http:", 9)) printf("  GET in absolute form\n");
      else if (strncmp(at, "Host:", 5) && !is_connect) printf("  %.*s\n", (int)size, at);
      line = at + size + 2;
    }
    if (is_connect) printf("  CONNECT\n");
    if (number == 5) {
      fflush(stdout);
      serve_http2(fd, !strncmp(head, "HEAD", 4), (size_t)atoi(path + 4));
      break;
    }
    const char *response = responses[number < sizeof responses / sizeof *responses ? number : 0];
    if (is_connect) response = "HTTP/1.1 200 Opened\r\n\r\n";
    fflush(stdout);
    send(fd, response, strlen(response), MSG_NOSIGNAL);
    if (number > 0 && number != 3) break;
  }
  close(fd);
  return NULL;
}

static void *accept_all(void *listener) {
  for (;;) {
    pthread_t thread;
    int fd = accept(*(int *)listener, NULL, NULL);
    if (fd < 0) return NULL;
    pthread_create(&thread, NULL, serve, (void *)(long)fd);
    pthread_detach(thread);
  }
}

static void listen_on(int at, struct sockaddr *address, socklen_t len) {
  static pthread_t threads[2];
  listeners[at] = socket(address->sa_family, SOCK_STREAM, 0);
  if (bind(listeners[at], address, len) || listen(listeners[at], 8)) {
    close(listeners[at]);
    listeners[at] = -1;
    return;
  }
  getsockname(listeners[at], address, &len);
  ports[at] = ntohs(at ? ((struct sockaddr_in6 *)address)->sin6_port
                       : ((struct sockaddr_in *)address)->sin_port);
  pthread_create(&threads[at], NULL, accept_all, &listeners[at]);
  pthread_detach(threads[at]);
}

static size_t print_body(char *data, size_t size, size_t n, void *user) {
  (void)user;
  for (size_t i = 0; i < size * n; i++)
    if (data[i] == '\r') printf("\\r");
    else if (data[i] == '\n') printf("\\n");
    else putchar(data[i]);
  return size * n;
}

static int option_of(curl_socket_t fd, int level, int option) {
  int value = -1;
  socklen_t len = sizeof value;
  getsockopt(fd, level, option, &value, &len);
  return value;
}

static int print_socket(void *user, curl_socket_t fd, curlsocktype purpose) {
  (void)user, (void)purpose;
  printf("probes %d after %d, every %d\n", option_of(fd, SOL_SOCKET, SO_KEEPALIVE),
         option_of(fd, IPPROTO_TCP, TCP_KEEPIDLE), option_of(fd, IPPROTO_TCP, TCP_KEEPINTVL));
  return CURL_SOCKOPT_OK;
}

static void perform(CURL *easy, const char *title, const char *path) {
  char url[100], error[CURL_ERROR_SIZE] = "";
  long status = 0, connects = 0;
  int at = *path == '6';
  const char *host = at ? "[::1]" : "127.0.0.1";
  snprintf(url, sizeof url, "http://%s:%d/%s", host, ports[at], path + at);
  printf("%s\n", title);
  fflush(stdout);
  curl_easy_setopt(easy, CURLOPT_URL, url);
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, print_body);
  curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, print_body);
  curl_easy_setopt(easy, CURLOPT_HEADERDATA, easy);
  curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, error);
  curl_easy_setopt(easy, CURLOPT_NOPROXY, "");
  CURLcode code = curl_easy_perform(easy);
  curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
  curl_easy_getinfo(easy, CURLINFO_NUM_CONNECTS, &connects);
  printf("\n= %d, status %ld, %ld connects%s%s\n", code, status, connects, *error ? ": " : "",
         error);
  fflush(stdout);
}

static void first_bytes(void) {
  char proxy[64];
  CURL *easy = curl_easy_init();
  curl_easy_setopt(easy, CURLOPT_HAPROXYPROTOCOL, 1L);
  perform(easy, "PROXY", "0");
  perform(easy, "PROXY, reused", "0");
  if (listeners[1] >= 0) perform(easy, "PROXY over IPv6", "60");
  snprintf(proxy, sizeof proxy, "http://127.0.0.1:%d", ports[0]);
  curl_easy_setopt(easy, CURLOPT_PROXY, proxy);
  perform(easy, "PROXY to a proxy", "0");
  curl_easy_setopt(easy, CURLOPT_HTTPPROXYTUNNEL, 1L);
  curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, 1L);
  perform(easy, "PROXY in a tunnel", "0");
  curl_easy_cleanup(easy);
}

static void sockets(void) {
  curl_socket_t fd = CURL_SOCKET_BAD;
  CURL *easy = curl_easy_init();
  curl_easy_setopt(easy, CURLOPT_SOCKOPTFUNCTION, print_socket);
  perform(easy, "no probes", "0");
  curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
  curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, 1L);
  perform(easy, "probes", "0");
  curl_easy_setopt(easy, CURLOPT_TCP_KEEPIDLE, 7L);
  curl_easy_setopt(easy, CURLOPT_TCP_KEEPINTVL, 9L);
  perform(easy, "other times", "0");
  curl_easy_setopt(easy, CURLOPT_TCP_KEEPIDLE, 0L);
  curl_easy_setopt(easy, CURLOPT_TCP_KEEPINTVL, 40000L);
  perform(easy, "times that the kernel refuses", "0");
  curl_easy_setopt(easy, CURLOPT_TCP_FASTOPEN, 1L);
  perform(easy, "fast open", "0");
  curl_easy_cleanup(easy);
  for (long nodelay = 0; nodelay < 2; nodelay++) {
    easy = curl_easy_init();
    curl_easy_setopt(easy, CURLOPT_TCP_NODELAY, nodelay);
    perform(easy, "one", "0");
    perform(easy, "another", "0");
    curl_easy_getinfo(easy, CURLINFO_ACTIVESOCKET, &fd);
    printf("nodelay %d\n", option_of(fd, IPPROTO_TCP, TCP_NODELAY));
    curl_easy_cleanup(easy);
  }
}

static void responses_as_they_are(void) {
  CURL *easy = curl_easy_init();
  struct curl_slist *aliases = curl_slist_append(NULL, "icy ");
  aliases = curl_slist_append(aliases, "XYZ 4");
  perform(easy, "a status line of another kind", "1");
  curl_easy_setopt(easy, CURLOPT_HTTP09_ALLOWED, 1L);
  perform(easy, "no status line", "1");
  curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
  perform(easy, "no status line to HEAD", "1");
  curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, "GET");
  perform(easy, "no status line, and no body wanted", "1");
  curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, NULL);
  curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L);
  curl_easy_setopt(easy, CURLOPT_HTTP200ALIASES, aliases);
  perform(easy, "an alias, with HTTP/0.9", "1");
  curl_easy_setopt(easy, CURLOPT_HTTP09_ALLOWED, 0L);
  perform(easy, "an alias", "1");
  perform(easy, "another alias", "2");
  perform(easy, "chunks", "3");
  curl_easy_setopt(easy, CURLOPT_HTTP_TRANSFER_DECODING, 0L);
  curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, 1L); /* ours uses another connection anyway */
  perform(easy, "raw chunks", "3");
  curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, 0L);
  perform(easy, "raw chunks, reused", "3");
  curl_easy_cleanup(easy);
  curl_slist_free_all(aliases);
}

static void upgrades(void) {
  const char *steps[] = {"5/1", "5/2", "5/7", "5/1000"};
  CURL *easy = curl_easy_init();
  curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_2_0);
  perform(easy, "a refused upgrade", "0");
  perform(easy, "another one", "0");
  for (int i = 0; i < 4; i++) {
    long version = 0;
    curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, 1L);
    curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L);
    perform(easy, "an upgrade", steps[i]);
    curl_easy_getinfo(easy, CURLINFO_HTTP_VERSION, &version);
    printf("version %ld\n", version);
    curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
    perform(easy, "HEAD", steps[i]);
    curl_easy_setopt(easy, CURLOPT_NOBODY, 0L);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, "");
    perform(easy, "POST", steps[i]);
  }
  curl_easy_cleanup(easy);
}

int main(int argc, char **argv) {
  struct sockaddr_in ipv4 = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  struct sockaddr_in6 ipv6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
  curl_global_init(CURL_GLOBAL_DEFAULT);
  listen_on(0, (struct sockaddr *)&ipv4, sizeof ipv4);
  listen_on(1, (struct sockaddr *)&ipv6, sizeof ipv6);
  switch (argc > 1 ? *argv[1] : 0) {
    case 'f': first_bytes(); break;
    case 's': sockets(); break;
    case 'u': upgrades(); break;
    case 'r': responses_as_they_are(); break;
    default: return 2;
  }
  curl_global_cleanup();
  return 0;
}
