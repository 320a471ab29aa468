/* Runs a program of curl's tests with the library under test.
 *
 * The program's links in src/ and tests/libtest/ lead here; the program itself is in .libs beside
 * the link. CURL_TESTS_LIBRARY is the directory of the library, CURL_TESTS_SECONDS the time limit:
 * the alarm survives exec, and ends the program without a second process. CURL_TESTS_PRELOAD is a
 * library to preload into the tool.
 *
 * With CURL_TESTS_REPORTS, a directory, memory errors are reported there, in files for each
 * process: by the AddressSanitizer of the library, whose runtime CURL_TESTS_SANITIZER is and has to
 * be loaded first; without that, by valgrind, in which the program runs. */
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
    const char *reports = getenv("CURL_TESTS_REPORTS");
    const char *sanitizer = getenv("CURL_TESTS_SANITIZER");
    char program[4096], report[4096];
    char *valgrind[] = {"valgrind", "--quiet", "--leak-check=full", "--show-leak-kinds=definite",
                        "--errors-for-leak-kinds=definite", "--num-callers=30", report, program};
    const size_t words = sizeof valgrind / sizeof *valgrind;
    char **checked = calloc(words + (size_t)argc, sizeof *checked);

    if (!library || !seconds || !name) {
        fprintf(stderr, "launch: needs CURL_TESTS_LIBRARY, CURL_TESTS_SECONDS and a path\n");
        return 126;
    }
    snprintf(program, sizeof program, "%.*s/.libs%s", (int)(name - argv[0]), argv[0], name);
    setenv("LD_LIBRARY_PATH", library, 1);
    if (preload && !strcmp(name, "/curl"))
        setenv("LD_PRELOAD", preload, 1);
    alarm((unsigned)atoi(seconds));
    if (sanitizer) {
        snprintf(report, sizeof report, "log_path=%s%s", reports ? reports : ".", name);
        setenv("ASAN_OPTIONS", report, 1);
        setenv("LD_PRELOAD", sanitizer, 1);
    } else if (reports && checked) {
        snprintf(report, sizeof report, "--log-file=%s%s.%%p", reports, name);
        memcpy(checked, valgrind, sizeof valgrind);
        memcpy(checked + words, argv + 1, (size_t)argc * sizeof *argv); /* with the NULL */
        execvp(*checked, checked);
    }
    execv(program, argv);
    perror(program);
    return 126;
}
