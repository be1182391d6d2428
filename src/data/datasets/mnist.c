/* mnist.c - MNIST and similar datasets: bytes in idx files, plain or gzip. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/budget.h"
#include "base/hash.h"
#include "base/memory.h"
#include "data/datasets/dataset.h"
#include "data/image/image.h"

#ifdef LOCKSTEP_WITH_ZLIB
#include <zlib.h>
#endif

/* The contents of an idx file of bytes: 00 00 08 ndim, sizes as big-endian 32-bit numbers, then the bytes. */
typedef struct idx {
    int ndim;
    int64_t dim[3];
    uint8_t *bytes;
} idx;

typedef struct digits {
    idx images, labels;
} digits;

/* ---- files ---- */

/* A file that is read sequentially, and inflated if it is gzip. */
typedef struct source {
    FILE *file;
    const char *path;
    int64_t size; /* on disk */
    bool packed;
#ifdef LOCKSTEP_WITH_ZLIB
    z_stream inflate;
    bool inflating, ended;
    uint8_t buffer[16384];
#endif
} source;

static ls_status open_source(source *s, const char *path, ls_message *why)
{
    *s = (source){.path = path, .file = fopen(path, "rbe")};
    struct stat about;
    if (!s->file || fstat(fileno(s->file), &about)) return ls_explain(why, LS_ERR_IO, "%s: %s", path, strerror(errno));
    if (!S_ISREG(about.st_mode)) return ls_explain(why, LS_ERR_IO, "%s: not a file", path);
    s->size = about.st_size;
    uint8_t magic[2] = {0};
    s->packed = fread(magic, 1, 2, s->file) == 2 && magic[0] == 0x1f && magic[1] == 0x8b;
    rewind(s->file);
    if (!s->packed) return LS_OK;
#ifdef LOCKSTEP_WITH_ZLIB
    s->inflating = inflateInit2(&s->inflate, 16 + MAX_WBITS) == Z_OK; /* gzip with its checksum */
    return s->inflating ? LS_OK : ls_explain(why, LS_ERR_MEMORY, "%s: no memory to unpack it", path);
#else
    return ls_explain(why, LS_ERR_UNSUPPORTED,
                      "%s is compressed with gzip, but this build has no zlib: unpack it first (gunzip)", path);
#endif
}

static void close_source(source *s)
{
#ifdef LOCKSTEP_WITH_ZLIB
    if (s->inflating) inflateEnd(&s->inflate);
#endif
    if (s->file) fclose(s->file);
}

/* Read `bytes` bytes, fewer at the end; -1 if the file is damaged. */
static int64_t read_source(source *s, void *to, int64_t bytes)
{
#ifdef LOCKSTEP_WITH_ZLIB
    if (s->packed) {
        int64_t done = 0;
        while (done < bytes && !s->ended) {
            if (s->inflate.avail_in == 0) {
                s->inflate.next_in = s->buffer;
                s->inflate.avail_in = (uInt)fread(s->buffer, 1, sizeof s->buffer, s->file);
                if (s->inflate.avail_in == 0) return -1;
            }
            uInt part = bytes - done < 1 << 30 ? (uInt)(bytes - done) : 1u << 30;
            s->inflate.next_out = (uint8_t *)to + done;
            s->inflate.avail_out = part;
            int status = inflate(&s->inflate, Z_NO_FLUSH);
            if (status != Z_OK && status != Z_STREAM_END) return -1;
            done += part - s->inflate.avail_out;
            s->ended = status == Z_STREAM_END;
        }
        return done;
    }
#endif
    return (int64_t)fread(to, 1, (size_t)bytes, s->file);
}

/* Can a file of this size contain so much? */
static bool is_plausible(const source *s, int64_t bytes)
{
    return bytes / (s->packed ? (int64_t)LS_BUDGET_RATIO : 1) <= s->size;
}

/* ---- idx ---- */

static ls_status read_idx(source *s, int ndim, idx *out, ls_message *why)
{
    uint8_t head[4], size[4], beyond;
    if (read_source(s, head, 4) != 4 || head[0] || head[1] || head[3] < 1)
        return ls_explain(why, LS_ERR_IO, "%s: not an idx file, which would begin with 00 00", s->path);
    if (head[2] != 8 || head[3] != ndim)
        return ls_explain(why, LS_ERR_IO, "%s: idx of type %02x with %d dimensions; expected bytes (08) with %d: %s",
                          s->path, head[2], head[3], ndim, ndim == 3 ? "images" : "labels");
    out->ndim = ndim;
    int64_t total = 1;
    for (int d = 0; d < ndim; d++) {
        if (read_source(s, size, 4) != 4) return ls_explain(why, LS_ERR_IO, "%s: the header is incomplete", s->path);
        out->dim[d] = (int64_t)size[0] << 24 | (int64_t)size[1] << 16 | (int64_t)size[2] << 8 | (int64_t)size[3];
        bool fits = out->dim[d] > 0 && total <= INT64_MAX / out->dim[d];
        if (fits) total *= out->dim[d];
        if (!fits || !is_plausible(s, total))
            return ls_explain(why, LS_ERR_IO, "%s: size %d is %lld, which does not fit a file of %lld bytes", s->path,
                              d, (long long)out->dim[d], (long long)s->size);
    }
    out->bytes = ls_sys_alloc((size_t)total);
    if (!out->bytes) return ls_explain(why, LS_ERR_MEMORY, "%s: no memory for %lld bytes", s->path, (long long)total);
    int64_t got = read_source(s, out->bytes, total);
    if (got != total)
        return ls_explain(why, LS_ERR_IO,
                          got < 0 ? "%s: damaged or truncated" : "%s: truncated: %lld bytes instead of %lld", s->path,
                          (long long)got, (long long)total);
    int64_t after = read_source(s, &beyond, 1); /* also makes gzip verify its checksum */
    if (after)
        return ls_explain(why, LS_ERR_IO, after < 0 ? "%s: damaged at its end" : "%s: longer than its header says",
                          s->path);
    return LS_OK;
}

static bool load(ls_run *run, const char *path, int ndim, idx *out)
{
    if (!path) return ls_fail(&run->errors, LS_ERR_VALUE, "ls_mnist_new: the path is NULL"), false;
    source s;
    ls_message why = {{0}};
    ls_status status = open_source(&s, path, &why);
    if (!status) status = read_idx(&s, ndim, out, &why);
    close_source(&s);
    if (status) ls_fail(&run->errors, status, "ls_mnist_new: %s", why.text);
    return status == LS_OK;
}

/* ---- the dataset ---- */

static bool get(int64_t index, ls_sample *sample, void *user)
{
    const digits *all = user;
    int64_t pixels = all->images.dim[1] * all->images.dim[2];
    int64_t *label = ls_sample_field(sample, 1);
    *label = all->labels.bytes[index];
    return ls_sample_pixels(sample, 0, all->images.bytes + index * pixels);
}

static int64_t class_of(int64_t index, void *user)
{
    return ((const digits *)user)->labels.bytes[index];
}

static uint64_t hash_samples(const void *user)
{
    const idx *images = &((const digits *)user)->images, *labels = &((const digits *)user)->labels;
    ls_hash hash;
    ls_hash_begin(&hash);
    ls_hash_add(&hash, images->bytes, (size_t)(images->dim[0] * images->dim[1] * images->dim[2]));
    ls_hash_add(&hash, labels->bytes, (size_t)labels->dim[0]);
    return ls_hash_end(&hash);
}

static void release(void *user)
{
    digits *all = user;
    ls_sys_free(all->images.bytes);
    ls_sys_free(all->labels.bytes);
    ls_sys_free(all);
}

static bool name_classes(ls_dataset *set, const idx *labels)
{
    char numbers[256][12];
    const char *names[256];
    int most = 0;
    for (int64_t i = 0; i < labels->dim[0]; i++)
        if (labels->bytes[i] > most) most = labels->bytes[i];
    for (int i = 0; i <= most; i++) {
        snprintf(numbers[i], sizeof numbers[i], "%d", i);
        names[i] = numbers[i];
    }
    return ls_dataset_set_classes(set, most + 1, names);
}

ls_dataset *ls_mnist_new(ls_run *run, const char *images_path, const char *labels_path)
{
    if (ls_failed(run)) return NULL;
    digits *all = ls_sys_alloc(sizeof *all);
    if (!all) return ls_fail(&run->errors, LS_ERR_MEMORY, "ls_mnist_new: out of memory"), NULL;
    if (!load(run, images_path, 3, &all->images) || !load(run, labels_path, 1, &all->labels)) return release(all), NULL;
    int64_t count = all->images.dim[0];
    if (count != all->labels.dim[0]) {
        ls_fail(&run->errors, LS_ERR_SHAPE, "ls_mnist_new: %s has %lld images, %s has %lld labels", images_path,
                (long long)count, labels_path, (long long)all->labels.dim[0]);
        return release(all), NULL;
    }
    const ls_field fields[LS_MAX_FIELDS] = {
        {.name = "image", .image = true, .shape = {1, all->images.dim[1], all->images.dim[2]}},
        {.name = "label", .dtype = LS_I64},
    };
    ls_dataset *set = ls_dataset_begin(run, "idx dataset", fields);
    if (!set) return release(all), NULL;
    set->user = all;
    set->release = release;
    set->get = get;
    set->class_of = class_of;
    set->count = count;
    set->in_memory = true;
    set->hash_samples = hash_samples;
    if (name_classes(set, &all->labels) && ls_dataset_set_source(set, images_path)) return set;
    ls_object_free(set);
    return NULL;
}
