/* The cookie engine: files, jars, lists, copies, resets, and shares, without a server. */
#include <curl/curl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char jar[200];

static void list(const char *title, CURL *easy)
{
  struct curl_slist *lines = NULL;
  int code = curl_easy_getinfo(easy, CURLINFO_COOKIELIST, &lines);
  printf("%s: %d\n", title, code);
  for(struct curl_slist *line = lines; line; line = line->next)
    printf("  %s\n", line->data);
  curl_slist_free_all(lines);
}

static void show_jar(const char *title)
{
  char line[500];
  FILE *file = fopen(jar, "r");
  printf("%s:\n", title);
  if(!file)
    printf("  no file\n");
  while(file && fgets(line, sizeof(line), file))
    printf("  %s", line);
  if(file)
    fclose(file);
}

static void write_jar(const char *text)
{
  FILE *file = fopen(jar, "w");
  fputs(text, file);
  fclose(file);
}

static const char *const lines[] = {
  ".example.com\tTRUE\t/\tFALSE\t0\tsession\t1",
  ".example.com\tTRUE\t/\tTRUE\t4102444800\tlong\t2",
  "Set-Cookie: header=3; domain=example.org; path=/a; max-age=999999999999",
  "Set-Cookie: host=4",
  "set-cookie: old=5; domain=example.org; expires=Thu, 01 Jan 1970 00:00:10 GMT",
  "rubbish",
  "#HttpOnly_example.net\tFALSE\t/x\tFALSE\t4102444800\tflags\tv a l",
  "sess", "SESS", "Set-Cookie: again=6; domain=example.org",
  "flush", "RELOAD", "all",
};

static int debug(CURL *easy, curl_infotype type, char *text, size_t length, void *user)
{
  (void)easy;
  (void)user;
  if(type == CURLINFO_TEXT)
    printf("* %.*s", (int)length, text);
  return 0;
}

static void commands(void)
{
  CURL *easy = curl_easy_init();
  curl_easy_setopt(easy, CURLOPT_VERBOSE, 1L);
  curl_easy_setopt(easy, CURLOPT_DEBUGFUNCTION, debug);
  list("none", easy);
  for(size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++) {
    printf("line %d: %d\n", (int)i, curl_easy_setopt(easy, CURLOPT_COOKIELIST, lines[i]));
    list("  list", easy);
  }
  printf("null: %d\n", curl_easy_setopt(easy, CURLOPT_COOKIELIST, NULL));
  curl_easy_cleanup(easy);
}

static void jars(void)
{
  CURL *easy = curl_easy_init();
  CURL *copy;
  unlink(jar);
  curl_easy_setopt(easy, CURLOPT_COOKIEJAR, jar);
  curl_easy_setopt(easy, CURLOPT_COOKIELIST, "FLUSH");
  show_jar("empty");
  for(int i = 0; i < 7; i++)
    curl_easy_setopt(easy, CURLOPT_COOKIELIST, lines[i]);
  copy = curl_easy_duphandle(easy);
  list("copy", copy);
  show_jar("before the end");
  curl_easy_cleanup(easy);
  show_jar("after the end");
  curl_easy_cleanup(copy);
  show_jar("after the copy");
}

static void files(void)
{
  CURL *easy = curl_easy_init();
  CURL *copy;
  write_jar(".example.com\tTRUE\t/\tFALSE\t0\tsession\t1\n"
            "Set-Cookie: header=3; domain=example.org; path=/a; max-age=999999999999\n"
            "  .example.com\tTRUE\t/\tTRUE\t4102444800\tlong\t2\r\n"
            "# comment\n");
  curl_easy_setopt(easy, CURLOPT_COOKIEFILE, jar);
  list("not loaded", easy);
  curl_easy_setopt(easy, CURLOPT_COOKIELIST, "RELOAD");
  list("loaded", easy);
  copy = curl_easy_duphandle(easy);
  list("copy", copy);
  curl_easy_cleanup(copy);
  curl_easy_setopt(easy, CURLOPT_COOKIESESSION, 1L);
  curl_easy_setopt(easy, CURLOPT_COOKIELIST, "ALL");
  curl_easy_setopt(easy, CURLOPT_COOKIELIST, "RELOAD");
  list("without sessions", easy);
  curl_easy_reset(easy);
  list("reset", easy);
  curl_easy_setopt(easy, CURLOPT_COOKIELIST, "ALL");
  curl_easy_setopt(easy, CURLOPT_COOKIELIST, "RELOAD");
  list("reset files", easy);
  curl_easy_setopt(easy, CURLOPT_COOKIEFILE, jar);
  curl_easy_setopt(easy, CURLOPT_COOKIEFILE, NULL);
  curl_easy_setopt(easy, CURLOPT_COOKIELIST, "RELOAD");
  list("cleared", easy);
  curl_easy_setopt(easy, CURLOPT_COOKIELIST, lines[0]);
  list("on again", easy);
  curl_easy_cleanup(easy);
}

static void shared(void)
{
  CURLSH *share = curl_share_init();
  CURL *first = curl_easy_init();
  CURL *second = curl_easy_init();
  CURL *copy;
  curl_share_setopt(share, CURLSHOPT_SHARE, CURL_LOCK_DATA_COOKIE);
  curl_easy_setopt(first, CURLOPT_COOKIELIST, lines[1]);
  curl_easy_setopt(first, CURLOPT_SHARE, share);
  list("own are gone", first);
  curl_easy_setopt(first, CURLOPT_COOKIELIST, lines[2]);
  curl_easy_setopt(second, CURLOPT_SHARE, share);
  list("second", second);
  copy = curl_easy_duphandle(second);
  list("copy", copy);
  curl_easy_setopt(second, CURLOPT_COOKIEFILE, NULL);
  list("off", second);
  curl_easy_setopt(second, CURLOPT_COOKIELIST, lines[6]);
  list("own", second);
  list("first", first);
  curl_easy_setopt(second, CURLOPT_SHARE, share);
  list("shared again", second);
  curl_easy_setopt(second, CURLOPT_SHARE, NULL);
  list("left", second);
  curl_easy_cleanup(copy);
  curl_easy_cleanup(second);
  curl_easy_cleanup(first);
  printf("end: %d\n", curl_share_cleanup(share));
}

static void jar_on_stdout(void)
{
  CURL *easy = curl_easy_init();
  curl_easy_setopt(easy, CURLOPT_COOKIEJAR, "-");
  curl_easy_setopt(easy, CURLOPT_COOKIELIST, lines[1]);
  printf("flush\n");
  curl_easy_setopt(easy, CURLOPT_COOKIELIST, "FLUSH");
  printf("cleanup\n");
  curl_easy_setopt(easy, CURLOPT_COOKIEJAR, "/");
  curl_easy_cleanup(easy);
}

int main(int argc, char **argv)
{
  if(argc < 2)
    return 2;
  snprintf(jar, sizeof(jar), "%s", argv[1]);
  curl_global_init(CURL_GLOBAL_ALL);
  commands();
  jars();
  files();
  shared();
  jar_on_stdout();
  unlink(jar);
  curl_global_cleanup();
  return 0;
}
