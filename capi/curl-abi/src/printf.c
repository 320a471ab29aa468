/* The printf family of libcurl (curl_mprintf(3)), by that of the C library. */

#define _GNU_SOURCE
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define FORWARD(type, last, call) \
    va_list arguments;            \
    va_start(arguments, last);    \
    type result = call;           \
    va_end(arguments);            \
    return result

int curl_mvprintf(const char *format, va_list arguments)
{
    return vprintf(format, arguments);
}

int curl_mvfprintf(FILE *stream, const char *format, va_list arguments)
{
    return vfprintf(stream, format, arguments);
}

int curl_mvsprintf(char *buffer, const char *format, va_list arguments)
{
    return vsprintf(buffer, format, arguments);
}

/* Unlike that of C, it returns the number of bytes that were written. */
int curl_mvsnprintf(char *buffer, size_t size, const char *format, va_list arguments)
{
    int length = vsnprintf(buffer, size, format, arguments);
    if (length >= 0 && size > 0 && (size_t)length >= size)
        return (int)(size - 1);
    return length;
}

char *curl_mvaprintf(const char *format, va_list arguments)
{
    char *text = NULL;
    return vasprintf(&text, format, arguments) < 0 ? NULL : text;
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
