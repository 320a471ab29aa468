/* What libcurl's multi interface promises, printed as results of its functions: the same text is
 * expected of every implementation. The argument is a URL whose body has six bytes. */

#include <curl/curl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum scenario { PLAIN, REENTER, NESTED, PAUSE, PERFORM_ITSELF, SCENARIOS };

static const char *url;
static enum scenario scenario;
static int has_called;
static long received;
static CURLM *multi;
static CURL *first, *second;

static size_t write_body(char *bytes, size_t size, size_t count, void *user);

static CURL *transfer(void)
{
    CURL *easy = curl_easy_init();
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, write_body);
    return easy;
}

/* Functions of the same multi handle refuse to run within a callback. */
static void reenter(void)
{
    int count;
    long ms;
    printf("add: %d\n", curl_multi_add_handle(multi, second));
    printf("remove: %d\n", curl_multi_remove_handle(multi, first));
    printf("perform: %d\n", curl_multi_perform(multi, &count));
    printf("info_read: %p\n", (void *)curl_multi_info_read(multi, &count));
    printf("timeout: %d\n", curl_multi_timeout(multi, &ms));
}

/* Another handle may be performed within a callback. */
static void nest(void)
{
    CURL *easy = transfer();
    long before = received;
    int result = curl_easy_perform(easy);
    printf("nested: %d, %ld bytes\n", result, received - before);
    curl_easy_cleanup(easy);
}

static size_t write_body(char *bytes, size_t size, size_t count, void *user)
{
    (void)bytes;
    (void)user;
    if (!has_called) {
        has_called = 1;
        switch (scenario) {
        case REENTER: reenter(); break;
        case NESTED: nest(); break;
        case PAUSE: printf("paused\n"); return CURL_WRITEFUNC_PAUSE;
        case PERFORM_ITSELF: printf("itself: %d\n", curl_easy_perform(first)); break;
        default: break;
        }
    }
    received += (long)(size * count);
    return size * count;
}

static void *run(void *unused)
{
    int running = 1, turns = 0, count;
    CURLMsg *message;
    (void)unused;
    while (running && turns < 2000) {
        curl_multi_perform(multi, &running);
        curl_multi_wait(multi, NULL, 0, 20, &count);
        turns++;
        if (scenario == PAUSE && turns == 10) {
            printf("while paused: %ld bytes\n", received);
            printf("resume: %d\n", curl_easy_pause(first, CURLPAUSE_CONT));
        }
    }
    while ((message = curl_multi_info_read(multi, &count)))
        printf("result: %d\n", message->data.result);
    return NULL;
}

static void run_in_thread(const char *name)
{
    pthread_t thread;
    received = 0;
    pthread_create(&thread, NULL, run, NULL);
    pthread_join(thread, NULL);
    printf("%s: %ld bytes\n", name, received);
}

static void add_again(void)
{
    curl_multi_remove_handle(multi, first);
    curl_multi_add_handle(multi, first);
}

static void *perform_often(void *unused)
{
    CURL *easy = transfer();
    long failures = 0;
    (void)unused;
    for (int i = 0; i < 20; i++)
        failures += curl_easy_perform(easy) != CURLE_OK;
    curl_easy_cleanup(easy);
    return (void *)failures;
}

static void fork_and_go_on(void)
{
    fflush(stdout);
    if (fork() == 0) {
        CURL *easy = transfer();
        received = 0;
        printf("child: %d, ", curl_easy_perform(easy));
        printf("%ld bytes\n", received);
        curl_easy_cleanup(easy);
        fflush(stdout);
        _exit(0);
    }
    wait(NULL);
    received = 0;
    add_again();
    run(NULL);
    printf("parent: %ld bytes\n", received);
}

static int on_timer(CURLM *multi, long milliseconds, void *user)
{
    (void)multi;
    (void)user;
    printf("timer: %ld\n", milliseconds);
    return 0;
}

/* Options are read at the first action, and a transfer that cannot begin ends there. */
static void begin_at_first_action(void)
{
    CURLMsg *message;
    int running = -1, left;
    multi = curl_multi_init();
    curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, on_timer);
    first = curl_easy_init();
    printf("without a URL: %d\n", curl_multi_add_handle(multi, first));
    curl_easy_setopt(first, CURLOPT_URL, "unknown://host/");
    printf("no message: %d\n", curl_multi_info_read(multi, &left) == NULL);
    curl_multi_socket_action(multi, CURL_SOCKET_TIMEOUT, 0, &running);
    message = curl_multi_info_read(multi, &left);
    printf("running: %d, result: %d\n", running, message ? (int)message->data.result : -1);
    curl_multi_remove_handle(multi, first);
    curl_easy_cleanup(first);
    curl_multi_cleanup(multi);
}

static int fail_socket(CURL *easy, curl_socket_t fd, int what, void *user, void *socket)
{
    (void)easy;
    (void)fd;
    (void)user;
    (void)socket;
    return what == CURL_POLL_REMOVE ? 0 : -1;
}

/* After a failed callback all transfers end; then the handle can be used again. */
static void fail_in_socket_callback(void)
{
    CURLMsg *message;
    int running = -1, left, code;
    multi = curl_multi_init();
    curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, fail_socket);
    first = transfer();
    second = transfer();
    curl_multi_add_handle(multi, first);
    code = curl_multi_socket_action(multi, CURL_SOCKET_TIMEOUT, 0, &running);
    printf("failed callback: %d, add: %d\n", code, curl_multi_add_handle(multi, second));
    code = curl_multi_perform(multi, &running);
    message = curl_multi_info_read(multi, &left);
    printf("%d, result: %d\n", code, message ? (int)message->data.result : -1);
    printf("add again: %d\n", curl_multi_add_handle(multi, second));
    curl_multi_remove_handle(multi, first);
    curl_multi_remove_handle(multi, second);
    curl_easy_cleanup(first);
    curl_easy_cleanup(second);
    curl_multi_cleanup(multi);
}

/* Structures that programs read through a pointer without a check, also before any transfer. */
static void read_tls_structures(void)
{
    CURL *easy = curl_easy_init();
    struct curl_tlssessioninfo *pointer = NULL;
    struct curl_certinfo *certificates = NULL;
    CURLcode result = curl_easy_getinfo(easy, CURLINFO_TLS_SSL_PTR, &pointer);
    printf("tls pointer: %d %d %d\n", result, pointer->backend, pointer->internals != NULL);
    result = curl_easy_getinfo(easy, CURLINFO_CERTINFO, &certificates);
    printf("certificates: %d %d\n", result, certificates->num_of_certs);
    curl_easy_cleanup(easy);
}

int main(int count, char **arguments)
{
    int running;
    pthread_t threads[4];
    url = count > 1 ? arguments[1] : "";
    curl_global_init(CURL_GLOBAL_ALL);
    read_tls_structures();
    begin_at_first_action();
    fail_in_socket_callback();

    for (scenario = PLAIN; scenario < SCENARIOS; scenario++) {
        has_called = 0;
        received = 0;
        multi = curl_multi_init();
        first = transfer();
        second = transfer();
        printf("scenario %d: %d\n", scenario, curl_multi_add_handle(multi, first));
        printf("again: %d\n", curl_multi_add_handle(multi, first));
        run(NULL);
        printf("%ld bytes\n", received);
        curl_multi_remove_handle(multi, first);
        curl_easy_cleanup(first);
        curl_easy_cleanup(second);
        curl_multi_cleanup(multi);
    }

    scenario = PLAIN;
    multi = curl_multi_init();
    first = transfer();
    curl_multi_add_handle(multi, first);
    curl_multi_perform(multi, &running);
    run_in_thread("moved to a thread");
    add_again();
    run_in_thread("to another thread");
    fork_and_go_on();
    curl_multi_remove_handle(multi, first);
    curl_easy_cleanup(first);
    curl_multi_cleanup(multi);

    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, perform_often, NULL);
    for (int i = 0; i < 4; i++) {
        void *failures;
        pthread_join(threads[i], &failures);
        printf("thread: %ld failures\n", (long)failures);
    }

    multi = curl_multi_init();
    first = transfer();
    curl_multi_add_handle(multi, first);
    curl_multi_perform(multi, &running);
    curl_easy_cleanup(first);
    curl_multi_perform(multi, &running);
    printf("cleaned up while added: %d running\n", running);
    curl_multi_cleanup(multi);

    multi = curl_multi_init();
    first = transfer();
    curl_multi_add_handle(multi, first);
    curl_multi_perform(multi, &running);
    curl_multi_cleanup(multi);
    printf("after the multi handle: %d\n", curl_easy_perform(first));
    curl_easy_cleanup(first);

    printf("no handles: %d %d %d\n", curl_easy_perform(NULL), curl_multi_add_handle(NULL, NULL),
           curl_multi_perform(NULL, &running));
    curl_global_cleanup();
    return 0;
}
