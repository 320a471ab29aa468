/* Shares: codes of their options, use by handles, and the calls of the lock functions. */
#include <curl/curl.h>
#include <stdio.h>

static const char *const kinds[] = {"none", "share",   "cookie", "dns",
                                    "tls",  "connect", "psl",    "hsts"};

static void lock(CURL *handle, curl_lock_data data, curl_lock_access access, void *user)
{
  printf("%s lock %s %d %s\n", (char *)user, kinds[data], (int)access, handle ? "easy" : "none");
}

static void unlock(CURL *handle, curl_lock_data data, void *user)
{
  printf("%s unlock %s %s\n", (char *)user, kinds[data], handle ? "easy" : "none");
}

static void codes(void)
{
  CURLSH *share = curl_share_init();
  for(int kind = 0; kind < 10; kind++)
    printf("share %d: %d\n", kind, curl_share_setopt(share, CURLSHOPT_SHARE, kind));
  for(int kind = 0; kind < 10; kind++)
    printf("unshare %d: %d\n", kind, curl_share_setopt(share, CURLSHOPT_UNSHARE, kind));
  printf("unknown: %d\n", curl_share_setopt(share, (CURLSHoption)99, 1));
  printf("null: %d\n", curl_share_setopt(NULL, CURLSHOPT_SHARE, CURL_LOCK_DATA_DNS));
  printf("end: %d, null: %d\n", curl_share_cleanup(share), curl_share_cleanup(NULL));
}

static void use(void)
{
  static char user[] = "user";
  CURLSH *share = curl_share_init();
  CURL *easy = curl_easy_init();
  CURL *copy;
  curl_share_setopt(share, CURLSHOPT_LOCKFUNC, lock);
  curl_share_setopt(share, CURLSHOPT_UNLOCKFUNC, unlock);
  curl_share_setopt(share, CURLSHOPT_USERDATA, user);
  printf("set: %d\n", curl_easy_setopt(easy, CURLOPT_SHARE, share));
  printf("again: %d\n", curl_easy_setopt(easy, CURLOPT_SHARE, share));
  printf("in use: %d\n", curl_share_setopt(share, CURLSHOPT_SHARE, CURL_LOCK_DATA_DNS));
  printf("in use: %d\n", curl_share_cleanup(share));
  copy = curl_easy_duphandle(easy);
  printf("reset\n");
  curl_easy_reset(easy);
  printf("in use: %d\n", curl_share_cleanup(share));
  printf("clear: %d\n", curl_easy_setopt(easy, CURLOPT_SHARE, NULL));
  printf("not in use: %d\n", curl_share_setopt(share, CURLSHOPT_UNSHARE, CURL_LOCK_DATA_SHARE));
  printf("unlocked: %d\n", curl_easy_setopt(easy, CURLOPT_SHARE, share));
  curl_easy_cleanup(copy);
  curl_easy_cleanup(easy);
  printf("end: %d\n", curl_share_cleanup(share));
}

int main(void)
{
  curl_global_init(CURL_GLOBAL_ALL);
  codes();
  use();
  curl_global_cleanup();
  return 0;
}
