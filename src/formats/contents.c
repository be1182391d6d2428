/* contents.c - the contents of a file, as a list for people and programs. */
#include "base/memory.h"
#include "formats/archive.h"
#include "tensor/context.h"

typedef struct contents {
    ls_object object;
    ls_contents list; /* what callers see */
    ls_archive archive;
} contents;

static void clear(void *object)
{
    contents *c = object;
    ls_archive_close(&c->archive);
}

const ls_contents *ls_contents_read(ls_run *run, const char *path)
{
    if (ls_failed(run)) return NULL;
    if (!path) return ls_fail(&run->errors, LS_ERR_VALUE, "ls_contents_read: the path is NULL"), NULL;
    contents *c = ls_object_new(run, LS_OBJECT_CONTENTS, sizeof *c, clear);
    if (!c) return NULL;
    ls_archive *a = &c->archive;
    bool ok = ls_archive_open(a, &run->errors, path, true);
    ls_file_tensor *tensors = ok ? ls_archive_take(a, (size_t)a->count * sizeof *tensors) : NULL;
    if (!tensors) return ls_object_free(c), NULL;
    for (int64_t i = 0; i < a->count; i++) {
        const ls_archive_entry *e = &a->entries[i];
        tensors[i] = (ls_file_tensor){
            .name = e->name, .type = ls_element_name(e->element), .file = e->file, .ndim = e->ndim, .dim = e->dim};
        ls_element_bytes(e->element, e->ndim, e->dim, &tensors[i].bytes); /* the reader has checked it */
    }
    c->list = (ls_contents){.format = a->format,
                            .count = a->count,
                            .tensors = tensors,
                            .file_count = a->file_count,
                            .files = a->files,
                            .metadata_count = a->metadata_count,
                            .metadata = a->metadata};
    return &c->list;
}

void ls_contents_free(const ls_contents *list)
{
    if (list) ls_object_free((char *)list - offsetof(contents, list));
}
