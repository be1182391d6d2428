/* index_write.c - distribute a list of tensors over several files. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "formats/index.h"

int64_t ls_size_from_text(const char *text)
{
    static const char *const units[] = {"", "KB", "KiB", "MB", "MiB", "GB", "GiB", "TB", "TiB"};
    static const double factors[] = {1, 1e3, 0x1p10, 1e6, 0x1p20, 1e9, 0x1p30, 1e12, 0x1p40};
    double number = 0, place = 0; /* by hand, because strtod() accepts signs, exponents, hexadecimals and depends on the
                                   * locale */
    const char *at = text;
    for (; (*at >= '0' && *at <= '9') || (*at == '.' && place == 0); at++) {
        if (*at == '.') place = 1;
        else if (place == 0) number = number * 10 + (*at - '0');
        else number += (*at - '0') * (place /= 10);
    }
    if (at == text || (at == text + 1 && *text == '.')) return -1;
    while (*at == ' ') at++;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strcmp(at, units[i]) != 0) continue;
        double bytes = number * factors[i];
        return bytes < 0x1p62 ? (int64_t)(bytes + 0.5) : -1;
    }
    return -1;
}

int64_t ls_shard_split(int64_t count, const uint64_t *bytes, uint64_t limit, int64_t *shard)
{
    /* A shard is numbered when it is full: a tensor that is too large comes before the shard left open for it. */
    int64_t shards = 0, first = 0;
    uint64_t filled = 0;
    for (int64_t i = 0; i <= count; i++) {
        bool end = i == count, alone = !end && bytes[i] > limit;
        if (end || (!alone && filled + bytes[i] > limit)) {
            bool any = false;
            for (int64_t j = first; j < i; j++) {
                if (shard[j] >= 0) continue;
                shard[j] = shards;
                any = true;
            }
            shards += any;
            first = i;
            filled = 0;
        }
        if (end) break;
        shard[i] = alone ? shards++ : -1;
        if (!alone) filled += bytes[i];
    }
    return shards;
}

typedef struct pair {
    const char *name, *file;
} pair;

static int compare_pairs(const void *a, const void *b)
{
    return strcmp(((const pair *)a)->name, ((const pair *)b)->name);
}

char *ls_shard_index(int64_t count, const char *const *names, const char *const *files, uint64_t total, size_t *length)
{
    pair *pairs = ls_sys_alloc((size_t)(count + 1) * sizeof *pairs);
    if (!pairs) return NULL;
    for (int64_t i = 0; i < count; i++) pairs[i] = (pair){names[i], files[i]};
    qsort(pairs, (size_t)count, sizeof *pairs, compare_pairs);
    ls_json_writer w = {.indent = 2, .ascii = true};
    ls_json_put_object(&w, NULL);
    ls_json_put_object(&w, "metadata");
    ls_json_put_integer(&w, "total_size", (int64_t)total);
    ls_json_put_end(&w);
    ls_json_put_object(&w, "weight_map");
    for (int64_t i = 0; i < count; i++) ls_json_put_text(&w, pairs[i].name, pairs[i].file);
    ls_json_put_end(&w);
    ls_json_put_end(&w);
    ls_sys_free(pairs);
    char *text = ls_json_take(&w, length);
    if (text) text[(*length)++] = '\n'; /* replaces the terminating zero: the length is returned */
    return text;
}

bool ls_is_shard_name(const char *name, const char *stem, const char *extension)
{
    size_t length = strlen(stem);
    if (strncmp(name, stem, length) != 0) return false;
    int read = 0;
    bool numbered = sscanf(name + length, "-%*5[0-9]-of-%*5[0-9]%n", &read) == 0 && read == 5 + 5 + 5;
    return numbered && strcmp(name + length + read, extension) == 0;
}
