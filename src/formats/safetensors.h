/* safetensors.h - writing safetensors files from plain memory. Needs no run, so any thread may do it. */
#ifndef LOCKSTEP_FORMATS_SAFETENSORS_H
#define LOCKSTEP_FORMATS_SAFETENSORS_H

#include <lockstep/formats.h>

#include "base/file.h"

/* One tensor to write: row-major elements in host memory, or, if `data` is NULL, fetched just before they are
 * written. */
typedef struct ls_plain_tensor {
    const char *name;
    ls_dtype dtype;
    ls_shape shape;
    const void *data;
} ls_plain_tensor;

typedef struct ls_plain_list {
    int64_t count;
    const ls_plain_tensor *tensors;
    const ls_metadata *metadata; /* in addition to {"format", "pt"}; NULL, or terminated by a NULL key */
    /* Copy the elements of tensor i to host memory; false on failure, with the reason in `why`. NULL if all data is
     * given. */
    bool (*fetch)(void *user, int64_t i, void *to, size_t bytes, ls_message *why);
    void *user;
} ls_plain_list;

uint64_t ls_plain_bytes(const ls_plain_tensor *tensor);

/* Write the file without publishing it (see ls_file_out). The same tensors give the same bytes in any order: they are
 * sorted by type, widest first, then by name, as in the reference implementation. */
bool ls_safetensors_put(ls_file_out *out, const char *path, const ls_plain_list *list, bool sync, ls_message *why);
/* torch_write.c: the same in PyTorch's format, in the order of the list; metadata is left out. */
bool ls_torch_put(ls_file_out *out, const char *path, const ls_plain_list *list, bool sync, ls_message *why);
/* The first, and publish it. */
bool ls_safetensors_write(const char *path, const ls_plain_list *list, bool sync, ls_message *why);

#endif
