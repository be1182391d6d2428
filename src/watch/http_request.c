/* http_request.c - the head of an HTTP request: method, path, query and host. */
#include <string.h>
#include <strings.h>

#include "base/utf8.h"
#include "watch/http.h"

/* Decode %XX. False for a malformed escape or a zero byte; `to` has room for all of `from`. */
static bool decode(const char *from, size_t size, char *to)
{
    for (size_t i = 0; i < size; i++) {
        char c = from[i];
        if (c == '%') {
            int high = i + 2 < size ? ls_hex_digit(from[i + 1]) : -1, low = high < 0 ? -1 : ls_hex_digit(from[i + 2]);
            if (low < 0) return false;
            c = (char)(high * 16 + low);
            i += 2;
        }
        if (!c) return false;
        *to++ = c;
    }
    *to = '\0';
    return true;
}

/* "127.0.0.1:8000", "localhost", "[::1]:80": names that only this machine has. The port of a tunnel may differ. */
static bool is_this_host(const char *host, size_t size)
{
    static const char *const names[] = {"127.0.0.1", "localhost", "[::1]"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t length = strlen(names[i]);
        if (size < length || strncasecmp(host, names[i], length) != 0) continue;
        if (size == length) return true;
        if (host[length] != ':') continue;
        size_t digits = length + 1;
        while (digits < size && host[digits] >= '0' && host[digits] <= '9') digits++;
        if (digits == size) return true;
    }
    return false;
}

/* The request has one Host header, and it names this machine. */
static bool has_good_host(const char *line, const char *end)
{
    int hosts = 0;
    for (const char *next; line < end; line = next) {
        const char *stop = memchr(line, '\n', (size_t)(end - line));
        next = stop ? stop + 1 : end;
        if (!stop) stop = end;
        if (stop - line < 5 || strncasecmp(line, "Host:", 5) != 0) continue;
        line += 5;
        while (line < stop && (*line == ' ' || *line == '\t')) line++;
        while (stop > line && (stop[-1] == '\r' || stop[-1] == ' ' || stop[-1] == '\t')) stop--;
        if (hosts++ || !is_this_host(line, (size_t)(stop - line))) return false;
    }
    return hosts == 1;
}

int ls_http_parse(const char *head, size_t size, ls_http_request *request)
{
    *request = (ls_http_request){.head_only = false};
    const char *end = head + size, *line_end = memchr(head, '\n', size);
    const char *space = line_end ? memchr(head, ' ', (size_t)(line_end - head)) : NULL;
    if (!space) return 400;
    const char *target = space + 1, *after = memchr(target, ' ', (size_t)(line_end - target));
    if (!after || *target != '/' || line_end - after < 9 || memcmp(after, " HTTP/1.", 8) != 0) return 400;
    size_t method = (size_t)(space - head), length = (size_t)(after - target);
    request->head_only = method == 4 && memcmp(head, "HEAD", 4) == 0;
    if (!request->head_only && (method != 3 || memcmp(head, "GET", 3) != 0)) return 405;
    if (!has_good_host(line_end + 1, end)) return 403;
    if (length >= LS_HTTP_PATH) return 414;
    const char *query = memchr(target, '?', length);
    if (!decode(target, query ? (size_t)(query - target) : length, request->path)) return 400;
    const char *value = query ? memchr(query, '=', (size_t)(after - query)) : NULL;
    if (value && !decode(value + 1, (size_t)(after - value) - 1, request->value)) return 400;
    return 200;
}
