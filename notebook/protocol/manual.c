/* manual.c - the public headers as a manual. They are read each time: it takes two milliseconds, and a person waits. */
#include "manual.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"

static void read_folder(const char *folder, string *to)
{
    DIR *entries = opendir(folder);
    if (!entries) return;
    for (struct dirent *entry; (entry = readdir(entries));) {
        char path[1536];
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        const char *dot = strrchr(entry->d_name, '.');
        size_t size;
        char *bytes = dot && strcmp(dot, ".h") == 0 ? ls_file_read(path, 1 << 20, &size, NULL) : NULL;
        if (bytes) text_put(to, bytes, size);
        ls_sys_free(bytes);
    }
    closedir(entries);
}

static string read_headers(const char *include)
{
    string all = {0};
    char folder[1200];
    snprintf(folder, sizeof folder, "%s/lockstep", include);
    read_folder(folder, &all);
    snprintf(folder, sizeof folder, "%s/lockstep/models", include);
    read_folder(folder, &all);
    return all;
}

static bool is_letter(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

void manual_names(const char *include, name_fn *take, void *user)
{
    string all = read_headers(include);
    const char *at = text_view(&all);
    while (*at) {
        size_t length = 0;
        while (is_letter(at[length])) length++;
        if (length > 3 && (strncmp(at, "ls_", 3) == 0 || strncmp(at, "LS_", 3) == 0)) take(at, length, user);
        at += length ? length : 1;
    }
    text_free(&all);
}

/* ---- An entry ---- */

static const char *line_begin(const char *all, const char *at)
{
    while (at > all && at[-1] != '\n') at--;
    return at;
}

static const char *line_end(const char *at)
{
    return at + strcspn(at, "\n");
}

static bool begins(const char *at, const char *words)
{
    return strncmp(at, words, strlen(words)) == 0;
}

/* Does the name's line declare it? Only what begins in the first column does; a use in a comment or a body does not. */
static bool declares(const char *line, const char *name, size_t length)
{
    if (begins(line, "#define ")) return name == line + strlen("#define ");
    if (begins(line, "typedef ")) return true;
    if (begins(line, "}")) return true;
    return (begins(line, "LS_") || isalpha((unsigned char)*line)) && name[length] == '(';
}

/* A declaration ends with its semicolon; a macro with its last line; a struct with the brace in the first column. */
static const char *entry_end(const char *line)
{
    const char *end = line_end(line);
    if (begins(line, "#define ")) {
        while (*end && end[-1] == '\\') end = line_end(end + 1);
        return end;
    }
    if (end > line && end[-1] == '{') {
        const char *close = strstr(end, "\n}");
        return close ? line_end(close + 1) : end;
    }
    while (*end && !memchr(line, ';', (size_t)(end - line))) end = line_end(end + 1);
    return end;
}

/* The comment that ends on the line above, and the other declarations between it and this one: they share it. */
static const char *comment_begin(const char *all, const char *line)
{
    const char *at = line;
    while (at > all) {
        const char *above = line_begin(all, at - 1);
        if (above + 1 >= at) return line; /* an empty line: no comment belongs to it */
        at = above;
        const char *open = strstr(above, "/*");
        if (open == above) return above;
    }
    return line;
}

void manual_entry(const char *include, const char *name, size_t length, string *to)
{
    string headers = read_headers(include);
    const char *all = text_view(&headers);
    char *wanted = copy_bytes(name, length);
    for (const char *at = all; (at = strstr(at, wanted)); at += length) {
        const char *line = line_begin(all, at);
        bool whole = (at == all || !is_letter(at[-1])) && !is_letter(at[length]);
        if (!whole || !declares(line, at, length)) continue;
        if (begins(line, "}")) { /* the name at the end of a struct */
            while (line > all && !begins(line, "typedef ")) line = line_begin(all, line - 1);
        }
        const char *begin = comment_begin(all, line), *end = entry_end(line);
        text_put(to, begin, (size_t)(end - begin));
        break;
    }
    ls_sys_free(wanted);
    text_free(&headers);
}
