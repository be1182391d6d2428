/* arrow_file.c - names of Arrow files: tables in several parts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "formats/arrow.h"

enum { NUMBER = 5, END = 6 /* ".arrow" */ };
static const char first_part[] = "-00000-of-";

bool ls_is_arrow_file(const char *path)
{
    ls_file_bytes head;
    if (!ls_file_load(&head, path, 8, NULL)) return false; /* whoever reads all of it says why */
    bool is = ls_is_arrow(head.bytes, head.there);
    ls_file_unload(&head);
    return is;
}

/* Where the name of a part has the numbers; NULL: it has none. */
static char *numbers_of(char *path)
{
    size_t length = strlen(path), tail = sizeof first_part - 1 + NUMBER + END;
    char *at = length > tail ? path + length - tail : NULL;
    return at && strncmp(at, first_part, sizeof first_part - 1) == 0 ? at : NULL;
}

static ls_status read_part(const char *path, ls_arrow_part_fn *take, void *user, bool *more, ls_message *why)
{
    ls_file_bytes file;
    ls_arrow table;
    ls_message cause = {{0}};
    if (!ls_file_load(&file, path, SIZE_MAX, why)) return LS_ERR_IO;
    ls_status status = ls_arrow_read(&table, file.bytes, file.there, &cause);
    if (!status) status = take(&table, more, &cause, user);
    ls_arrow_free(&table);
    ls_file_unload(&file);
    return status ? ls_explain(why, status, "%s: %s", path, cause.text) : LS_OK;
}

ls_status ls_arrow_read_parts(const char *first, ls_arrow_part_fn *take, void *user, ls_message *why)
{
    char *path = ls_sys_alloc(strlen(first) + 1);
    if (!path) return ls_explain(why, LS_ERR_MEMORY, "no memory for a path");
    strcpy(path, first);
    char *numbers = numbers_of(path);
    long count = numbers ? strtol(numbers + sizeof first_part - 1, NULL, 10) : 1;
    ls_status status = LS_OK;
    bool more = true;
    for (long i = 0; i < count && more && !status; i++) {
        char number[NUMBER + 1];
        snprintf(number, sizeof number, "%05ld", i % 100000);
        if (numbers) memcpy(numbers + 1, number, NUMBER);
        status = read_part(path, take, user, &more, why);
    }
    ls_sys_free(path);
    return status;
}
