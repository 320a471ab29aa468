/* curl_formadd(3): makes an array of the variable arguments, which Rust cannot read. */

#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

struct form_word {
    int option;
    void *value;
};

/* CURLFORM_END, and the last option that there is. */
enum { FORM_END = 17, FORM_LAST = 20 };
/* CURL_FORMADD_MEMORY */
enum { FORM_MEMORY = 1 };

int fulmar_formadd(void *first, void *last, const struct form_word *words, size_t count);

/* Every argument has one word: it is an address, a long or a curl_off_t. */
int curl_formadd(void *first, void *last, ...)
{
    struct form_word *words = NULL;
    size_t count = 0, room = 0;
    va_list arguments;
    int option, result = FORM_MEMORY;

    va_start(arguments, last);
    do {
        if (count == room) {
            struct form_word *more;
            room = room ? 2 * room : 16;
            more = realloc(words, room * sizeof(*words));
            if (!more)
                goto end;
            words = more;
        }
        option = va_arg(arguments, int);
        words[count].option = option;
        words[count].value = NULL;
        if (option > 0 && option <= FORM_LAST && option != FORM_END)
            words[count].value = va_arg(arguments, void *);
        count++;
        /* Nothing is known of the argument of an unknown option. */
    } while (option > 0 && option <= FORM_LAST && option != FORM_END);
    result = fulmar_formadd(first, last, words, count);
end:
    va_end(arguments);
    free(words);
    return result;
}
