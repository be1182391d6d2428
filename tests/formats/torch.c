/* torch.c - files of PyTorch and NumPy: right values, no code run, no harm done by damaged ones. */
#include "formats/files.h"

#include <sys/stat.h>

#include "base/budget.h"
#include "base/memory.h"
#include "formats/archive.h"

static ls_run *run;

static char *sample(const char *name)
{
    static char paths[4][512];
    static int turn;
    char *path = paths[turn++ % 4];
    snprintf(path, 512, SAMPLES_DIR "/%s", name);
    return path;
}

static bool has(const ls_state *state, const char *name, ls_dtype dtype, ls_shape shape)
{
    ls_tensor *t = ls_state_find(state, name);
    return t && ls_dtype_of(t) == dtype && ls_shape_equal(ls_shape_of(t), shape);
}

/* The output of make_samples.py, in each of the three forms. */
static void reads_tensors_numbers_and_containers(void)
{
    static const char *const files[] = {"zip.pt", "legacy.pt", "protocol4.pt"};
    for (int i = 0; i < 3; i++) {
        ls_state *s = ls_state_read(run, sample(files[i]));
        CHECK_MSG(s, "%s", ls_error_message(run));
        CHECK(has(s, "whole", LS_F32, LS_SHAPE(2, 3, 4)) && number_at(s, "whole", 23) == 23);
        CHECK(has(s, "turned", LS_F32, LS_SHAPE(4, 3, 2)) && number_at(s, "turned", 1) == 12);
        CHECK(has(s, "part", LS_F32, LS_SHAPE(3, 2)) && number_at(s, "part", 2) == 17);
        CHECK(has(s, "repeated", LS_F32, LS_SHAPE(2, 5, 4)) && number_at(s, "repeated", 39) == 15);
        CHECK(has(s, "parameter", LS_F32, LS_SHAPE(2)) && number_at(s, "parameter", 1) == -2.5);
        CHECK(has(s, "empty", LS_F32, LS_SHAPE(0, 3)) && has(s, "number", LS_I64, LS_SCALAR));
        CHECK(has(s, "half", LS_F16, LS_SHAPE(2)) && number_at(s, "half", 1) == 65504);
        CHECK(has(s, "brain", LS_BF16, LS_SHAPE(2)) && number_at(s, "brain", 0) == 1.5);
        CHECK(has(s, "yes", LS_BOOL, LS_SHAPE(2)) && number_at(s, "yes", 0) == 1);
        CHECK(has(s, "short", LS_I32, LS_SHAPE(2)) && number_at(s, "short", 0) == -5);
        CHECK(has(s, "pair", LS_F32, LS_SHAPE(2, 2)) && number_at(s, "pair", 3) == -4);
        CHECK(has(s, "nested.list.0", LS_I64, LS_SCALAR) && number_at(s, "nested.list.1", 0) == 2.5);
        CHECK(has(s, "nested.list.2", LS_BOOL, LS_SCALAR) && number_at(s, "nested.list.5.0", 0) == 3);
        CHECK(has(s, "nested.list.5.1", LS_F32, LS_SHAPE(2)) && number_at(s, "nested.5", 0) == -0x1p40);
        CHECK(number_at(s, "size.1", 0) == 2 && number_at(s, "counts.1", 0) == 2);
        CHECK(has(s, "array", LS_F32, LS_SHAPE(3, 2)) && number_at(s, "array", 1) == 3);
        CHECK(has(s, "scalar", LS_F64, LS_SCALAR) && number_at(s, "scalar", 0) == 3.5);
        CHECK(!ls_state_find(s, "nested.list.3") && !ls_state_find(s, "type"));
        ls_state_free(s);
        const ls_contents *c = ls_contents_read(run, sample(files[i]));
        CHECK_TEXT(c->format, i == 1 ? "torch (legacy)" : "torch");
        CHECK(c->metadata_count == 2);
        CHECK_TEXT(c->metadata[0].key, "nested.list.4");
        CHECK_TEXT(c->metadata[0].value, "text");
        ls_contents_free(c);
    }
}

static void views_of_one_storage_share_their_memory(void)
{
    static const char *const files[] = {"zip.pt", "legacy.pt"};
    for (int i = 0; i < 2; i++) {
        ls_state *s = ls_state_read(run, sample(files[i]), .only = "whole|part");
        ls_tensor *part = ls_state_find(s, "part");
        ls_assign(part, ls_full(run, LS_F32, -1, 1));
        CHECK(number_at(s, "part", 0) == -1);
        /* Storages of the older form may be unaligned in the file; then both are copies. */
        if (i == 0) CHECK(number_at(s, "whole", 13) == -1 && number_at(s, "whole", 12) == 12);
        ls_state_free(s);
    }
}

static void reads_newer_types_and_state_dicts(void)
{
    ls_state *s = ls_state_read(run, sample("types.pt"));
    CHECK(has(s, "e4m3", LS_F32, LS_SHAPE(2)) && number_at(s, "e4m3", 1) == 448 && number_at(s, "e5m2", 1) == 57344);
    CHECK(number_at(s, "u16", 1) == 65535 && has(s, "u64", LS_I64, LS_SHAPE(2)) && number_at(s, "u64", 1) == 0x1p62);
    ls_state_free(s);
    s = ls_state_read(run, sample("state_dict.pt"));
    CHECK(ls_state_count(s) == 5 && has(s, "running_var", LS_F32, LS_SHAPE(2)));
    ls_state_free(s);
}

static void reads_numpy(void)
{
    ls_state *s = ls_state_read(run, sample("fortran.npy"));
    CHECK(has(s, "tensor", LS_F32, LS_SHAPE(2, 3, 4)) && number_at(s, "tensor", 5) == 5);
    ls_state_free(s);
#ifdef LOCKSTEP_WITH_ZLIB
    s = ls_state_read(run, sample("packed.npz"));
    CHECK(has(s, "a", LS_I32, LS_SHAPE(1000)) && number_at(s, "a", 999) == 999);
    CHECK(has(s, "b", LS_F64, LS_SHAPE(3, 4)) && number_at(s, "b", 5) == 5 && has(s, "c", LS_U8, LS_SCALAR));
    ls_state_free(s);
#else
    CHECK_REFUSED(run, ls_state_read(run, sample("packed.npz")), LS_ERR_UNSUPPORTED, "built without zlib");
#endif
    CHECK_REFUSED(run, ls_state_read(run, sample("big_endian.npy")), LS_ERR_UNSUPPORTED, "big-endian");
    CHECK_REFUSED(run, ls_state_read(run, sample("objects.npy")), LS_ERR_UNSUPPORTED, "has type |O");
}

static void code_is_refused_by_name(void)
{
    CHECK_REFUSED(run, ls_state_read(run, sample("module.pt")), LS_ERR_UNSUPPORTED,
                  "it wants to run torch.nn.modules.batchnorm.BatchNorm1d");
    static const struct {
        const char *pickle;
        size_t size;
        const char *says;
    } bad[] = {
#define P(text, says) {"\x80\x02" text, sizeof "\x80\x02" text - 1, says}
        P("cos\nsystem\nX\x02\0\0\0ls\x85R.", "it wants to run os.system"),
        P("c__builtin__\neval\n.", "it wants to run __builtin__.eval"),
        P("cbuiltins\ngetattr\n.", "it wants to run builtins.getattr"),
        P("\x8c\x02os\x8c\x06system\x93.", "it wants to run os.system"),
        P("(ios\nsystem\n.", "opcode 0x69 is not allowed"),
        P("P0\n.", "opcode 0x50 is not allowed"),
        P("\x82\x01.", "opcode 0x82 is not allowed"),
        P("ctorch\nFloatStorage\n)R.", "torch.FloatStorage is called with unexpected arguments"),
        P("K\x01)R.", "a call of something that is not a global"),
        P("]K\x01"
          "b.",
          "a value without state is given one"),
        P("R.", "a value is missing"),
        P("(R.", "a value is missing"),
        P("t.", "a mark is missing"),
        P("K\x01K\x02"
          "a.",
          "a value is of the wrong kind"),
        P("}(K\x01u.", "a key without a value"),
        P("(K\x01"
          "d.",
          "a dict has an odd number"),
        P("h\x07.", "a memo entry is empty"),
        P("Nr\xff\xff\xff\x7f.", "a memo index is too large"),
        P("X\xff\xff\xff\xff", "truncated"),
        P("N", "truncated"),
        P("", "truncated"),
        P("X\x01\0\0\0aQ.", "a reference is invalid"),
        P("}K\x01\x88s}\x88K\x02s\x86.", "a key in 1 is neither text nor"),
        P("}X\x01\0\0\0\xffK\x01s.", "a name is not text"),
        P("\x8a\x0a"
          "0123456789.",
          "an integer of more than 64 bits"),
        P("]q\0h\0"
          "a.",
          "more than 64 deep"),
        P("}(X\x01\0\0\0"
          "1K\x01K\x01K\x02u.",
          "there are two tensors 1"),
#undef P
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        put_file(in_folder("p"), bad[i].pickle, bad[i].size);
        ls_state *s = ls_state_read(run, in_folder("p"));
        CHECK_MSG(!s && strstr(ls_error_message(run), bad[i].says), "%zu: \"%s\" does not say \"%s\"", i,
                  ls_error_message(run), bad[i].says);
        ls_clear_error(run);
    }
}

/* Lists that contain the same list twice, 40 levels deep: a few bytes for 2^40 values that take no memory of their
 * own. */
static void shared_containers_do_not_explode(void)
{
    char pickle[400] = "\x80\x02]Na";
    size_t at = 5;
    for (int i = 0; i < 40; i++) {
        memcpy(pickle + at, "2\x86", 2); /* DUP, TUPLE2 */
        at += 2;
    }
    pickle[at++] = '.';
    put_file(in_folder("p"), pickle, at);
    CHECK_REFUSED(run, ls_state_read(run, in_folder("p")), LS_ERR_IO, "more than 4194304 values");
}

/* ---- pickles that name one thing many times ---- */

typedef struct pickle {
    char *bytes;
    size_t size;
} pickle;

static void put(pickle *p, const void *bytes, size_t size)
{
    p->bytes = realloc(p->bytes, p->size + size);
    memcpy(p->bytes + p->size, bytes, size);
    p->size += size;
}

#define PUT(p, text) put(p, text, sizeof(text) - 1)

static void put_times(pickle *p, int times, const char *text)
{
    while (times-- > 0) put(p, text, strlen(text));
}

/* BINUNICODE or BINBYTES of one letter repeated. */
static void put_long(pickle *p, char opcode, uint32_t length)
{
    char *text = malloc(5 + (size_t)length);
    text[0] = opcode;
    for (int i = 0; i < 4; i++) text[1 + i] = (char)(length >> 8 * i);
    memset(text + 5, 'x', length);
    put(p, text, 5 + (size_t)length);
    free(text);
}

/* 100,000 numbers, reached through 1,000 lists of 100, under a name of 1,500 letters: 150 MB of names. */
static void long_names(pickle *p)
{
    PUT(p, "}");
    put_long(p, 'X', 1500);
    PUT(p, "](](");
    put_times(p, 100, "K\1");
    PUT(p, "eq\1");
    put_times(p, 999, "h\1");
    PUT(p, "es.");
}

/* An array of 60 kB, referenced 3,000 times. */
static void copied_array(pickle *p)
{
    PUT(p, "](cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\0\x85"
           "C\1b\x87R(K\1M\x60\xea\x85"
           "cnumpy\ndtype\nX\2\0\0\0u1\x89\x88\x87R\x89");
    put_long(p, 'B', 60000);
    PUT(p, "tbq\1");
    put_times(p, 2999, "h\1");
    PUT(p, "e.");
}

/* 2,000 sets, of the same 10,000 values each. */
static void copied_set(pickle *p)
{
    PUT(p, "](");
    put_times(p, 10000, "N");
    PUT(p, "eq\1c__builtin__\nset\nq\2");
    put_times(p, 2000, "h\2h\1\x85R0");
    PUT(p, "0.");
}

/* 4,000 times the bytes of the same text of 40 kB. */
static void encoded_text(pickle *p)
{
    put_long(p, 'X', 40000);
    PUT(p, "q\1X\6\0\0\0latin1q\2c_codecs\nencode\nq\3");
    put_times(p, 4000, "h\3h\1h\2\x86R0");
    PUT(p, "00.");
}

static void expansion_is_limited_by_the_size_of_the_file(void)
{
    void (*const makers[])(pickle *) = {long_names, copied_array, copied_set, encoded_text};
    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++) {
        pickle p = {0};
        PUT(&p, "\x80\x02");
        makers[i](&p);
        put_file(in_folder("p"), p.bytes, p.size);
        free(p.bytes);
        CHECK_REFUSED(run, ls_state_read(run, in_folder("p")), LS_ERR_IO, "it expands to more than");
    }
}

/* A view of one float that repeats it 2^30 times takes no memory in place, but must not be expanded. */
static void a_repeated_element_is_not_expanded(void)
{
    pickle p = {0};
    PUT(&p, "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\x02M\xe9\x03."
            "\x80\x02}X\x0d\0\0\0little_endian\x88s."
            "\x80\x02"
            "ctorch._utils\n_rebuild_tensor_v2\n((X\x07\0\0\0storagectorch\nFloatStorage\n"
            "X\x01\0\0\0"
            "0X\x03\0\0\0cpuK\x01NtQK\0J\0\0\0\x40\x85K\0\x85\x89}tR."
            "\x80\x02]X\x01\0\0\0"
            "0a.\x01\0\0\0\0\0\0\0\0\0\x80\x3f");
    put_file(in_folder("p"), p.bytes, p.size);
    free(p.bytes);
    CHECK_REFUSED(run, ls_state_read(run, in_folder("p"), .dtype = LS_F64), LS_ERR_IO, "it expands to more than");
}

/* No file needs more memory per byte than a long list of small numbers. */
static void ordinary_files_are_far_from_the_limit(void)
{
    enum { COUNT = 400000 };
    pickle p = {0};
    PUT(&p, "\x80\x02}X\4\0\0\0name](");
    put_times(&p, COUNT, "K\1");
    PUT(&p, "es.");
    put_file(in_folder("p"), p.bytes, p.size);
    free(p.bytes);
    ls_errors errors = {0};
    ls_archive archive;
    CHECK_MSG(ls_archive_open(&archive, &errors, in_folder("p"), false), "%s", errors.message);
    CHECK(archive.count == COUNT);
    CHECK_MSG(archive.taken < ls_budget_of(archive.file_bytes) / 2, "%llu of %llu", (unsigned long long)archive.taken,
              (unsigned long long)ls_budget_of(archive.file_bytes));
    ls_archive_close(&archive);
}

#undef PUT

/* A tensor of a pickle over a storage of 4 floats, in the older form, with these numbers. */
static void views_beyond_their_storage_are_refused(void)
{
    static const struct {
        int offset, dim, stride;
        const char *says;
    } rows[] = {
        {0, 4, 1, NULL},      {1, 3, 1, NULL},      {0, 2, 3, NULL},
        {0, 100, 0, NULL},    {9, 0, 7, NULL},      {1, 4, 1, "tensor tensor extends to byte 20 of a storage of 16"},
        {0, 3, 2, "extends"}, {4, 1, 1, "extends"}, {0, 5, 1, "extends"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char file[512];
        size_t at = 0;
#define PUT(text) (memcpy(file + at, text, sizeof text - 1), at += sizeof text - 1)
        PUT("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\x02M\xe9\x03.");
        PUT("\x80\x02}X\x0d\0\0\0little_endian\x88s.");
        PUT("\x80\x02"
            "ctorch._utils\n_rebuild_tensor_v2\n((X\x07\0\0\0storagectorch\nFloatStorage\n");
        PUT("X\x01\0\0\0"
            "0X\x03\0\0\0cpuK\x04NtQ");
        at += (size_t)snprintf(file + at, 40, "K%c", 'x');
        file[at - 1] = (char)rows[i].offset;
        PUT("K_\x85K_\x85\x89}tR.");
        file[at - 10] = (char)rows[i].dim;
        file[at - 7] = (char)rows[i].stride;
        PUT("\x80\x02]X\x01\0\0\0"
            "0a.\x04\0\0\0\0\0\0\0");
        float numbers[4] = {1, 2, 3, 4};
        memcpy(file + at, numbers, 16);
        at += 16;
#undef PUT
        put_file(in_folder("v"), file, at);
        ls_state *s = ls_state_read(run, in_folder("v"));
        if (rows[i].says) {
            CHECK_MSG(!s && strstr(ls_error_message(run), rows[i].says), "%zu: %s", i, ls_error_message(run));
            ls_clear_error(run);
        } else {
            CHECK_MSG(s && has(s, "tensor", LS_F32, LS_SHAPE(rows[i].dim)), "%zu: %s", i, ls_error_message(run));
            if (rows[i].dim)
                CHECK(number_at(s, "tensor", rows[i].dim - 1) ==
                      1 + rows[i].offset + (rows[i].dim - 1) * rows[i].stride);
        }
        ls_state_free(s);
    }
}

/* ---- the collection of real files ---- */

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* A checksum of every element, its position and the order of names; to recompute it, use torch.load and the same
 * loop. */
static double weighted_sum(const ls_state *state)
{
    int64_t count = ls_state_count(state);
    const char **names = calloc((size_t)count + 1, sizeof *names);
    for (int64_t i = 0; i < count; i++) names[i] = ls_state_name(state, i);
    qsort(names, (size_t)count, sizeof *names, compare_names);
    double sum = 0;
    for (int64_t i = 0; i < count; i++) {
        ls_tensor *t = ls_state_find(state, names[i]);
        int64_t n = ls_numel(t);
        double *all = malloc((size_t)(n + 1) * sizeof *all), one = 0;
        ls_tensor *wide = ls_cast(t, LS_F64);
        CHECK(ls_read(wide, all, (size_t)n * sizeof *all));
        ls_drop(wide);
        for (int64_t j = 0; j < n; j++) one += all[j] * (double)(1 + j % 101);
        sum += (double)(i + 1) * one;
        free(all);
    }
    free(names);
    return sum;
}

static const struct {
    const char *file;
    int64_t count;
    double sum;
} collection[] = {
    {"bumblebee/noncontiguous_numpy_array.legacy.pt", 1, 86},
    {"bumblebee/noncontiguous_numpy_array.zip.pt", 1, 86},
    {"bumblebee/noncontiguous_tensor.legacy.pt", 1, 308},
    {"bumblebee/noncontiguous_tensor.zip.pt", 1, 308},
    {"bumblebee/numpy_arrays.legacy.pt", 14, 206},
    {"bumblebee/numpy_arrays.zip.pt", 14, 206},
    {"bumblebee/ordered_dict.legacy.pt", 2, 5},
    {"bumblebee/ordered_dict.zip.pt", 2, 5},
    {"bumblebee/state_dict_base.zip.pt", 2, 600},
    {"bumblebee/state_dict_full.zip.pt", 5, 609},
    {"bumblebee/storage_view.legacy.pt", 2, 0},
    {"bumblebee/tensors.legacy.pt", 12, 178},
    {"bumblebee/tensors.zip.pt", 12, 178},
    {"candle/fortran_tensor_3d.pth", 1, 4900},
    {"candle/test.npy", 1, 330},
    {"candle/test.npz", 2, 1100},
    {"candle/test.pt", 1, 204},
    {"candle/test_with_key.pt", 1, 204},
    {"swift-transformers/tensor-1d-int32.safetensors", 1, 14},
    {"swift-transformers/tensor-2d-float64.safetensors", 1, 391},
    {"swift-transformers/tensor-3d-float32.safetensors", 1, 464},
    {"swift-transformers/tensor-4d-float32.safetensors", 1, 2583},
    {"generated_bert_ref/model.safetensors", 43, 159036.714893289},
    {"generated_bert_ref/grads_cls.safetensors", 41, -8037.22556752901},
    {"generated_bert_ref/grads_qa.safetensors", 39, 1818.23896998374},
    {"generated_bert_ref/io.safetensors", 13, 10748652.894619},
    {"generated_debian_torch_1.13/optimizer.bin", 16, 143.841743311853},
    {"generated_debian_torch_1.13/optimizer_params.pt", 2, 81.8985400707461},
    {"generated_debian_torch_1.13/scheduler.bin", 6, 11.006},
    {"generated_debian_torch_1.13/resnet20.safetensors", 97, -2625296.82819139},
    {"generated_debian_torch_1.13/resnet20.f16.safetensors", 97, -2625204.91520572},
    {"generated_debian_torch_1.13/resnet20.bf16.safetensors", 97, -2624096.66415723},
    {"generated_debian_torch_1.13/resnet20.legacy.bin", 97, -2625296.82819139},
    {"generated_debian_torch_1.13/resnet20.zip.bin", 97, -2625296.82819139},
    {"generated_debian_torch_1.13/sharded", 97, -2625296.82819139},
    {"generated_debian_torch_1.13/sharded/pytorch_model.bin.index.json", 97, -2625296.82819139},
};

static void reads_every_file_of_the_collection(void)
{
    for (size_t i = 0; i < sizeof collection / sizeof *collection; i++) {
        char name[256];
        snprintf(name, sizeof name, "checkpoints/%s", collection[i].file);
        const char *path = check_data(name);
        if (!path) return;
        ls_state *s = ls_state_read(run, path);
        CHECK_MSG(s && ls_state_count(s) == collection[i].count, "%s: %s", name, ls_error_message(run));
        double sum = weighted_sum(s);
        CHECK_MSG(fabs(sum - collection[i].sum) <= 1e-11 * fabs(collection[i].sum), "%s: %.17g", name, sum);
        ls_state_free(s);
        ls_clear_error(run);
    }
}

/* ---- damage ---- */

/* Read bytes from memory that ends where they end, and access both ends of every tensor. */
static void parse(const char *bytes, size_t size)
{
    static volatile char sink;
    ls_errors errors = {0};
    ls_archive a = {.errors = &errors};
    ls_pages *pages = ls_sys_alloc(sizeof *pages);
    *pages = (ls_pages){.bytes = ls_sys_alloc(size), .size = size};
    memcpy(pages->bytes, bytes, size);
    bool ok = ls_archive_parse(&a, "damaged", pages);
    CHECK(ok == (errors.code == LS_OK));
    for (int64_t i = 0; ok && i < a.count; i++) {
        const ls_archive_entry *e = &a.entries[i];
        int64_t last = 0, step = 1;
        bool empty = false;
        for (int d = e->ndim; d-- > 0; step *= e->dim[d]) {
            empty = empty || e->dim[d] == 0;
            last += (e->dim[d] - 1) * (e->stride ? e->stride[d] : step);
        }
        if (empty) continue;
        size_t element = (size_t)ls_element_bits(e->element) / 8;
        sink = e->data[0];
        sink = e->data[(size_t)last * element + (element ? element - 1 : 0)];
    }
    (void)sink;
    ls_archive_close(&a);
}

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* Zip checksums would catch most damage before it reaches the reader: 0 means there is none. */
static void clear_sums(char *bytes, size_t size)
{
    for (size_t i = 0; i + 46 <= size; i++)
        if (memcmp(bytes + i, "PK\1\2", 4) == 0) memset(bytes + i + 16, 0, 4);
}

static void damage(const char *path)
{
    size_t size;
    ls_message why;
    char *bytes = ls_file_read(path, 1 << 16, &size, &why);
    if (!bytes) return;
    char *copy = malloc(size);
    uint32_t seed = (uint32_t)size;
    clear_sums(bytes, size);
    parse(bytes, size);
    size_t stride = size > 3000 ? 2 : 1;
    for (size_t at = 0; at < size; at += stride) {
        memcpy(copy, bytes, size);
        copy[at] = (char)next_random(&seed);
        parse(copy, size);
    }
    for (int i = 0; i < 500; i++) { /* several bytes at once, bits, and copies of other parts */
        memcpy(copy, bytes, size);
        for (uint32_t n = 1 + next_random(&seed) % 4; n > 0; n--) {
            size_t at = next_random(&seed) % size;
            if (n % 2) copy[at] = (char)(copy[at] ^ 1 << next_random(&seed) % 8);
            else copy[at] = bytes[next_random(&seed) % size];
        }
        parse(copy, size);
    }
    for (size_t cut = 0; cut < size; cut += 1 + size / 300) parse(bytes, cut);
    free(copy);
    ls_sys_free(bytes);
}

static void damaged_files_never_hurt(void)
{
    static const char *const names[] = {"zip.pt",    "legacy.pt",  "protocol4.pt", "types.pt",      "state_dict.pt",
                                        "module.pt", "packed.npz", "fortran.npy",  "big_endian.npy"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) damage(sample(names[i]));
}

static void damaged_files_of_the_collection_never_hurt(void)
{
    for (size_t i = 0; i < sizeof collection / sizeof *collection; i++) {
        char name[256];
        snprintf(name, sizeof name, "checkpoints/%s", collection[i].file);
        const char *path = check_data(name);
        if (!path) return;
        damage(path); /* only small ones */
    }
}

static void checksums_of_zip_files_are_verified(void)
{
    size_t size;
    ls_message why;
    char *bytes = ls_file_read(sample("zip.pt"), 1 << 16, &size, &why);
    char *found = memmem(bytes, size, "parameter", 9);
    CHECK(found);
    *found = 'q';
    put_file(in_folder("s.pt"), bytes, size);
    CHECK_REFUSED(run, ls_state_read(run, in_folder("s.pt")), LS_ERR_IO, "its checksum differs");
    ls_sys_free(bytes);
}

/* Every type, shape and name comes back; torch.load(weights_only=True) reads the same file. */
static void writes_files_for_pytorch(void)
{
    ls_state *list = ls_state_new(run);
    ls_tensor *numbers = ls_arange(run, LS_F32, 24, -3, 0.5);
    char name[32];
    for (int d = LS_BOOL; d < LS_DTYPE_COUNT; d++) {
        snprintf(name, sizeof name, "of.%s", ls_dtype_name((ls_dtype)d));
        ls_state_add(list, name, ls_reshape(ls_cast(numbers, (ls_dtype)d), 2, 3, 4));
    }
    ls_state_add(list, "turned", ls_transpose(ls_reshape(numbers, 4, 6), 0, 1));
    ls_state_add(list, "number", ls_sum(numbers));
    ls_state_add(list, "empty", ls_zeros(run, LS_F32, 0, 3));
    static const char *const files[] = {"w.pt", "w.pth", "w.bin"};
    for (int i = 0; i < 3; i++) {
        CHECK(ls_state_write(list, in_folder(files[i])));
        CHECK_TEXT(ls_contents_read(run, in_folder(files[i]))->format, "torch");
        ls_state *back = ls_state_read(run, in_folder(files[i]));
        CHECK_MSG(ls_state_count(back) == ls_state_count(list), "%s", ls_error_message(run));
        for (int64_t k = 0; k < ls_state_count(back); k++) {
            ls_tensor *want = ls_state_tensor(list, k), *got = ls_state_find(back, ls_state_name(list, k));
            CHECK(got && ls_dtype_of(got) == ls_dtype_of(want));
            CHECK(ls_shape_equal(ls_shape_of(got), ls_shape_of(want)) && ls_item(ls_all(ls_eq(got, want))) == 1);
        }
    }
    ls_state *none = ls_state_new(run);
    CHECK(ls_state_write(none, in_folder("none.pt")));
    CHECK_REFUSED(run, ls_state_write(list, in_folder("no/w.pt")), LS_ERR_IO, "no/w.pt");
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    begin_files();
    run = ls_init(NULL, NULL);
    CHECK_RUN(reads_tensors_numbers_and_containers);
    CHECK_RUN(views_of_one_storage_share_their_memory);
    CHECK_RUN(reads_newer_types_and_state_dicts);
    CHECK_RUN(reads_numpy);
    CHECK_RUN(code_is_refused_by_name);
    CHECK_RUN(shared_containers_do_not_explode);
    CHECK_RUN(expansion_is_limited_by_the_size_of_the_file);
    CHECK_RUN(a_repeated_element_is_not_expanded);
    CHECK_RUN(ordinary_files_are_far_from_the_limit);
    CHECK_RUN(views_beyond_their_storage_are_refused);
    CHECK_RUN(checksums_of_zip_files_are_verified);
    CHECK_RUN(reads_every_file_of_the_collection);
    CHECK_RUN(writes_files_for_pytorch);
    CHECK_RUN(damaged_files_never_hurt);
    CHECK_RUN(damaged_files_of_the_collection_never_hurt);
    CHECK(ls_finish(run) == 0);
    end_files();
    return check_done();
}
