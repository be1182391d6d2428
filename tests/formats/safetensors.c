/* safetensors.c - files of the reference implementation are read and written byte for byte; damaged ones are refused.
 *
 * test_safetensors [--device NAME] [filter]: on devices other than the CPU, everything that does not depend on mapped
 * memory. */
#include "formats/files.h"

#include <fcntl.h>

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "arguments.h"
#include "base/memory.h"

static ls_run *run;

/* What Python's safetensors 0.8 writes for the tensors below. */
static const char reference[] =
    "8\1\0\0\0\0\0\0{\"__metadata__\":{\"format\":\"pt\"},\"a\":{\"dtype\":\"I64\",\"shape\":[1,2],\"data_offsets\":[0,"
    "16]},"
    "\"a2\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[16,20]},\"b\":{\"dtype\":\"F32\",\"shape\":[3],"
    "\"data_offsets\":[20,32]},\"z\":{\"dtype\":\"F16\",\"shape\":[0,2],\"data_offsets\":[32,32]},\"c\":{\"dtype\":"
    "\"BOOL\","
    "\"shape\":[2],\"data_offsets\":[32,34]}} "
    "\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0\0\0 @\0\0\0\0\0\0\x80?\0\0\0@\1\0";

static ls_state *sample(bool other_order)
{
    ls_state *state = ls_state_new(run);
    ls_tensor *b = ls_from(run, LS_F32, LS_SHAPE(3), (float[]){0, 1, 2});
    ls_tensor *a = ls_from(run, LS_I64, LS_SHAPE(1, 2), (int64_t[]){1, 2});
    if (!other_order) ls_state_add(state, "b", b);
    ls_state_add(state, "a", a);
    ls_state_add(state, "z", ls_empty_shape(run, LS_F16, LS_SHAPE(0, 2)));
    ls_state_add(state, "c", ls_from(run, LS_BOOL, LS_SHAPE(2), (uint8_t[]){1, 0}));
    ls_state_add(state, "a2", ls_full_shape(run, LS_F32, 2.5, LS_SCALAR));
    if (other_order) ls_state_add(state, "b", b);
    return state;
}

static void writes_the_bytes_of_the_reference(void)
{
    for (int order = 0; order < 2; order++) {
        CHECK(ls_state_write(sample(order), in_folder("a.safetensors"), .sync = !order));
        size_t size = 0;
        ls_message why;
        char *bytes = ls_file_read(in_folder("a.safetensors"), 10000, &size, &why);
        CHECK(size == sizeof reference - 1 && memcmp(bytes, reference, size) == 0);
        ls_sys_free(bytes);
    }
    CHECK(files_in(test_folder, false) == 1);
}

static void reads_what_it_wrote(void)
{
    put_file(in_folder("a.safetensors"), reference, sizeof reference - 1);
    ls_state *state = ls_state_read(run, in_folder("a.safetensors"));
    CHECK_MSG(state, "%s", ls_error_message(run));
    CHECK(ls_state_count(state) == 5);
    CHECK(number_at(state, "a", 1) == 2 && number_at(state, "b", 2) == 2 && number_at(state, "a2", 0) == 2.5);
    CHECK(number_at(state, "c", 0) == 1 && ls_dtype_of(ls_state_find(state, "c")) == LS_BOOL);
    CHECK(ls_shape_equal(ls_shape_of(ls_state_find(state, "z")), LS_SHAPE(0, 2)));
    CHECK(ls_ndim(ls_state_find(state, "a2")) == 0);
    ls_state_free(state);
}

static void every_type_survives(void)
{
    ls_state *state = ls_state_new(run);
    for (ls_dtype d = LS_BOOL; d < LS_DTYPE_COUNT; d++)
        ls_state_add(state, ls_dtype_name(d), ls_cast(ls_gt(ls_randn(run, LS_F32, 3, 5), ls_zeros(run, LS_F32, 1)), d));
    CHECK(ls_state_write(state, in_folder("types")));
    ls_state *again = ls_state_read(run, in_folder("types"));
    for (ls_dtype d = LS_BOOL; d < LS_DTYPE_COUNT; d++) {
        ls_tensor *a = ls_state_find(state, ls_dtype_name(d)), *b = ls_state_find(again, ls_dtype_name(d));
        CHECK(b && ls_dtype_of(b) == d && ls_item(ls_sum(ls_cast(ls_eq(a, b), LS_F32))) == 15);
    }
    ls_state_free(state);
    ls_state_free(again);
}

static void strided_tensors_are_written_in_order(void)
{
    ls_state *state = ls_state_new(run);
    ls_state_add(state, "t", ls_transpose(ls_reshape(ls_arange(run, LS_F32, 6, 0, 1), 2, 3), 0, 1));
    CHECK(ls_state_write(state, in_folder("t")));
    ls_state *again = ls_state_read(run, in_folder("t"));
    CHECK(number_at(again, "t", 1) == 3 && number_at(again, "t", 2) == 1 && ls_dim(ls_state_find(again, "t"), 0) == 3);
    ls_state_free(state);
    ls_state_free(again);
}

static void tensors_do_not_depend_on_their_file(void)
{
    ls_state *state = ls_state_new(run);
    ls_state_add(state, "w", ls_full(run, LS_F32, 3, 1000000));
    CHECK(ls_state_write(state, in_folder("big"), .sync = false));
    ls_state_free(state);
    size_t before = ls_memory(run).in_use;
    state = ls_state_read(run, in_folder("big"));
    CHECK(ls_memory(run).in_use == before);
    ls_tensor *w = ls_state_find(state, "w");
    ls_assign(w, ls_full(run, LS_F32, 4, 1));
    CHECK_NEAR(ls_item(ls_mean(w)), 4, 0);
    ls_state *fresh = ls_state_read(run, in_folder("big"));
    CHECK_NEAR(ls_item(ls_mean(ls_state_find(fresh, "w"))), 3, 0);
    /* Another program may write to the file, truncate it, replace it. */
    int file = open(in_folder("big"), O_WRONLY);
    static const char noise[4096] = {1, 2, 3};
    for (off_t at = 0; at < 4000000; at += (off_t)sizeof noise) CHECK(pwrite(file, noise, sizeof noise, at) > 0);
    CHECK_NEAR(ls_item(ls_mean(ls_state_find(fresh, "w"))), 3, 0);
    CHECK(ftruncate(file, 100) == 0 && close(file) == 0);
    CHECK_NEAR(ls_item(ls_mean(ls_state_find(fresh, "w"))), 3, 0);
    CHECK(ls_state_write(state, in_folder("big"), .sync = false));
    CHECK_NEAR(ls_item(ls_mean(ls_state_find(fresh, "w"))), 3, 0);
    ls_state_free(fresh);
    fresh = ls_state_read(run, in_folder("big"));
    CHECK_NEAR(ls_item(ls_mean(ls_state_find(fresh, "w"))), 4, 0);
    ls_state_free(fresh);
    ls_state_free(state);
}

/* The contents of a file of any size can be listed: only its header is read. */
static void names_are_read_without_data(void)
{
    static const char header[] =
        "{\"w\":{\"dtype\":\"F32\",\"shape\":[1000000,250000],\"data_offsets\":[0,1000000000000]}}";
    char *path = put_safetensors(header, 0);
    const ls_contents *contents = NULL;
    if (truncate(path, 8 + (off_t)strlen(header) + 1000000000000) != 0) return; /* not on this file system */
    contents = ls_contents_read(run, path);
    CHECK_MSG(contents && contents->count == 1 && contents->tensors[0].bytes == 1000000000000, "%s",
              ls_error_message(run));
    ls_contents_free(contents);
    CHECK(truncate(path, 1000) == 0);
    CHECK_REFUSED(run, ls_contents_read(run, path), LS_ERR_IO, "the file is truncated");
    unlink(path);
}

static void tensors_outlive_their_list(void)
{
    put_file(in_folder("a.safetensors"), reference, sizeof reference - 1);
    ls_state *state = ls_state_read(run, in_folder("a.safetensors"));
    ls_state *other = ls_state_matching(state, "b");
    ls_state_free(state);
    CHECK_NEAR(number_at(other, "b", 2), 2, 0);
    ls_state_free(other);
}

static void unaligned_data_is_copied(void)
{
    /* A header of odd length, as in older writers. */
    char *path = put_safetensors("{\"a\":{\"dtype\":\"F64\",\"shape\":[2],\"data_offsets\":[0,16]}  }", 16);
    size_t before = ls_memory(run).in_use;
    ls_state *state = ls_state_read(run, path);
    CHECK(ls_memory(run).in_use > before && number_at(state, "a", 1) == 0);
    ls_state_free(state);
}

static void tensors_go_to_the_device_that_is_named(void)
{
    put_file(in_folder("a.safetensors"), reference, sizeof reference - 1);
    ls_state *state = ls_state_read(run, in_folder("a.safetensors"), .device = "cpu");
    CHECK_TEXT(ls_device_of(ls_state_find(state, "b")), "cpu");
    CHECK(number_at(state, "b", 2) == 2);
    ls_state_free(state);
    CHECK_REFUSED(run, ls_state_read(run, in_folder("a.safetensors"), .device = "no_such"), LS_ERR_DEVICE, "no_such");
}

static void names_are_chosen_and_changed(void)
{
    put_file(in_folder("a.safetensors"), reference, sizeof reference - 1);
    ls_state *state = ls_state_read(run, in_folder("a.safetensors"), .only = "a*|z", .strip = "a", .prefix = "net.");
    CHECK(ls_state_count(state) == 3);
    CHECK(ls_state_find(state, "net.") && ls_state_find(state, "net.2") && ls_state_find(state, "net.z"));
    ls_state_free(state);
    state = ls_state_read(run, in_folder("a.safetensors"), .dtype = LS_BF16);
    CHECK(ls_dtype_of(ls_state_find(state, "b")) == LS_BF16 && ls_dtype_of(ls_state_find(state, "a")) == LS_I64);
    CHECK(number_at(state, "b", 2) == 2);
    ls_state_free(state);
    CHECK_REFUSED(run, ls_state_read(run, in_folder("a.safetensors"), .dtype = LS_I8), LS_ERR_DTYPE, "not a floating");
    CHECK_REFUSED(run, ls_state_read(run, NULL), LS_ERR_VALUE, "the path is NULL");
    put_safetensors(
        "{\"m.a\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]},\"a\":{\"dtype\":\"U8\",\"shape\":[],"
        "\"data_offsets\":[1,2]}}",
        2);
    CHECK_REFUSED(run, ls_state_read(run, in_folder("made.safetensors"), .strip = "m."), LS_ERR_VALUE, "named a");
}

static void metadata_travels(void)
{
    CHECK(
        ls_state_write(sample(false), in_folder("m"), .metadata = (ls_metadata[]){{"epoch", "3"}, {"q", "\"\n"}, {0}}));
    const ls_contents *c = ls_contents_read(run, in_folder("m"));
    CHECK(c && c->count == 5 && c->metadata_count == 3 && c->file_count == 1);
    CHECK_TEXT(c->format, "safetensors");
    CHECK_TEXT(c->metadata[0].value, "pt");
    CHECK_TEXT(c->metadata[1].key, "epoch");
    CHECK_TEXT(c->metadata[2].value, "\"\n");
    CHECK_TEXT(c->tensors[0].name, "a");
    CHECK_TEXT(c->tensors[0].type, "I64");
    CHECK(c->tensors[0].ndim == 2 && c->tensors[0].dim[1] == 2 && c->tensors[0].bytes == 16);
    ls_contents_free(c);
    ls_contents_free(NULL);
}

/* Data of one tensor of `count` elements. */
static ls_state *read_typed(const char *type, const void *data, size_t bytes, int count)
{
    char header[200];
    snprintf(header, sizeof header, "{\"x\":{\"dtype\":\"%s\",\"shape\":[%d],\"data_offsets\":[0,%zu]}}", type, count,
             bytes);
    size_t length = strlen(header);
    char file[600] = {(char)length};
    memcpy(file + 8, header, length);
    memcpy(file + 8 + length, data, bytes);
    put_file(in_folder("typed"), file, 8 + length + bytes);
    return ls_state_read(run, in_folder("typed"));
}

static void foreign_types_become_larger_ones(void)
{
    ls_state *s = read_typed("I16", (int16_t[]){-5, INT16_MIN}, 4, 2);
    CHECK(ls_dtype_of(ls_state_find(s, "x")) == LS_I32 && number_at(s, "x", 0) == -5 &&
          number_at(s, "x", 1) == INT16_MIN);
    s = read_typed("U16", (uint16_t[]){65535}, 2, 1);
    CHECK(ls_dtype_of(ls_state_find(s, "x")) == LS_I32 && number_at(s, "x", 0) == 65535);
    s = read_typed("U32", (uint32_t[]){UINT32_MAX}, 4, 1);
    CHECK(ls_dtype_of(ls_state_find(s, "x")) == LS_I64 && number_at(s, "x", 0) == UINT32_MAX);
    s = read_typed("U64", (uint64_t[]){1ull << 52}, 8, 1);
    CHECK(ls_dtype_of(ls_state_find(s, "x")) == LS_I64 && number_at(s, "x", 0) == 0x1p52);
    CHECK_REFUSED(run, read_typed("U64", (uint64_t[]){1ull << 63}, 8, 1), LS_ERR_UNSUPPORTED,
                  "tensor x: a U64 is too large");
    s = read_typed("C64", (float[]){1, -2, 3, 4}, 16, 2);
    CHECK(ls_shape_equal(ls_shape_of(ls_state_find(s, "x")), LS_SHAPE(2, 2)) && number_at(s, "x", 1) == -2);
    s = read_typed("BOOL", (uint8_t[]){0, 1, 2, 255}, 4, 4);
    CHECK(number_at(s, "x", 1) == 1 && number_at(s, "x", 2) == 1 && number_at(s, "x", 3) == 1);
    CHECK_REFUSED(run, read_typed("F4", "\x12", 1, 2), LS_ERR_UNSUPPORTED, "tensor x has type F4");
    CHECK_REFUSED(run, read_typed("F16X", "\x12", 1, 1), LS_ERR_UNSUPPORTED, "tensor x has unknown type F16X");
}

/* Results of torch's conversion of some bytes. */
static void floats_of_eight_bits_are_exact(void)
{
    static const uint8_t bytes[] = {0x00, 0x80, 0x01, 0x87, 0x08, 0x38, 0x7e, 0x7f, 0xc5, 0x7c, 0xff};
    static const struct {
        const char *type;
        double value[sizeof bytes];
    } rows[] = {
        {"F8_E4M3", {0, -0.0, 0.001953125, -0.013671875, 0.015625, 1, 448, NAN, -3.25, 384, NAN}},
        {"F8_E5M2", {0, -0.0, 0x1p-16, -0.0001068115234375, 0.0001220703125, 0.5, NAN, NAN, -5, INFINITY, NAN}},
        {"F8_E4M3FNUZ", {0, NAN, 0.0009765625, -0.0068359375, 0.0078125, 0.5, 224, 240, -1.625, 192, -240}},
        {"F8_E5M2FNUZ",
         {0, NAN, 0x1p-17, -5.340576171875e-05, 6.103515625e-05, 0.25, 49152, 57344, -2.5, 32768, -57344}},
        {"F8_E8M0", {0x1p-127, 2, 0x1p-126, 256, 0x1p-119, 0x1p-71, 0.5, 1, 0x1p70, 0.125, NAN}},
    };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        ls_state *s = read_typed(rows[r].type, bytes, sizeof bytes, sizeof bytes);
        for (size_t i = 0; i < sizeof bytes; i++) {
            double got = number_at(s, "x", (int64_t)i), want = rows[r].value[i];
            CHECK_MSG(isnan(want) ? isnan(got) : got == want && signbit(got) == signbit(want), "%s 0x%02x: %g, not %g",
                      rows[r].type, bytes[i], got, want);
        }
        ls_state_free(s);
    }
}

static void attacks_are_refused(void)
{
#define T(name, dtype, shape, from, to)                                                                                \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" from "," to "]}"
    static const struct {
        const char *header;
        size_t data;
        const char *says;
    } bad[] = {
        {"[]", 0, "made.safetensors"},
        {" {}", 0, "made.safetensors"},
        {"{", 0, "start with {"},
        {"{]", 0, "the header is damaged: line 1, column 2"},
        {"{\"a\xff\":1}", 0, "invalid UTF-8"},
        {"{\"a\":1}", 0, "tensor a has no description"},
        {"{" T("a", "F32", "[1]", "0", "4") "," T("a", "F32", "[1]", "4", "8") "}", 8, "duplicate key \"a\""},
        {"{" T("a", "F32", "[2]", "0", "8") "," T("b", "F32", "[2]", "4", "12") "}", 12,
         "tensor b begins at byte 4, inside"},
        {"{" T("a", "F32", "[2]", "0", "8") "," T("b", "F32", "[2]", "0", "8") "}", 8, "inside the one before"},
        {"{" T("a", "F32", "[1]", "0", "4") "," T("b", "F32", "[1]", "8", "12") "}", 12,
         "tensor b begins at byte 8, after a hole"},
        {"{" T("a", "F32", "[1]", "4", "8") "}", 8, "after a hole that starts at 0"},
        {"{" T("a", "F32", "[2]", "0", "8") "}", 4, "tensor a ends at byte 8 of 4: the file is truncated"},
        {"{" T("a", "F32", "[2]", "8", "0") "}", 8, "but offsets 8 and 0"},
        {"{" T("a", "F32", "[2]", "0", "4") "}", 4, "tensor a has 8 bytes, but offsets 0 and 4"},
        {"{" T("a", "F32", "[1]", "0", "4") "}", 7, "3 bytes after the last tensor belong to none"},
        {"{}", 5, "5 bytes after"},
        {"{" T("a", "F32", "[4294967296,4294967296,2]", "0", "0") "}", 0, "the size of its shape and type overflows"},
        {"{" T("a", "F64", "[2305843009213693952]", "0", "0") "}", 0, "the size of its shape and type overflows"},
        {"{" T("a", "F32", "[-1]", "0", "4") "}", 4, "an invalid size"},
        {"{" T("a", "F32", "[1.5]", "0", "4") "}", 4, "an invalid size"},
        {"{" T("a", "F32", "[99999999999999999999]", "0", "4") "}", 4, "an invalid size"},
        {"{" T("a", "F32", "7", "0", "4") "}", 4, "tensor a has no shape"},
        {"{" T("a", "F32", "[1]", "0", "-4") "}", 4, "no valid data_offsets"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,8]}}", 4, "no valid data_offsets"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "no valid data_offsets"},
        {"{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "tensor a has no dtype"},
        {"{" T("a", "F4", "[3]", "0", "1") "}", 1, "the size of its shape and type overflows"},
        {"{\"__metadata__\":{\"a\":1}}", 0, "__metadata__: a is not a string"},
        {"{\"__metadata__\":[]}", 0, "__metadata__ is not an object"},
    };
#undef T
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char *path = put_safetensors(bad[i].header, bad[i].data);
        CHECK_REFUSED(run, ls_state_read(run, path), LS_ERR_IO, bad[i].says);
        CHECK_REFUSED(run, ls_contents_read(run, path), LS_ERR_IO, bad[i].says);
    }
    /* Wrong lengths. */
    put_file(in_folder("x"), "\xff\xff\xff\xff\0\0\0\0{}", 10);
    CHECK_REFUSED(run, ls_state_read(run, in_folder("x")), LS_ERR_IO, "4294967295 bytes is too large");
    put_file(in_folder("x"), "\x03\0\0\0\0\0\0\0{}", 10);
    CHECK_REFUSED(run, ls_state_read(run, in_folder("x")), LS_ERR_IO, "a header of 3 bytes in a file of 10");
    put_file(in_folder("x"), "\x03\0\0\0", 4);
    CHECK_REFUSED(run, ls_state_read(run, in_folder("x")), LS_ERR_IO, "not a file of tensors");
    put_file(in_folder("x"), "", 0);
    CHECK_REFUSED(run, ls_state_read(run, in_folder("x")), LS_ERR_IO, "the file is empty");
    CHECK_REFUSED(run, ls_state_read(run, in_folder("none")), LS_ERR_IO, "none: No such file");
}

static void too_many_dimensions_are_refused_only_when_wanted(void)
{
    char *path = put_safetensors("{\"a\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,1]},"
                                 "\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
                                 2);
    CHECK_REFUSED(run, ls_state_read(run, path), LS_ERR_UNSUPPORTED, "tensor a has 9 dimensions");
    ls_state *state = ls_state_read(run, path, .only = "b");
    CHECK(ls_state_count(state) == 1);
    ls_state_free(state);
}

/* Every truncation is detected, and no damaged byte does harm. */
static void damage_never_hurts(void)
{
    size_t size = sizeof reference - 1;
    for (size_t cut = 0; cut < size; cut++) {
        put_file(in_folder("cut"), reference, cut);
        CHECK(!ls_state_read(run, in_folder("cut")));
        ls_clear_error(run);
    }
    char copy[sizeof reference];
    for (size_t at = 0; at < size; at += 1) {
        for (int flip = 0; flip < 3; flip++) {
            memcpy(copy, reference, size);
            copy[at] = flip == 0 ? (char)0xff : flip == 1 ? '0' : (char)(copy[at] ^ 1);
            put_file(in_folder("hurt"), copy, size);
            ls_state_free(ls_state_read(run, in_folder("hurt")));
            ls_clear_error(run);
        }
    }
}

static void a_failed_write_leaves_no_file(void)
{
    files_in(test_folder, true);
    ls_state *state = ls_state_new(run);
    ls_state_add(state, "w", ls_zeros(run, LS_F32, 100000));
    put_file(in_folder("w"), reference, sizeof reference - 1);
    struct rlimit before, small;
    getrlimit(RLIMIT_FSIZE, &before);
    small = before;
    small.rlim_cur = 65536;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small);
    bool written = ls_state_write(state, in_folder("w"));
    setrlimit(RLIMIT_FSIZE, &before);
    CHECK_REFUSED(run, written, LS_ERR_IO, "w: File too large");
    CHECK(files_in(test_folder, false) == 1);
    ls_state *old = ls_state_read(run, in_folder("w"));
    CHECK(ls_state_count(old) == 5);
    CHECK_REFUSED(run, ls_state_write(state, in_folder("no/w")), LS_ERR_IO, "no/w: No such file or directory");
    CHECK_REFUSED(run, ls_state_write(state, NULL), LS_ERR_VALUE, "the path is NULL");
    CHECK(!ls_state_write(NULL, "x"));
    ls_state *bad = ls_state_new(run);
    ls_state_add(bad, "__metadata__", ls_zeros(run, LS_F32, 1));
    CHECK_REFUSED(run, ls_state_write(bad, in_folder("w")), LS_ERR_IO, "__metadata__ is not allowed as the name");
    ls_state_free(old);
    ls_state_free(bad);
    ls_state_free(state);
}

static void out_of_memory_is_an_error_without_leaks(void)
{
    put_file(in_folder("a.safetensors"), reference, sizeof reference - 1);
    char *path = in_folder("a.safetensors");
    bool done = false;
    for (uint64_t n = 1; n < 200 && !done; n++) {
        ls_sys_fail_at(n);
        ls_state *state = ls_state_read(run, path);
        ls_sys_fail_at(0);
        CHECK(state ? ls_error(run) == LS_OK : ls_error(run) != LS_OK);
        done = state != NULL;
        ls_state_free(state);
        ls_clear_error(run);
    }
    CHECK(done);
    ls_state *state = sample(false);
    for (uint64_t n = 1, ok = 0; n < 200 && !ok; n++) {
        ls_sys_fail_at(n);
        ok = ls_state_write(state, in_folder("out"), .sync = false);
        ls_sys_fail_at(0);
        CHECK(ok || (ls_error(run) != LS_OK && ls_path_kind_of(in_folder("out.part")) == LS_PATH_NONE));
        ls_clear_error(run);
    }
    ls_state_free(state);
}

int main(int argc, char **argv)
{
    const char *device = check_arguments(argc, argv);
    begin_files();
    run = ls_init(NULL, NULL, .device = device);
    CHECK_RUN(writes_the_bytes_of_the_reference);
    CHECK_RUN(reads_what_it_wrote);
    CHECK_RUN(every_type_survives);
    CHECK_RUN(strided_tensors_are_written_in_order);
    CHECK_RUN(tensors_outlive_their_list);
    CHECK_RUN(unaligned_data_is_copied);
    CHECK_RUN(tensors_go_to_the_device_that_is_named);
    CHECK_RUN(names_are_chosen_and_changed);
    CHECK_RUN(foreign_types_become_larger_ones);
    CHECK_RUN(floats_of_eight_bits_are_exact);
    if (!device) {
        CHECK_RUN(tensors_do_not_depend_on_their_file);
        CHECK_RUN(names_are_read_without_data);
        CHECK_RUN(metadata_travels);
        CHECK_RUN(attacks_are_refused);
        CHECK_RUN(too_many_dimensions_are_refused_only_when_wanted);
        CHECK_RUN(damage_never_hurts);
        CHECK_RUN(a_failed_write_leaves_no_file);
        CHECK_RUN(out_of_memory_is_an_error_without_leaks);
    }
    CHECK(ls_finish(run) == 0);
    end_files();
    return check_done();
}
