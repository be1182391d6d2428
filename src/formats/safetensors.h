/* safetensors.h - writing safetensors files from plain memory. Needs no run: a thread of its own may do it. */
#ifndef LOCKSTEP_FORMATS_SAFETENSORS_H
#define LOCKSTEP_FORMATS_SAFETENSORS_H

#include <lockstep/formats.h>

#include "base/file.h"

/* One tensor to write. Row-major elements in host memory, or `data` NULL:
 * then they are fetched when their turn comes. */
typedef struct ls_plain_tensor {
    const char *name;
    ls_dtype dtype;
    ls_shape shape;
    const void *data;
} ls_plain_tensor;

typedef struct ls_plain_list {
    int64_t count;
    const ls_plain_tensor *tensors;
    const ls_metadata *metadata; /* besides {"format", "pt"}; NULL, or ends with a key of NULL */
    /* Elements of tensor i to host memory; false (and a reason in `why`) when that failed.
     * NULL where all data is there. */
    bool (*fetch)(void *user, int64_t i, void *to, size_t bytes, ls_message *why);
    void *user;
} ls_plain_list;

uint64_t ls_plain_bytes(const ls_plain_tensor *tensor);

/* Write the file up to where it can be published (see ls_file_out). The same tensors give the same bytes, whatever
 * their order: sorted by type, widest first, then by name, as the reference implementation does. */
bool ls_safetensors_put(ls_file_out *out, const char *path, const ls_plain_list *list, bool sync, ls_message *why);
/* And publish it. */
bool ls_safetensors_write(const char *path, const ls_plain_list *list, bool sync, ls_message *why);

#endif
