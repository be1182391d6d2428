/* image.c - photos to training data: decode, crop, scale, convert to floats; in images per second.
 *
 * The photos are originals with fur and grass (pets_orig in the test data), the hardest case for a decoder. */
#include "bench.h"

#include <dirent.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/parallel.h"
#include "data/image/image.h"

enum { MOST_PHOTOS = 1000, SIZE = 224, CROPS = 2 };

typedef struct photos {
    ls_file_bytes file[MOST_PHOTOS];
    int count;
    ls_transform transform;
    atomic_int next, failed;
} photos;

static const char *const names[] = {"random crop 224", "resize 224", "shorter 256, middle 224"};

static ls_transform transform_of(int variant)
{
    switch (variant) {
    case 0: return ls_random_resized_crop(SIZE);
    case 1: return ls_resize(SIZE);
    default: return ls_compose(ls_resize_shorter(256), ls_center_crop(SIZE));
    }
}

static const char *folder(void)
{
    static char path[1024];
    const char *data = getenv("LOCKSTEP_TEST_DATA");
    snprintf(path, sizeof path, "%s/pets_orig/images", data ? data : BENCH_DATA_DIR);
    return path;
}

static int is_photo(const struct dirent *entry)
{
    return strstr(entry->d_name, ".jpg") != NULL;
}

static void image_worker(void *arg, ls_worker worker)
{
    (void)worker;
    photos *p = arg;
    static _Thread_local float pixels[SIZE * SIZE * 3];
    for (int i; (i = atomic_fetch_add(&p->next, 1)) < CROPS * p->count;) {
        const ls_file_bytes *file = &p->file[i % p->count];
        const uint64_t random[2] = {1, (uint64_t)i};
        ls_image_out out = {.memory = pixels, .height = SIZE, .width = SIZE};
        if (ls_image_decode_transform(file->bytes, file->size, &p->transform, random, out, NULL) != LS_OK)
            atomic_fetch_add(&p->failed, 1);
    }
}

static void image_call(void *state)
{
    photos *p = state;
    atomic_store(&p->next, 0);
    ls_parallel(image_worker, p, ls_parallel_width());
}

static void *image_setup(ls_run *run, const bench_item *item)
{
    (void)run;
    photos *p = calloc(1, sizeof *p);
    struct dirent **entries = NULL;
    int count = p ? scandir(folder(), &entries, is_photo, alphasort) : 0;
    for (int i = 0; i < count; i++) {
        char path[2048];
        snprintf(path, sizeof path, "%s/%s", folder(), entries[i]->d_name);
        if (p->count < MOST_PHOTOS && ls_file_load(&p->file[p->count], path, SIZE_MAX, NULL)) p->count++;
        free(entries[i]);
    }
    free(entries);
    if (p) p->transform = transform_of(item->variant);
    return p;
}

static void image_release(void *state)
{
    photos *p = state;
    if (p->failed) fprintf(stderr, "%d images could not be decoded\n", p->failed);
    for (int i = 0; i < p->count; i++) ls_file_unload(&p->file[i]);
    free(p);
}

void bench_add_images(int threads)
{
    struct dirent **entries = NULL;
    int count = scandir(folder(), &entries, is_photo, alphasort);
    for (int i = 0; i < count; i++) free(entries[i]);
    free(entries);
    for (int i = 0; count > 0 && i < (int)(sizeof names / sizeof *names); i++) {
        bench_item *item = bench_add(BENCH_IMAGES, BENCH_PEAK_NONE, threads, CROPS * count, "image/f32/%s", names[i]);
        item->variant = i;
        item->setup = image_setup;
        item->call = image_call;
        item->release = image_release;
    }
}
