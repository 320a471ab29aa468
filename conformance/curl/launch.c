/* Runs a program of curl's tests with the library under test.
 *
 * The program's links in src/ and tests/libtest/ lead here; the program itself is in .libs beside
 * the link. CURL_TESTS_LIBRARY is the directory of the library, CURL_TESTS_SECONDS the time limit:
 * the alarm survives exec, and ends the program without a second process. CURL_TESTS_PRELOAD is a
 * library to preload into the tool. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    const char *library = getenv("CURL_TESTS_LIBRARY");
    const char *seconds = getenv("CURL_TESTS_SECONDS");
    const char *name = strrchr(argv[0], '/');
    const char *preload = getenv("CURL_TESTS_PRELOAD");
    char program[4096];

    (void)argc;
    if (!library || !seconds || !name) {
        fprintf(stderr, "launch: needs CURL_TESTS_LIBRARY, CURL_TESTS_SECONDS and a path\n");
        return 126;
    }
    snprintf(program, sizeof program, "%.*s/.libs%s", (int)(name - argv[0]), argv[0], name);
    setenv("LD_LIBRARY_PATH", library, 1);
    if (preload && !strcmp(name, "/curl"))
        setenv("LD_PRELOAD", preload, 1);
    alarm((unsigned)atoi(seconds));
    execv(program, argv);
    perror(program);
    return 126;
}
