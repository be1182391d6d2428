/* read.h - golden values: a reader of safetensors files and comparison with what was computed.
 *
 * A file is 8 bytes with the length of a JSON header, the header ({"name":{"dtype":"F32","shape":[2,3],
 * "data_offsets":[0,24]},...}), and the data. make.py wrote it, so it is assumed to be well formed. */
#ifndef LOCKSTEP_TESTS_GOLDEN_READ_H
#define LOCKSTEP_TESTS_GOLDEN_READ_H

#include <lockstep.h>

#include <stdlib.h>

#include "check.h"

/* Command line of these tests: [--device NAME] [filter]. */
static const char *golden_device;

__attribute__((unused)) static void golden_arguments(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--device") == 0 && i + 1 < argc) golden_device = argv[++i];
        else check_filter = argv[i];
    }
}

__attribute__((unused)) static ls_run *golden_run(ls_dtype precision)
{
    return ls_init(NULL, NULL, .device = golden_device, .mixed_precision = precision);
}

typedef struct golden_entry {
    char name[128];
    ls_dtype dtype;
    ls_shape shape;
    const void *data;
} golden_entry;

typedef struct golden {
    char *bytes;
    int count;
    golden_entry *entries;
} golden;

static ls_dtype golden_dtype(const char *text)
{
    static const struct {
        const char *text;
        ls_dtype dtype;
    } table[] = {{"F32", LS_F32}, {"F64", LS_F64}, {"I64", LS_I64}, {"U8", LS_U8}, {"BOOL", LS_BOOL}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strncmp(text, table[i].text, strlen(table[i].text)) == 0) return table[i].dtype;
    return LS_DTYPE_NONE;
}

/* Parse one "name":{...} at *at and advance past it. False at the end. */
static bool golden_parse_entry(const char **at, const char *data, golden_entry *entry)
{
    const char *name = strchr(*at, '"');
    if (!name) return false;
    const char *end = strchr(++name, '"'), *close = strchr(end, '}');
    snprintf(entry->name, sizeof entry->name, "%.*s", (int)(end - name), name);
    const char *dtype = strstr(end, "\"dtype\":\""), *shape = strstr(end, "\"shape\":[");
    const char *offsets = strstr(end, "\"data_offsets\":[");
    *at = close + 1;
    if (!dtype || dtype > close) return golden_parse_entry(at, data, entry); /* __metadata__ */
    entry->dtype = golden_dtype(dtype + strlen("\"dtype\":\""));
    entry->shape = LS_SCALAR;
    for (char *next = (char *)shape + strlen("\"shape\":["); *next != ']'; next += *next == ',')
        entry->shape.dim[entry->shape.ndim++] = strtoll(next, &next, 10);
    entry->data = data + strtoll(offsets + strlen("\"data_offsets\":["), NULL, 10);
    return true;
}

__attribute__((unused)) static golden golden_open(const char *path)
{
    golden g = {0};
    FILE *file = fopen(path, "rb");
    if (!file) {
        fprintf(stderr, "%s cannot be read\n", path);
        exit(1);
    }
    fseek(file, 0, SEEK_END);
    size_t size = (size_t)ftell(file);
    rewind(file);
    g.bytes = calloc(size + 1, 1);
    if (!g.bytes || fread(g.bytes, 1, size, file) != size) exit(1);
    fclose(file);
    uint64_t header;
    memcpy(&header, g.bytes, 8);
    const char *data = g.bytes + 8 + header;
    char *text = calloc(header + 1, 1);
    if (!text) exit(1);
    memcpy(text, g.bytes + 8, header);
    golden_entry entry;
    int count = 0;
    for (const char *at = text; golden_parse_entry(&at, data, &entry);) count++;
    g.entries = calloc((size_t)count, sizeof *g.entries);
    if (!g.entries) exit(1);
    for (const char *at = text; g.count < count;) golden_parse_entry(&at, data, &g.entries[g.count++]);
    free(text);
    return g;
}

__attribute__((unused)) static void golden_close(golden *g)
{
    free(g->entries);
    free(g->bytes);
}

/* printf-like name; NULL if there is no such entry. */
__attribute__((unused, format(printf, 2, 3))) static const golden_entry *golden_find(const golden *g,
                                                                                     const char *format, ...)
{
    char name[128];
    va_list args;
    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    for (int i = 0; i < g->count; i++)
        if (strcmp(g->entries[i].name, name) == 0) return &g->entries[i];
    return NULL;
}

__attribute__((unused)) static ls_tensor *golden_tensor(ls_run *run, const golden_entry *entry)
{
    return ls_from(run, entry->dtype, entry->shape, entry->data);
}

/* All entries "prefix..." as a list, without the prefix. */
__attribute__((unused)) static ls_state *golden_state(ls_run *run, const golden *g, const char *prefix)
{
    ls_state *state = ls_state_new(run);
    for (int i = 0; i < g->count; i++)
        if (strncmp(g->entries[i].name, prefix, strlen(prefix)) == 0)
            ls_state_add(state, g->entries[i].name + strlen(prefix), golden_tensor(run, &g->entries[i]));
    return state;
}

static double golden_value(ls_dtype dtype, const void *data, int64_t i)
{
    switch (dtype) {
    case LS_F32: return (double)((const float *)data)[i];
    case LS_F64: return ((const double *)data)[i];
    case LS_I64: return (double)((const int64_t *)data)[i];
    default: return (double)((const uint8_t *)data)[i];
    }
}

/* Is the tensor what was expected, to tolerance * max(1, largest element)? */
__attribute__((unused)) static void golden_compare(ls_tensor *got, const golden_entry *want, double tolerance)
{
    int64_t n = ls_shape_numel(want->shape);
    bool same = ls_is_valid(got) && ls_dtype_of(got) == want->dtype && ls_shape_equal(ls_shape_of(got), want->shape);
    CHECK_MSG(same, "%s: no tensor, or of another type or shape", want->name);
    size_t bytes = (size_t)n * ls_dtype_size(want->dtype);
    char *values = calloc(bytes + 1, 1);
    if (same && values && ls_read(got, values, bytes)) {
        double largest = 1, worst = 0;
        int64_t where = 0;
        for (int64_t i = 0; i < n; i++) largest = fmax(largest, fabs(golden_value(want->dtype, want->data, i)));
        for (int64_t i = 0; i < n; i++) {
            double error = fabs(golden_value(want->dtype, values, i) - golden_value(want->dtype, want->data, i));
            if (!(error <= worst)) worst = error, where = i;
        }
        CHECK_MSG(worst <= tolerance * largest, "%s: element %lld is %.9g, expected %.9g", want->name, (long long)where,
                  golden_value(want->dtype, values, where), golden_value(want->dtype, want->data, where));
    }
    free(values);
}

#endif
