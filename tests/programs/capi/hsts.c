/* HSTS and alternative services: files, callbacks, copies, shares, requests that become secure. */
#include <curl/curl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char cache[200];

static void show(const char *title)
{
  char line[500];
  FILE *file = fopen(cache, "r");
  printf("%s:\n", title);
  if(!file)
    printf("  no file\n");
  while(file && fgets(line, sizeof(line), file))
    printf("  %s", line);
  if(file)
    fclose(file);
}

static void store(const char *text)
{
  FILE *file = fopen(cache, "w");
  fputs(text, file);
  fclose(file);
}

static const char *const names[] = {"one.localhost", "two.localhost", "a.two.localhost"};

static CURLSTScode give(CURL *easy, struct curl_hstsentry *entry, void *user)
{
  int *count = user;
  (void)easy;
  if(*count < 0)
    return CURLSTS_FAIL;
  if(*count >= 3)
    return CURLSTS_DONE;
  strcpy(entry->name, names[*count]);
  entry->includeSubDomains = *count == 1;
  strcpy(entry->expire, *count == 2 ? "" : "20370320 01:02:03");
  printf("read %d, room %d\n", *count, (int)entry->namelen);
  (*count)++;
  return CURLSTS_OK;
}

static CURLSTScode take(CURL *easy, struct curl_hstsentry *entry, struct curl_index *index,
                        void *user)
{
  (void)easy;
  printf("write %d of %d: %s %d %d %s\n", (int)index->index, (int)index->total, entry->name,
         (int)entry->namelen, (int)entry->includeSubDomains, entry->expire);
  return --*(int *)user ? CURLSTS_OK : CURLSTS_DONE;
}

static int debug(CURL *easy, curl_infotype type, char *text, size_t length, void *user)
{
  (void)easy;
  (void)user;
  if(type == CURLINFO_TEXT && length > 8 && !strncmp(text, "Switched", 8))
    printf("* %.*s", (int)length, text);
  return 0;
}

/* The hosts are this machine, which refuses connections to these ports. */
static void perform(CURL *easy, const char *url)
{
  char *effective = NULL;
  int code;
  curl_easy_setopt(easy, CURLOPT_URL, url);
  curl_easy_setopt(easy, CURLOPT_VERBOSE, 1L);
  curl_easy_setopt(easy, CURLOPT_DEBUGFUNCTION, debug);
  code = curl_easy_perform(easy);
  curl_easy_getinfo(easy, CURLINFO_EFFECTIVE_URL, &effective);
  printf("%s: %s\n", code ? "failed" : "ok", effective);
}

static void files(void)
{
  CURL *easy = curl_easy_init();
  store(".sub.localhost \"20370320 01:02:03\"\none.localhost \"unlimited\"\n"
        "old.localhost \"20100101 00:00:00\"\n");
  printf("%d\n", curl_easy_setopt(easy, CURLOPT_HSTS, cache));
  perform(easy, "http://one.localhost:1/a");
  perform(easy, "http://x.sub.localhost/b?c#d");
  perform(easy, "http://x.one.localhost/");
  perform(easy, "http://old.localhost/");
  curl_easy_setopt(easy, CURLOPT_PORT, 1L);
  perform(easy, "http://user@ONE.localhost/");
  store("");
  curl_easy_cleanup(easy);
  show("written");
  easy = curl_easy_init();
  curl_easy_setopt(easy, CURLOPT_HSTS, cache);
  curl_easy_setopt(easy, CURLOPT_HSTS, NULL);
  store("kept");
  curl_easy_cleanup(easy);
  show("not written");
  printf("\n");
}

static void callbacks(long control)
{
  CURL *easy = curl_easy_init();
  int read = 0;
  int written = 3;
  curl_easy_setopt(easy, CURLOPT_HSTSREADFUNCTION, give);
  curl_easy_setopt(easy, CURLOPT_HSTSREADDATA, &read);
  curl_easy_setopt(easy, CURLOPT_HSTSWRITEFUNCTION, take);
  curl_easy_setopt(easy, CURLOPT_HSTSWRITEDATA, &written);
  printf("control %ld: %d\n", control, curl_easy_setopt(easy, CURLOPT_HSTS_CTRL, control));
  perform(easy, "http://two.localhost/");
  read = 2;
  perform(easy, "http://b.two.localhost/");
  read = -1;
  printf("fails: %d\n", curl_easy_perform(easy));
  curl_easy_cleanup(easy);
}

static void shared(void)
{
  CURLSH *share = curl_share_init();
  CURL *easy = curl_easy_init();
  curl_share_setopt(share, CURLSHOPT_SHARE, CURL_LOCK_DATA_HSTS);
  store("one.localhost \"unlimited\"\n");
  curl_easy_setopt(easy, CURLOPT_SHARE, share);
  curl_easy_setopt(easy, CURLOPT_HSTS, cache);
  perform(easy, "http://one.localhost/");
  curl_easy_cleanup(easy);
  easy = curl_easy_init();
  perform(easy, "http://one.localhost/");
  curl_easy_setopt(easy, CURLOPT_SHARE, share);
  perform(easy, "http://one.localhost/");
  curl_easy_cleanup(easy);
  printf("end: %d\n", curl_share_cleanup(share));
}

static void alternatives(void)
{
  CURL *easy = curl_easy_init();
  CURL *copy;
  store("h1 one.localhost 443 h2 127.0.0.1 1 \"20370320 01:02:03\" 1 0\n# comment\n");
  printf("%d\n", curl_easy_setopt(easy, CURLOPT_ALTSVC, cache));
  printf("%d\n", curl_easy_setopt(easy, CURLOPT_ALTSVC_CTRL, 0L));
  copy = curl_easy_duphandle(easy);
  store("");
  curl_easy_cleanup(easy);
  show("alternatives");
  store("");
  curl_easy_setopt(copy, CURLOPT_ALTSVC_CTRL, CURLALTSVC_READONLYFILE);
  curl_easy_cleanup(copy);
  show("read-only");
}

int main(int argc, char **argv)
{
  if(argc < 2)
    return 2;
  snprintf(cache, sizeof(cache), "%s", argv[1]);
  curl_global_init(CURL_GLOBAL_ALL);
  files();
  callbacks(CURLHSTS_ENABLE);
  callbacks(0);
  shared();
  alternatives();
  unlink(cache);
  curl_global_cleanup();
  return 0;
}
