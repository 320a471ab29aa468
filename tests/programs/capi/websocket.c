/* WebSockets: arguments are the ports of a server without TLS and of one with it, and the folder of
 * its certificate. */
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char error[CURL_ERROR_SIZE];
static int frames;

static CURL *new_handle(int is_secure, const char *port, const char *path, const char *folder) {
  CURL *easy = curl_easy_init();
  char text[256];
  snprintf(text, sizeof text, "%s://localhost:%s%s", is_secure ? "wss" : "ws", port, path);
  curl_easy_setopt(easy, CURLOPT_URL, text);
  snprintf(text, sizeof text, "%s/ca.pem", folder);
  curl_easy_setopt(easy, CURLOPT_CAINFO, text);
  curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, error);
  curl_easy_setopt(easy, CURLOPT_TIMEOUT, 20L);
  return easy;
}

static void receive(CURL *easy, size_t size) {
  static char buffer[4096];
  const struct curl_ws_frame *frame = NULL;
  size_t len = 0;
  CURLcode code = curl_ws_recv(easy, buffer, size, &len, (struct curl_ws_frame **)&frame);
  printf("received %d %d", code, (int)len);
  if (frame)
    printf(" flags %x offset %d left %d len %d", frame->flags, (int)frame->offset,
           (int)frame->bytesleft, (int)frame->len);
  if (len && len < 20 && frame->flags != CURLWS_CLOSE)
    printf(" '%.*s'", (int)len, buffer);
  printf("\n");
}

static void send_frame(CURL *easy, const char *text, size_t len, curl_off_t total, unsigned flags) {
  size_t sent = 0;
  CURLcode code = curl_ws_send(easy, text, len, &sent, total, flags);
  printf("sent %d %d\n", code, (int)sent);
}

static void echo(int is_secure, const char *port, const char *folder) {
  static char large[300000];
  CURL *easy = new_handle(is_secure, port, "/echo", folder);
  const struct curl_ws_frame *frame;
  size_t sent, len, total = 0, done = 0;
  int code, wrong = 0, i;
  curl_easy_setopt(easy, CURLOPT_CONNECT_ONLY, 2L);
  code = curl_easy_perform(easy);
  printf("# echo %s\n%d\n", is_secure ? "with TLS" : "without TLS", code);
  send_frame(easy, "hello", 5, 0, CURLWS_TEXT);
  receive(easy, 100);
  send_frame(easy, "now", 3, 0, CURLWS_PING);
  receive(easy, 2);
  receive(easy, 2);
  send_frame(easy, "", 0, 0, CURLWS_BINARY);
  receive(easy, 100);
  send_frame(easy, "first", 5, 0, CURLWS_TEXT | CURLWS_CONT);
  receive(easy, 100);
  send_frame(easy, "last", 4, 0, CURLWS_TEXT);
  receive(easy, 100);
  for (i = 0; i < (int)sizeof large; i++)
    large[i] = (char)(i / 3);
  while (done < sizeof large) {
    code = curl_ws_send(easy, large + done, sizeof large - done, &sent,
                        done ? 0 : (curl_off_t)sizeof large, CURLWS_BINARY | CURLWS_OFFSET);
    if (code)
      break;
    done += sent;
  }
  printf("large: %d %d\n", code, (int)done);
  while (total < sizeof large) {
    char buffer[10000];
    code = curl_ws_recv(easy, buffer, sizeof buffer, &len, (struct curl_ws_frame **)&frame);
    if (code)
      break;
    wrong += (size_t)frame->offset != total || frame->flags != CURLWS_BINARY;
    wrong += (size_t)frame->bytesleft != sizeof large - total - len;
    wrong += memcmp(buffer, large + total, len) != 0;
    total += len;
  }
  printf("large: %d %d, %d wrong\n", code, (int)total, wrong);
  send_frame(easy, "\x03\xe8", 2, 0, CURLWS_CLOSE);
  receive(easy, 100);
  receive(easy, 100);
  curl_easy_cleanup(easy);
}

static size_t print_frame(char *bytes, size_t size, size_t count, void *user) {
  struct curl_ws_frame *frame = curl_ws_meta(user);
  (void)size;
  if (frame && frame->offset == 0) {
    printf("frame: flags %x, %d bytes", frame->flags, (int)(count + frame->bytesleft));
    if (count && count < 40 && frame->flags != CURLWS_CLOSE)
      printf(" '%.*s'", (int)count, bytes);
    printf("\n");
  }
  if (!frame) {
    if (frames++ == 0) {
      size_t sent = 0;
      printf("raw %02x %02x '%.*s'\n", (unsigned char)bytes[0], (unsigned char)bytes[1], 5,
         bytes + 2);
      /* A PONG, masked with 0. */
      CURLcode code = curl_ws_send(user, "\x8a\x80\0\0\0\0", 6, &sent, 0, 0);
      printf("sent %d %d\n", code, (int)sent);
    }
  }
  return count;
}

static void callbacks(const char *port, const char *folder, long options, const char *path) {
  CURL *easy = new_handle(0, port, path, folder);
  long status = 0;
  char *scheme = NULL;
  int code;
  error[0] = frames = 0;
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, print_frame);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, easy);
  printf("# %s %ld\n", path, options);
  printf("option %d\n", curl_easy_setopt(easy, CURLOPT_WS_OPTIONS, options));
  code = curl_easy_perform(easy);
  curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
  curl_easy_getinfo(easy, CURLINFO_SCHEME, &scheme);
  printf("%d, status %ld, %s, %s\n", code, status, scheme, error);
  curl_easy_cleanup(easy);
}

static size_t free_handle(char *bytes, size_t size, size_t count, void *user) {
  (void)bytes;
  (void)size;
  if (frames++ == 0)
    curl_easy_cleanup(user);
  return count;
}

static int is_paused, received, received_paused, wrong;

/* Each frame has its number, in five digits; the borders of reads divide some. */
static size_t count_bytes(char *bytes, size_t size, size_t count, void *user) {
  struct curl_ws_frame *frame = curl_ws_meta(user);
  (void)size;
  if (frame->flags & CURLWS_CLOSE)
    return count;
  for (size_t i = 0; i < count; i++, received++) {
    char digits[16];
    snprintf(digits, sizeof digits, "%05d", received / 5);
    wrong += bytes[i] != digits[received % 5];
  }
  if (is_paused)
    received_paused += (int)count;
  if (!is_paused && received / 50000 > frames) {
    frames++;
    is_paused = 1;
    received_paused = 0;
    curl_easy_pause(user, CURLPAUSE_RECV);
  }
  return count;
}

/* As in libcurl, a pause begins behind the part of 16 KB that is being delivered. */
static void paused(const char *port, const char *folder) {
  CURL *easy = new_handle(0, port, "/flood", folder);
  CURLM *multi = curl_multi_init();
  int running = 1, pauses = 0, late = 0, left;
  frames = received = wrong = 0;
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, count_bytes);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, easy);
  curl_multi_add_handle(multi, easy);
  while (running) {
    if (is_paused) {
      pauses++;
      late += received_paused > 16 * 1024;
      is_paused = 0;
      curl_easy_pause(easy, CURLPAUSE_CONT);
    }
    curl_multi_perform(multi, &running);
    if (running && !is_paused)
      curl_multi_poll(multi, NULL, 0, 1000, NULL);
  }
  CURLMsg *message = curl_multi_info_read(multi, &left);
  printf("# paused\n%d, %d bytes, %d wrong, %d pauses, %d too late\n",
         message ? (int)message->data.result : -1, received, wrong, pauses, late);
  curl_multi_remove_handle(multi, easy);
  curl_easy_cleanup(easy);
  curl_multi_cleanup(multi);
}

/* No further frame is delivered, not to stdout either. libcurl crashes. */
static void freed(const char *port, const char *folder) {
  CURL *easy = new_handle(0, port, "/script", folder);
  curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, NULL);
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, free_handle);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, easy);
  frames = 0;
  int code = curl_easy_perform(easy);
  printf("# freed\n%d, %d frames\n", code, frames);
}

/* The input of the process is no body of a WebSocket. */
static void fill_stdin(void) {
  int ends[2];
  if (pipe(ends) || write(ends[1], "SECRET", 6) != 6 || dup2(ends[0], 0) || close(ends[1]))
    exit(3);
}

int main(int count, char **arguments) {
  if (count < 4)
    return 2;
  fill_stdin();
  curl_global_init(CURL_GLOBAL_ALL);
  echo(0, arguments[1], arguments[3]);
  echo(1, arguments[2], arguments[3]);
  callbacks(arguments[1], arguments[3], 0, "/script");
  callbacks(arguments[1], arguments[3], 0, "/pings");
  freed(arguments[1], arguments[3]);
  paused(arguments[1], arguments[3]);
  callbacks(arguments[1], arguments[3], 0, "/refuse");
  callbacks(arguments[1], arguments[3], 0, "/masked");
  callbacks(arguments[1], arguments[3], 0, "/opcode");
  callbacks(arguments[1], arguments[3], 0, "/leave");
  callbacks(arguments[1], arguments[3], CURLWS_RAW_MODE, "/script");
  curl_global_cleanup();
  return 0;
}
