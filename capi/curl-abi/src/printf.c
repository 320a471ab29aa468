/* The printf family of libcurl (curl_mprintf(3)): each conversion is printed by the C library.
 *
 * Only %s of NULL differs: libcurl prints "(nil)", or nothing if the precision is below 5. Formats
 * with numbered arguments are printed by the C library as a whole. */

#define _GNU_SOURCE
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct arguments {
    va_list list;
};

/* The type of an integer: its size as a modifier of the C library. */
static char size_of(const char *modifier, size_t length)
{
    if (length == 2 && modifier[0] == 'l')
        return 'q';
    return length > 0 ? modifier[0] : '\0';
}

/* Prints an argument by a format of one conversion. */
static int print_argument(FILE *out, const char *format, char size, char kind, struct arguments *a)
{
    if (strchr("aAeEfFgG", kind)) {
        if (size == 'L')
            return fprintf(out, format, va_arg(a->list, long double));
        return fprintf(out, format, va_arg(a->list, double));
    }
    if (kind == 's') {
        const char *text = va_arg(a->list, const char *);
        const char *precision = strchr(format, '.');
        const char *nothing = precision && atoi(precision + 1) < 5 ? "" : "(nil)";
        return fprintf(out, format, text ? text : nothing);
    }
    if (kind == 'p')
        return fprintf(out, format, va_arg(a->list, void *));
    switch (size) {
    case 'l':
        return fprintf(out, format, va_arg(a->list, long));
    case 'q':
        return fprintf(out, format, va_arg(a->list, long long));
    case 'z':
        return fprintf(out, format, va_arg(a->list, size_t));
    case 'j':
        return fprintf(out, format, va_arg(a->list, intmax_t));
    case 't':
        return fprintf(out, format, va_arg(a->list, ptrdiff_t));
    default:
        return fprintf(out, format, va_arg(a->list, int));
    }
}

/* Prints the conversion at `at`, and returns its end; NULL if it is none of these. */
static const char *print_conversion(FILE *out, const char *at, struct arguments *a)
{
    char format[96] = "%";
    size_t used = 1;
    const char *modifier;
    size_t modifier_length;
    for (at++; *at && strchr("-+ #0123456789.*", *at); at++) {
        if (used > sizeof format - 24)
            return NULL;
        if (*at == '*')
            used += (size_t)sprintf(format + used, "%d", va_arg(a->list, int));
        else
            format[used++] = *at;
    }
    modifier = at;
    at += strspn(at, "hlqzjtL");
    modifier_length = (size_t)(at - modifier);
    if (modifier_length > 2 || !*at || !strchr("diouxXcaAeEfFgGsp%", *at))
        return NULL;
    memcpy(format + used, modifier, modifier_length);
    format[used + modifier_length] = *at;
    format[used + modifier_length + 1] = '\0';
    if (*at == '%')
        putc('%', out);
    else
        print_argument(out, format, size_of(modifier, modifier_length), *at, a);
    return at + 1;
}

/* Prints to a stream; returns the number of bytes. */
static int print(FILE *out, const char *format, va_list arguments)
{
    struct arguments rest;
    char *text = NULL;
    size_t length = 0;
    FILE *memory = strchr(format, '$') ? NULL : open_memstream(&text, &length);
    const char *at = format;
    if (!memory)
        return vfprintf(out, format, arguments);
    va_copy(rest.list, arguments);
    while (at && *at) {
        size_t plain = strcspn(at, "%");
        fwrite(at, 1, plain, memory);
        at += plain;
        if (*at)
            at = print_conversion(memory, at, &rest);
    }
    va_end(rest.list);
    fclose(memory);
    if (!at) { /* a conversion that only the C library knows */
        free(text);
        return vfprintf(out, format, arguments);
    }
    length = fwrite(text, 1, length, out);
    free(text);
    return (int)length;
}

/* A copy for the application; NULL without memory. */
char *fulmar_copy(const char *bytes, size_t length);

/* Prints into memory of malloc; NULL without memory. */
static char *print_text(const char *format, va_list arguments, size_t *length)
{
    char *text = NULL;
    FILE *memory = open_memstream(&text, length);
    if (!memory)
        return NULL;
    print(memory, format, arguments);
    fclose(memory);
    return text;
}

#define FORWARD(type, last, call) \
    va_list arguments;            \
    va_start(arguments, last);    \
    type result = call;           \
    va_end(arguments);            \
    return result

int curl_mvprintf(const char *format, va_list arguments)
{
    return print(stdout, format, arguments);
}

int curl_mvfprintf(FILE *stream, const char *format, va_list arguments)
{
    return print(stream, format, arguments);
}

int curl_mvsprintf(char *buffer, const char *format, va_list arguments)
{
    size_t length;
    char *text = print_text(format, arguments, &length);
    if (!text)
        return -1;
    memcpy(buffer, text, length + 1);
    free(text);
    return (int)length;
}

/* Unlike that of C, it returns the number of bytes that were written. */
int curl_mvsnprintf(char *buffer, size_t size, const char *format, va_list arguments)
{
    size_t length;
    char *text = print_text(format, arguments, &length);
    if (!text)
        return -1;
    if (length >= size)
        length = size > 0 ? size - 1 : 0;
    if (size > 0) {
        memcpy(buffer, text, length);
        buffer[length] = '\0';
    }
    free(text);
    return (int)length;
}

char *curl_mvaprintf(const char *format, va_list arguments)
{
    size_t length;
    char *text = print_text(format, arguments, &length);
    char *copy = text ? fulmar_copy(text, length) : NULL;
    free(text);
    return copy;
}

int curl_mprintf(const char *format, ...)
{
    FORWARD(int, format, curl_mvprintf(format, arguments));
}

int curl_mfprintf(FILE *stream, const char *format, ...)
{
    FORWARD(int, format, curl_mvfprintf(stream, format, arguments));
}

int curl_msprintf(char *buffer, const char *format, ...)
{
    FORWARD(int, format, curl_mvsprintf(buffer, format, arguments));
}

int curl_msnprintf(char *buffer, size_t size, const char *format, ...)
{
    FORWARD(int, format, curl_mvsnprintf(buffer, size, format, arguments));
}

char *curl_maprintf(const char *format, ...)
{
    FORWARD(char *, format, curl_mvaprintf(format, arguments));
}
