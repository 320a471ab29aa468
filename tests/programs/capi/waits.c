/* Descriptors of the application in curl_multi_poll and curl_multi_wait: which events are awaited,
 * and how they are reported. No arguments. */

#include <arpa/inet.h>
#include <curl/curl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Two ends of a TCP connection: urgent data need one. */
static void connect_pair(int ends[2])
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t length = sizeof(address);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    bind(listener, (struct sockaddr *)&address, sizeof(address));
    listen(listener, 1);
    getsockname(listener, (struct sockaddr *)&address, &length);
    ends[0] = socket(AF_INET, SOCK_STREAM, 0);
    connect(ends[0], (struct sockaddr *)&address, sizeof(address));
    ends[1] = accept(listener, NULL, NULL);
    close(listener);
}

/* Waits for each combination of events. */
static void wait_all(CURLM *multi, const char *name, int descriptor, int waits_long)
{
    for (int events = 0; events < 8; events++) {
        struct curl_waitfd further = {descriptor, (short)events, 0x55};
        int count = -1;
        /* Everything has arrived: a short wait is enough where nothing is to be reported. */
        int code = waits_long ? curl_multi_poll(multi, &further, 1, 30, &count)
                              : curl_multi_wait(multi, &further, 1, 0, &count);
        printf("%s, events %d: %d, count %d, %x\n", name, events, code, count,
               (unsigned)further.revents);
    }
}

int main(void)
{
    int ends[2];
    char byte = 'x';
    CURLM *multi = curl_multi_init();
    connect_pair(ends);
    wait_all(multi, "idle", ends[0], 1);
    send(ends[1], &byte, 1, MSG_OOB);
    /* Until it has arrived. */
    for (int count = 0; count == 0;) {
        struct curl_waitfd further = {ends[0], CURL_WAIT_POLLPRI, 0};
        curl_multi_poll(multi, &further, 1, 5000, &count);
    }
    wait_all(multi, "urgent", ends[0], 0);
    send(ends[1], &byte, 1, 0);
    for (int count = 0; count == 0;) {
        struct curl_waitfd further = {ends[0], CURL_WAIT_POLLIN, 0};
        curl_multi_poll(multi, &further, 1, 5000, &count);
    }
    wait_all(multi, "urgent and more", ends[0], 0);
    /* Unread bytes: a reset. */
    close(ends[0]);
    for (int count = 0; count == 0;) {
        struct curl_waitfd further = {ends[1], CURL_WAIT_POLLIN, 0};
        curl_multi_poll(multi, &further, 1, 5000, &count);
    }
    wait_all(multi, "reset", ends[1], 0);
    close(ends[1]);
    curl_multi_cleanup(multi);
    return 0;
}
