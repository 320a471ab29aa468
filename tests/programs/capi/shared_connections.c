/* Connections, names and cookies in a share: how many connections handles open that perform one
   after the other, which lock functions are called for them, and handles of several threads. */
#include <curl/curl.h>
#include <pthread.h>
#include <stdio.h>

static const char *const kinds[] = {"none", "share",   "cookie", "dns",
                                    "tls",  "connect", "psl",    "hsts"};

static void lock(CURL *handle, curl_lock_data data, curl_lock_access access, void *user)
{
  (void)handle;
  (void)access;
  (void)user;
  printf("+%s ", kinds[data]);
}

static void unlock(CURL *handle, curl_lock_data data, void *user)
{
  (void)handle;
  (void)user;
  printf("-%s ", kinds[data]);
}

static size_t ignore(char *bytes, size_t size, size_t count, void *user)
{
  (void)bytes;
  if(user)
    printf("body ");
  return size * count;
}

static void perform(CURLSH *share, const char *url)
{
  static int shows = 1;
  CURL *easy = curl_easy_init();
  long connects = 0;
  int code;
  curl_easy_setopt(easy, CURLOPT_URL, url);
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, ignore);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, &shows);
  curl_easy_setopt(easy, CURLOPT_SHARE, share);
  code = curl_easy_perform(easy);
  curl_easy_getinfo(easy, CURLINFO_NUM_CONNECTS, &connects);
  printf("\n%d, %ld connects\n", code, connects);
  curl_easy_cleanup(easy);
}

struct task {
  CURLSH *share;
  const char *url;
  int done;
};

static void *work(void *user)
{
  struct task *task = user;
  for(int i = 0; i < 50; i++) {
    CURL *easy = curl_easy_init();
    curl_easy_setopt(easy, CURLOPT_URL, task->url);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, ignore);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, NULL);
    curl_easy_setopt(easy, CURLOPT_SHARE, task->share);
    curl_easy_setopt(easy, CURLOPT_COOKIEFILE, "");
    task->done += curl_easy_perform(easy) == CURLE_OK;
    curl_easy_cleanup(easy);
  }
  return NULL;
}

static pthread_mutex_t mutexes[8];

static void lock_mutex(CURL *handle, curl_lock_data data, curl_lock_access access, void *user)
{
  (void)handle;
  (void)access;
  (void)user;
  pthread_mutex_lock(&mutexes[data]);
}

static void unlock_mutex(CURL *handle, curl_lock_data data, void *user)
{
  (void)handle;
  (void)user;
  pthread_mutex_unlock(&mutexes[data]);
}

static void threads(CURLSH *share, const char *url)
{
  pthread_t threads[4];
  struct task tasks[4];
  int done = 0;
  for(int i = 0; i < 8; i++)
    pthread_mutex_init(&mutexes[i], NULL);
  curl_share_setopt(share, CURLSHOPT_LOCKFUNC, lock_mutex);
  curl_share_setopt(share, CURLSHOPT_UNLOCKFUNC, unlock_mutex);
  for(int i = 0; i < 4; i++) {
    tasks[i] = (struct task){share, url, 0};
    pthread_create(&threads[i], NULL, work, &tasks[i]);
  }
  for(int i = 0; i < 4; i++) {
    pthread_join(threads[i], NULL);
    done += tasks[i].done;
  }
  printf("%d done in threads\n", done);
}

int main(int argc, char **argv)
{
  CURLSH *share;
  if(argc < 2)
    return 2;
  curl_global_init(CURL_GLOBAL_ALL);
  share = curl_share_init();
  curl_share_setopt(share, CURLSHOPT_LOCKFUNC, lock);
  curl_share_setopt(share, CURLSHOPT_UNLOCKFUNC, unlock);
  curl_share_setopt(share, CURLSHOPT_SHARE, CURL_LOCK_DATA_COOKIE);
  curl_share_setopt(share, CURLSHOPT_SHARE, CURL_LOCK_DATA_DNS);
  curl_share_setopt(share, CURLSHOPT_SHARE, CURL_LOCK_DATA_CONNECT);
  for(int i = 0; i < 3; i++)
    perform(share, argv[1]);
  threads(share, argv[1]);
  printf("end: %d\n", curl_share_cleanup(share));
  curl_global_cleanup();
  return 0;
}
