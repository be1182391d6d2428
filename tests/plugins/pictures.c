/* pictures.c - decoded pictures on their way to a device: they travel as bytes and arrive as the numbers of the CPU. */
#include <lockstep.h>

#include <dlfcn.h>

#include "check.h"
#include "data/loader/loader.h"

enum { FILES = 6, SAMPLES = 14, BATCH = 4, SIDE = 24, PIXELS = SIDE * SIDE, LEVELS = 3 * PIXELS };

static const char *const names[FILES] = {"444.jpg", "422.jpg", "420.jpg", "gray.jpg", "optimized.jpg", "restart.jpg"};

static struct file {
    char bytes[1 << 16];
    size_t size;
} files[FILES];

static void read_files(void)
{
    for (int i = 0; i < FILES; i++) {
        char path[1024];
        snprintf(path, sizeof path, "%s/images/%s", GOLDEN_DIR, names[i]);
        FILE *file = fopen(path, "rb");
        if (!file) exit(1);
        files[i].size = fread(files[i].bytes, 1, sizeof files[i].bytes, file);
        fclose(file);
    }
}

/* Bytes that went from the host to the device. */
static int64_t uploaded(const char *device)
{
    int64_t (*counter)(void) = NULL;
    void *library = dlopen(device, RTLD_NOW), *symbol = library ? dlsym(library, "device_bytes_uploaded") : NULL;
    CHECK(symbol != NULL);
    if (!symbol) return 0;
    memcpy(&counter, &symbol, sizeof symbol);
    return counter();
}

/* ---- datasets ---- */

static bool decode(ls_sample *sample, int64_t index)
{
    const struct file *file = &files[index % FILES];
    return ls_sample_image(sample, 0, file->bytes, file->size);
}

static bool get_decoded(int64_t index, ls_sample *sample, void *user)
{
    (void)user;
    return decode(sample, index);
}

/* And some numbers, 1 to 3. */
static bool get_with_words(int64_t index, ls_sample *sample, void *user)
{
    (void)user;
    int64_t count = 1 + index % 3;
    int32_t *words = ls_sample_resize(sample, 1, LS_SHAPE(count));
    for (int64_t i = 0; words && i < count; i++) words[i] = (int32_t)(index * 10 + i);
    return words && decode(sample, index);
}

/* Decodes, writes all, changes what was decoded, asks for the memory first: in turn. */
static bool get_in_all_ways(int64_t index, ls_sample *sample, void *user)
{
    (void)user;
    float *numbers;
    switch (index % 4) {
    case 0: return decode(sample, index);
    case 1:
        numbers = ls_sample_field(sample, 0);
        for (int i = 0; i < LEVELS; i++) numbers[i] = (float)(i % 7) * 0.37f - 1;
        return true;
    case 2:
        if (!decode(sample, index)) return false;
        numbers = ls_sample_resize(sample, 0, LS_SHAPE(3, SIDE, SIDE));
        for (int i = 0; i < LEVELS; i += 5) numbers[i] += 0.125f;
        return true;
    default:
        numbers = ls_sample_field(sample, 0);
        if (!decode(sample, index)) return false;
        numbers[17] = -numbers[17];
        return true;
    }
}

static int64_t stream_at;

static void begin_stream(int64_t epoch, void *user)
{
    (void)user, (void)epoch;
    stream_at = 0;
}

static bool next_in_all_ways(ls_sample *sample, void *user)
{
    return stream_at < SAMPLES && get_in_all_ways(stream_at++, sample, user);
}

/* ---- a pass ---- */

typedef struct pass {
    ls_get_fn *get; /* NULL: a stream, of which this is the second of two processes */
    bool words;     /* a second field, of any size */
    const char *folder;
    ls_transform transform;
    ls_dtype dtype;
    int workers;
    ls_collate_fn *collate;
} pass;

typedef struct contents {
    char bytes[SAMPLES * LEVELS * sizeof(float) + 1024];
    size_t size;
    int64_t uploaded;
} contents;

static ls_dataset *dataset(ls_run *run, const pass *p)
{
    if (p->folder) return ls_image_folder_new(run, p->folder, .by_folder = true, .on_bad = LS_ON_BAD_SKIP);
    if (p->words)
        return ls_dataset_new(run, .count = SAMPLES, .get = p->get,
                              .fields = {{.name = "image", .image = true},
                                         {.name = "words", .dtype = LS_I32, .shape = {LS_ANY}, .pad = -1}});
    if (p->get)
        return ls_dataset_new(run, .count = SAMPLES, .get = p->get, .fields = {{.name = "image", .image = true}});
    return ls_stream_dataset_new(run, .next = next_in_all_ways, .begin = begin_stream,
                                 .fields = {{.name = "image", .image = true}});
}

static void append(contents *c, ls_tensor *t)
{
    size_t bytes = (size_t)ls_numel(t) * ls_dtype_size(ls_dtype_of(t));
    CHECK(c->size + bytes <= sizeof c->bytes);
    if (c->size + bytes > sizeof c->bytes) return;
    ls_read(t, c->bytes + c->size, bytes);
    c->size += bytes;
}

static void run_pass(const char *device, const pass *p, contents *c)
{
    bool host = strcmp(device, "cpu") == 0;
    int64_t before = host ? 0 : uploaded(device);
    ls_run *run = ls_init(NULL, NULL, .device = device, .seed = 11);
    ls_loader *loader =
        ls_loader_new(run, dataset(run, p), .batch = BATCH, .shuffle = p->get || p->folder, .workers = p->workers,
                      .transform = p->transform, .dtype = p->dtype, .collate = p->collate);
    if (!p->get && !p->folder) CHECK(ls_loader_share_out(loader, (ls_share){.rank = 1, .world = 2}));
    c->size = 0;
    for (ls_batch b; ls_next(loader, &b);) {
        CHECK(b.image->view.stride[1] == 1 && b.image->view.stride[3] == 3);
        for (int i = 0; i < b.count; i++) append(c, b.tensor[i]);
        if (p->words) CHECK(ls_batch_sample_shape(&b, "words", 0).dim[0] == 1 + b.index[0] % 3);
        CHECK(ls_batch_sample_shape(&b, "image", 0).dim[2] == SIDE);
    }
    CHECK_MSG(ls_finish(run) == 0, "%s", ls_error_message(run));
    c->uploaded = host ? 0 : uploaded(device) - before;
}

/* Devices give the CPU's bits; what has been uploaded must be as many bytes, unless -1. */
static void check_pass(const char *what, pass p, int64_t bytes)
{
    static contents here, there;
    static const char *const devices[] = {ASYNC_DEVICE, RECORDING_DEVICE};
    for (p.workers = 0; p.workers < 4; p.workers += 3) {
        run_pass("cpu", &p, &here);
        CHECK(here.size > 0);
        for (int d = 0; d < 2; d++) {
            run_pass(devices[d], &p, &there);
            CHECK_MSG(here.size == there.size && memcmp(here.bytes, there.bytes, here.size) == 0,
                      "%s: other pictures, %d workers, device %d", what, p.workers, d);
            CHECK_MSG(bytes < 0 || there.uploaded == bytes, "%s: %lld bytes went to the device, not %lld", what,
                      (long long)there.uploaded, (long long)bytes);
        }
    }
}

/* ---- tests ---- */

static ls_transform crop(void)
{
    return ls_compose(ls_random_resized_crop(SIDE), ls_random_flip());
}

static ls_transform normalized(void)
{
    return ls_compose(crop(), ls_normalize_image());
}

static void pictures_travel_as_bytes(void)
{
    check_pass("as they are", (pass){.get = get_decoded, .transform = ls_resize(SIDE)}, SAMPLES * LEVELS);
    check_pass("normalised", (pass){.get = get_decoded, .transform = normalized()}, SAMPLES * LEVELS);
}

static void bytes_that_are_asked_for_stay_bytes(void)
{
    check_pass("bytes", (pass){.get = get_decoded, .transform = crop(), .dtype = LS_U8}, SAMPLES * LEVELS);
}

/* Of four samples one is as the decoder made it; the others' numbers travel too. */
static void what_a_program_writes_itself_arrives(void)
{
    int64_t own = SAMPLES - (SAMPLES + 3) / 4;
    pass p = {.get = get_in_all_ways, .transform = normalized()};
    check_pass("written by the program", p, SAMPLES * LEVELS + own * LEVELS * (int64_t)sizeof(float));
}

static void fields_of_any_size_travel_beside(void)
{
    check_pass("with words", (pass){.get = get_with_words, .words = true, .transform = crop()}, -1);
}

/* The last round is completed with samples of the first, whose bytes and numbers were kept. */
static void streams_end_with_pictures_of_their_beginning(void)
{
    check_pass("a stream", (pass){.transform = normalized()}, -1);
}

static void change(ls_batch *batch, void *user)
{
    (void)user;
    ls_batch_set_field(batch, "image", ls_square(batch->image));
}

static void put(const char *path, const void *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");
    CHECK(file && fwrite(bytes, 1, size, file) == size);
    if (file) fclose(file);
}

/* Labels are 8 bytes each. A damaged file is replaced by the next one; a function of the program changes batches. */
static void folders_of_photos_travel_as_bytes(void)
{
    CHECK(system("rm -rf pictures_here && mkdir -p pictures_here/a pictures_here/b") == 0);
    for (int i = 0; i < FILES; i++) {
        char path[64];
        snprintf(path, sizeof path, "pictures_here/%c/%d.jpg", i % 2 ? 'b' : 'a', i);
        put(path, files[i].bytes, i == 3 ? files[i].size / 2 : files[i].size);
    }
    pass p = {.folder = "pictures_here", .transform = normalized()};
    check_pass("a folder", p, FILES * (LEVELS + 8));
    p.collate = change;
    check_pass("a folder, changed", p, FILES * (LEVELS + 8));
    CHECK(system("rm -r pictures_here") == 0);
}

int main(int argc, char **argv)
{
    check_filter = argc > 1 ? argv[1] : NULL;
    read_files();
    CHECK_RUN(pictures_travel_as_bytes);
    CHECK_RUN(bytes_that_are_asked_for_stay_bytes);
    CHECK_RUN(what_a_program_writes_itself_arrives);
    CHECK_RUN(fields_of_any_size_travel_beside);
    CHECK_RUN(streams_end_with_pictures_of_their_beginning);
    CHECK_RUN(folders_of_photos_travel_as_bytes);
    return check_done();
}
