/* image.c - pictures against Pillow and torchvision: every kind of file, every transform, every photo at hand. */
#include <lockstep.h>

#include <dirent.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/rng.h"
#include "check.h"
#include "data/image/baseline.h"
#include "data/image/image.h"
#include "data/image/rows.h"
#include "golden/read.h"

static golden values;

/* ---- Helpers ---- */

typedef struct bytes {
    uint8_t *data;
    size_t size;
} bytes;

/* Exactly as many bytes as the file has, so that reading beyond them is noticed. */
static bytes read_all(const char *format, ...)
{
    char path[512];
    va_list args;
    va_start(args, format);
    vsnprintf(path, sizeof path, format, args);
    va_end(args);
    FILE *file = fopen(path, "rb");
    if (!file) return (bytes){0};
    fseek(file, 0, SEEK_END);
    bytes b = {.size = (size_t)ftell(file)};
    rewind(file);
    b.data = malloc(b.size ? b.size : 1);
    if (!b.data || fread(b.data, 1, b.size, file) != b.size) exit(1);
    fclose(file);
    return b;
}

/* What came out: bytes of height x width x 3. */
typedef struct result {
    ls_status status;
    ls_message why;
    uint8_t *pixels;
    int64_t width, height;
} result;

static void *room(void *user, int64_t height, int64_t width, ls_message *why)
{
    (void)why;
    result *r = user;
    r->width = width;
    r->height = height;
    r->pixels = malloc((size_t)(width * height) * 3);
    return r->pixels;
}

static result transformed(bytes b, ls_transform t, uint64_t sample)
{
    result r = {.why = {{0}}};
    const uint64_t random[2] = {77, sample};
    t = ls_compose(t, ls_to_tensor(.dtype = LS_U8));
    r.status = ls_image_decode_transform(b.data, b.size, &t, random, (ls_image_out){.room = room, .user = &r}, &r.why);
    return r;
}

static void check_pixels(const result *r, const char *name, const golden_entry *want)
{
    if (r->status != LS_OK) {
        check_fail(__FILE__, __LINE__, "%s: %s", name, r->why.text);
        return;
    }
    if (r->height != want->shape.dim[0] || r->width != want->shape.dim[1]) {
        check_fail(__FILE__, __LINE__, "%s: %d x %d", name, (int)r->width, (int)r->height);
        return;
    }
    int worst = 0;
    for (int64_t i = 0; i < r->width * r->height * 3; i++) {
        int error = abs(r->pixels[i] - ((const uint8_t *)want->data)[i]);
        if (error > worst) worst = error;
    }
    CHECK_MSG(worst <= 1, "%s: differs by %d levels", name, worst);
}

/* ---- Small pictures of every kind ---- */

static void every_kind_of_file_is_read(void)
{
    int seen = 0;
    for (int i = 0; i < values.count; i++) {
        const golden_entry *want = &values.entries[i];
        if (strncmp(want->name, "small/", 6) != 0) continue;
        const char *name = want->name + 6;
        bytes b = read_all("%s/images/%s", GOLDEN_DIR, name);
        result r = transformed(b, ls_decode(.upright = true), 0);
        check_pixels(&r, name, want);
        free(r.pixels);
        free(b.data);
        seen++;
    }
    CHECK(seen > 30);
}

/* The decoders, each by itself. */
typedef bool decode_fn(bytes b, ls_box box, ls_picture *to);

static bool by_libjpeg(bytes b, ls_box box, ls_picture *to)
{
    return ls_jpeg_decode(b.data, b.size, box, 8, to, NULL) == LS_OK;
}

static bool by_libpng(bytes b, ls_box box, ls_picture *to)
{
    return ls_png_decode(b.data, b.size, box, to, NULL) == LS_OK;
}

static bool by_ourselves(bytes b, ls_box box, ls_picture *to)
{
    return ls_baseline_decode(b.data, b.size, box, 8, to);
}

static const struct {
    const char *name;
    decode_fn *decoder[2];
} decoded[] = {
    {"444.jpg", {by_ourselves, by_libjpeg}},
    {"422.jpg", {by_ourselves, by_libjpeg}},
    {"420.jpg", {by_ourselves, by_libjpeg}},
    {"gray.jpg", {by_ourselves, by_libjpeg}},
    {"optimized.jpg", {by_ourselves, by_libjpeg}},
    {"restart.jpg", {by_ourselves, by_libjpeg}},
    {"turn3.jpg", {by_ourselves, by_libjpeg}},
    {"progressive.jpg", {by_libjpeg, NULL}},
    {"cmyk.jpg", {by_libjpeg, NULL}},
    {"rgb.jpg", {by_libjpeg, NULL}},
    {"rgb8.png", {by_libpng, NULL}},
    {"interlaced.png", {by_libpng, NULL}},
};

static bool part_is_equal(bytes b, decode_fn *decoder, const result *whole, ls_box box)
{
    ls_picture part = ls_picture_in(LS_SLOT_PICTURE, box.width, box.height);
    bool same = decoder(b, box, &part);
    for (int64_t row = 0; same && row < box.height; row++)
        same = memcmp(part.pixels + row * (int64_t)part.stride,
                      whole->pixels + ((box.y + row) * whole->width + box.x) * 3, (size_t)box.width * 3) == 0;
    return same;
}

/* A part that is decoded alone has the pixels of the whole, whoever decodes it. */
static void parts_equal_the_whole(void)
{
    for (size_t i = 0; i < sizeof decoded / sizeof *decoded; i++) {
        bytes b = read_all("%s/images/%s", GOLDEN_DIR, decoded[i].name);
        result whole = transformed(b, (ls_transform){0}, 0);
        for (int64_t y = 0; y < whole.height; y += 3)
            for (int64_t x = 0; x < whole.width; x += 3)
                for (int64_t size = 1; size < 46; size += 4)
                    for (int k = 0; k < 2 && decoded[i].decoder[k]; k++) {
                        ls_box box = {x, y, size, size % 7 * 5 + 1};
                        if (x + box.width > whole.width || y + box.height > whole.height) continue;
                        CHECK_MSG(part_is_equal(b, decoded[i].decoder[k], &whole, box),
                                  "%s: decoder %d: %d x %d at %d, %d", decoded[i].name, k, (int)box.width,
                                  (int)box.height, (int)x, (int)y);
                    }
        free(whole.pixels);
        free(b.data);
    }
}

/* What is not of our kind is left to libjpeg, and so is every file that is not sound. */
static void other_kinds_are_left_to_libjpeg(void)
{
    static const char *const names[] = {"progressive.jpg", "cmyk.jpg", "rgb.jpg", "rgb8.png"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        bytes b = read_all("%s/images/%s", GOLDEN_DIR, names[i]);
        ls_picture to = ls_picture_in(LS_SLOT_PICTURE, 8, 8);
        CHECK(!ls_baseline_decode(b.data, b.size, (ls_box){0, 0, 8, 8}, 8, &to));
        free(b.data);
    }
    bytes b = read_all("%s/images/420.jpg", GOLDEN_DIR);
    for (size_t cut = 0; cut + 2 < b.size; cut += 11) {
        ls_picture to = ls_picture_in(LS_SLOT_PICTURE, 45, 35);
        CHECK_MSG(!ls_baseline_decode(b.data, cut, (ls_box){0, 0, 45, 35}, 8, &to), "taken after %zu bytes", cut);
    }
    free(b.data);
}

/* Fewer samples by the decoder: near to what the exact way gives, for every kind, also turned and in part. */
static void fast_decoding_comes_near(void)
{
    static const char *const names[] = {"444.jpg",  "422.jpg", "420.jpg",   "gray.jpg", "progressive.jpg",
                                        "cmyk.jpg", "rgb.jpg", "turn5.jpg", "turn6.jpg"};
    const ls_transform transforms[] = {ls_resize(8),
                                       ls_resize(4),
                                       ls_resize(3),
                                       ls_resize(9, .width = 5),
                                       ls_random_resized_crop(5, .min_scale = 0.9),
                                       ls_compose(ls_resize_shorter(9), ls_center_crop(6), ls_random_flip())};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        bytes b = read_all("%s/images/%s", GOLDEN_DIR, names[i]);
        for (size_t k = 0; k < sizeof transforms / sizeof *transforms; k++) {
            result exact = transformed(b, ls_compose(transforms[k], ls_decode(.upright = true)), k);
            result fast = transformed(b, ls_compose(transforms[k], ls_decode(.upright = true, .fast = true)), k);
            double total = 0, n = (double)(exact.width * exact.height * 3);
            bool same_size = fast.status == LS_OK && exact.width == fast.width && exact.height == fast.height;
            CHECK_MSG(same_size, "%s, transform %zu: %s", names[i], k, fast.why.text);
            for (int64_t p = 0; same_size && p < exact.width * exact.height * 3; p++)
                total += abs(exact.pixels[p] - fast.pixels[p]);
            CHECK_MSG(total / n < 14, "%s, transform %zu: %g levels apart", names[i], k, total / n);
            free(exact.pixels);
            free(fast.pixels);
        }
        free(b.data);
    }
}

/* Camera's notes are followed only where they are asked for. */
static void pictures_stay_as_stored_by_default(void)
{
    bytes b = read_all("%s/images/turn6.jpg", GOLDEN_DIR);
    result stored = transformed(b, (ls_transform){0}, 0), upright = transformed(b, ls_decode(.upright = true), 0);
    CHECK(stored.width == 23 && stored.height == 19 && upright.width == 19 && upright.height == 23);
    /* A part of the upright picture is that part of what the whole becomes. */
    result part = transformed(b, ls_compose(ls_decode(.upright = true), ls_center_crop(9, .width = 7)), 0);
    for (int64_t y = 0; y < 9 && part.status == LS_OK; y++)
        CHECK(memcmp(part.pixels + y * 7 * 3, upright.pixels + ((y + 7) * 19 + 6) * 3, 7 * 3) == 0);
    free(part.pixels);
    free(stored.pixels);
    free(upright.pixels);
    free(b.data);
}

/* ---- Photos ---- */

static ls_transform table_of_transforms(int i)
{
    switch (i) {
    case 1: return ls_resize(224);
    case 2: return ls_random_resized_crop(224);
    case 3: return ls_compose(ls_resize_shorter(256), ls_center_crop(224));
    case 4:
        return ls_compose(ls_random_resized_crop(160, .min_scale = 0.3, .filter = LS_FILTER_BICUBIC), ls_random_flip());
    case 5: return ls_center_crop(450, .width = 37);
    case 6: return ls_resize(97, .width = 131, .filter = LS_FILTER_LANCZOS);
    case 7: return ls_resize(300, .width = 301, .filter = LS_FILTER_HAMMING);
    case 8: return ls_resize(64, .filter = LS_FILTER_BOX);
    case 9: return ls_resize(97, .width = 131, .filter = LS_FILTER_NEAREST);
    case 10:
        return ls_compose(ls_resize(128),
                          ls_color_jitter(.brightness = 0.4, .contrast = 0.4, .saturation = 0.4, .hue = 0.1));
    case 11: return ls_compose(ls_resize(128, .width = 100), ls_random_rotation(30, .fill = {10, 200, 30}));
    case 12:
        return ls_compose(ls_random_rotation(180, .filter = LS_FILTER_BILINEAR), ls_center_crop(100),
                          ls_random_flip(.vertical = true));
    case 13: return ls_compose(ls_resize_shorter(150, .filter = LS_FILTER_BICUBIC), ls_grayscale());
    default: return (ls_transform){0};
    }
}

static void check_photo(const char *name, bytes b, int number, const golden_entry *sums, const golden_entry *samples)
{
    int transforms = (int)sums->shape.dim[1];
    int64_t count = samples->shape.dim[2];
    for (int i = 0; i < transforms; i++) {
        const int64_t *sum = (const int64_t *)sums->data + (number * transforms + i) * 3;
        const uint8_t *sample = (const uint8_t *)samples->data + (number * transforms + i) * count * 3;
        result r = transformed(b, table_of_transforms(i), (uint64_t)number);
        CHECK_MSG(r.status == LS_OK, "%s: transform %d: %s", name, i, r.why.text);
        int64_t n = r.width * r.height;
        for (int c = 0; c < 3 && r.status == LS_OK; c++) {
            int64_t total = 0;
            for (int64_t p = 0; p < n; p++) total += r.pixels[3 * p + c];
            CHECK_MSG(llabs(total - sum[c]) <= n / 50, "%s: transform %d: mean of channel %d is off by %g", name, i, c,
                      (double)(total - sum[c]) / (double)n);
            for (int64_t k = 0; k < count; k++) {
                int got = r.pixels[(2 * k + 1) * n / (2 * count) * 3 + c];
                CHECK_MSG(abs(got - sample[3 * k + c]) <= 1, "%s: transform %d: sample %d: %d, not %d", name, i, (int)k,
                          got, sample[3 * k + c]);
            }
        }
        free(r.pixels);
    }
}

/* On photos it is nearer than anyone sees. */
static void check_fast(const char *name, bytes b)
{
    result exact = transformed(b, ls_resize(64), 0),
           fast = transformed(b, ls_compose(ls_resize(64), ls_decode(.fast = true)), 0);
    double total = 0;
    CHECK_MSG(exact.status == LS_OK && fast.status == LS_OK, "%s: %s", name, fast.why.text);
    for (int i = 0; i < 64 * 64 * 3 && fast.pixels && exact.pixels; i++) total += abs(exact.pixels[i] - fast.pixels[i]);
    CHECK_MSG(total / (64 * 64 * 3) < 3.5, "%s: %g levels apart", name, total / (64 * 64 * 3));
    free(exact.pixels);
    free(fast.pixels);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_jpg(const struct dirent *entry)
{
    return strstr(entry->d_name, ".jpg") != NULL;
}

static void photos_equal_torchvision(void)
{
    const char *folder = check_data("pets_orig/images");
    if (!folder) return;
    const golden_entry *sums = golden_find(&values, "photos/sums"), *samples = golden_find(&values, "photos/samples");
    struct dirent **names;
    int count = scandir(folder, &names, is_jpg, by_name);
    CHECK(sums && samples && count == sums->shape.dim[0]);
    for (int i = 0; i < count; i++) {
        bytes b = read_all("%s/%s", folder, names[i]->d_name);
        if (sums && samples && i < sums->shape.dim[0]) check_photo(names[i]->d_name, b, i, sums, samples);
        check_fast(names[i]->d_name, b);
        free(b.data);
        free(names[i]);
    }
    free(names);
}

/* Each gives a picture, or says what it is. */
static void odd_files_are_pictures_or_named(void)
{
    const char *folder = check_data("pets_orig/odd");
    if (!folder) return;
    struct dirent **names;
    int count = scandir(folder, &names, is_jpg, by_name);
    CHECK(count > 0);
    for (int i = 0; i < count; i++) {
        bytes b = read_all("%s/%s", folder, names[i]->d_name);
        result r = transformed(b, ls_resize(64), 0);
        if (b.size > 4 && memcmp(b.data, "GIF8", 4) == 0)
            CHECK_TEXT(r.why.text, "is a GIF; only JPEG and PNG images are supported");
        else if (strstr(names[i]->d_name, "beagle_116")) CHECK_MSG(strstr(r.why.text, "ends early"), "%s", r.why.text);
        else CHECK_MSG(r.status == LS_OK, "%s: %s", names[i]->d_name, r.why.text);
        free(r.pixels);
        free(b.data);
        free(names[i]);
    }
    free(names);
}

/* ---- Files that are no pictures, or damaged ones ---- */

static const char *refusal_of(const void *data, size_t size, ls_transform t)
{
    static result r;
    r = transformed((bytes){(uint8_t *)(uintptr_t)data, size}, t, 0);
    free(r.pixels);
    return r.status == LS_OK ? "" : r.why.text;
}

static void others_are_named(void)
{
    ls_transform t = {0};
    CHECK_TEXT(refusal_of("", 0, t), "is empty");
    CHECK_TEXT(refusal_of("GIF89a..", 8, t), "is a GIF; only JPEG and PNG images are supported");
    CHECK_TEXT(refusal_of("RIFF1234WEBP", 12, t), "is a WebP image; only JPEG and PNG images are supported");
    CHECK_TEXT(refusal_of("<!DOCTYPE html>", 15, t), "is an HTML page; only JPEG and PNG images are supported");
    CHECK_TEXT(refusal_of("\1\2\3", 3, t), "is neither a JPEG nor a PNG image: its first bytes are 01 02 03");
    CHECK_TEXT(refusal_of("\xff\xd8\xff", 3, t), "JPEG ends early: it contains no image");
    CHECK_TEXT(refusal_of("\x89PNG\r\n\x1a\n", 8, t), "PNG ends early: it contains no image");
}

static void large_pictures_are_refused(void)
{
    bytes b = read_all("%s/images/444.jpg", GOLDEN_DIR);
    CHECK_TEXT(refusal_of(b.data, b.size, ls_decode(.max_pixels = 1574)),
               "contains an image of 45 x 35 pixels, more than the limit of 1574 (ls_decode(.max_pixels))");
    CHECK_TEXT(refusal_of(b.data, b.size, ls_decode(.max_pixels = 1575)), "");
    /* A head that promises 65535 x 65535 pixels. */
    for (size_t i = 0; i + 9 < b.size; i++)
        if (b.data[i] == 0xff && b.data[i + 1] == 0xc0) memset(b.data + i + 5, 0xff, 4);
    CHECK_TEXT(refusal_of(b.data, b.size, (ls_transform){0}),
               "contains an image of 65535 x 65535 pixels, more than the limit of 178956970 (ls_decode(.max_pixels))");
    /* One of 13000 x 13000 in a file that is far too small for that. */
    for (size_t i = 0; i + 9 < b.size; i++)
        if (b.data[i] == 0xff && b.data[i + 1] == 0xc0) memcpy(b.data + i + 5, "\x32\xc8\x32\xc8", 4);
    const char *refusal = refusal_of(b.data, b.size, (ls_transform){0});
    CHECK_MSG(strstr(refusal, "more than allowed for this file size; ls_decode(.max_pixels = 169000000) allows it"),
              "%s", refusal);
    free(b.data);
}

/* Whatever is cut off or changed: a picture or a reason, and no memory that is not ours. */
static void damage_is_survived(void)
{
    static const char *const names[] = {"444.jpg",  "420.jpg",  "gray.jpg",       "progressive.jpg", "restart.jpg",
                                        "cmyk.jpg", "rgb8.png", "interlaced.png", "turn5.jpg"};
    ls_transform t = ls_compose(ls_decode(.upright = true), ls_random_resized_crop(16));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        bytes b = read_all("%s/images/%s", GOLDEN_DIR, names[i]);
        for (size_t cut = 0; cut < b.size; cut += cut < 64 ? 1 : 37) {
            uint8_t *part = malloc(cut ? cut : 1); /* so that a sanitizer knows its end */
            if (!part) exit(1);
            memcpy(part, b.data, cut);
            const char *why = refusal_of(part, cut, t);
            bool says = cut == 0 || strstr(why, "ends early") || strstr(why, "neither a JPEG");
            CHECK_MSG(says, "%s cut to %zu bytes: %s", names[i], cut, *why ? why : "taken for a picture");
            free(part);
        }
        uint8_t *copy = malloc(b.size);
        if (!copy) exit(1);
        for (uint64_t n = 0; n < 600; n++) {
            memcpy(copy, b.data, b.size);
            ls_philox4 word = ls_philox(n, i);
            for (int k = 0; k < 1 + (int)(n % 3); k++) copy[word.lane[k] % b.size] = (uint8_t)(word.lane[3] >> 8 * k);
            refusal_of(copy, b.size, t);
        }
        free(copy);
        free(b.data);
    }
}

/* ---- The loader's view ---- */

static void results_do_not_depend_on_what_went_before(void)
{
    bytes a = read_all("%s/images/420.jpg", GOLDEN_DIR), b = read_all("%s/images/444.jpg", GOLDEN_DIR);
    ls_transform t = ls_compose(ls_random_resized_crop(20), ls_random_flip(), ls_random_rotation(20),
                                ls_color_jitter(.brightness = 0.5, .hue = 0.2));
    result first = transformed(a, t, 5);
    result other = transformed(b, t, 6);
    result again = transformed(a, t, 5), next = transformed(a, t, 7);
    CHECK(first.status == LS_OK && memcmp(first.pixels, again.pixels, 20 * 20 * 3) == 0);
    CHECK(memcmp(first.pixels, next.pixels, 20 * 20 * 3) != 0);
    result *all[] = {&first, &other, &again, &next};
    for (int i = 0; i < 4; i++) free(all[i]->pixels);
    free(a.data);
    free(b.data);
}

static void floats_are_scaled_and_normalised(void)
{
    bytes b = read_all("%s/images/rgb8.png", GOLDEN_DIR);
    result r = transformed(b, (ls_transform){0}, 0);
    float *plain = malloc(19 * 23 * 3 * sizeof *plain), *normal = malloc(19 * 23 * 3 * sizeof *normal);
    ls_transform t = ls_normalize_image();
    ls_message why = {{0}};
    ls_image_out out = {.memory = plain, .height = 19, .width = 23};
    CHECK(ls_image_decode_transform(b.data, b.size, NULL, NULL, out, &why) == LS_OK);
    out.memory = normal;
    CHECK(ls_image_decode_transform(b.data, b.size, &t, NULL, out, &why) == LS_OK);
    for (int i = 0; i < 19 * 23 * 3 && plain && normal; i++) {
        CHECK(plain[i] == (float)r.pixels[i] / 255);
        CHECK(normal[i] == (plain[i] - t.mean[i % 3]) / t.std[i % 3]);
    }
    out.width = 24;
    CHECK(ls_image_decode_transform(b.data, b.size, &t, NULL, out, &why) == LS_ERR_SHAPE);
    CHECK_TEXT(why.text, "becomes 23 x 19 pixels; expected 24 x 19");
    free(plain);
    free(normal);
    free(r.pixels);
    free(b.data);
}

static void nothing_is_allocated_in_a_steady_state(void)
{
    bytes b = read_all("%s/images/420.jpg", GOLDEN_DIR);
    static float memory[32 * 32 * 3];
    ls_transform t = ls_compose(ls_random_resized_crop(32), ls_random_rotation(10), ls_color_jitter(.contrast = 0.2));
    ls_image_out out = {.memory = memory, .height = 32, .width = 32};
    ls_image_decode_transform(b.data, b.size, &t, (uint64_t[]){1, 0}, out, NULL);
    uint64_t before = ls_sys_calls();
    for (uint64_t i = 0; i < 100; i++) ls_image_decode_transform(b.data, b.size, &t, (uint64_t[]){1, i}, out, NULL);
    CHECK(ls_sys_calls() == before);
    free(b.data);
}

/* ---- Files ---- */

static void files_become_tensors_and_back(void)
{
    char path[] = "image_test_XXXXXX";
    int fd = mkstemp(path);
    CHECK(fd >= 0);
    close(fd);
    static uint8_t rgb[40 * 30 * 3];
    for (int i = 0; i < (int)sizeof rgb; i++) rgb[i] = (uint8_t)(i / 90 * 3 + i % 3 * 40);
    ls_run *run = ls_init(NULL, NULL, .seed = 3);
    CHECK(ls_jpeg_write(run, path, rgb, 30, 40, 100));
    int64_t width = 0, height = 0;
    CHECK(ls_image_size(run, path, &height, &width) && width == 40 && height == 30);
    ls_tensor *x = ls_image_read(run, path);
    CHECK(ls_shape_equal(ls_shape_of(x), LS_SHAPE(1, 3, 30, 40)) && ls_dtype_of(x) == LS_F32);
    static float pixels[3 * 30 * 40];
    CHECK(ls_read(x, pixels, sizeof pixels));
    for (int c = 0; c < 3; c++)
        for (int i = 0; i < 30 * 40; i++) CHECK_NEAR(pixels[c * 1200 + i] * 255, rgb[3 * i + c], 4);
    x = ls_image_read(run, path, .transform = ls_compose(ls_resize(8), ls_to_tensor(.dtype = LS_U8)));
    CHECK(ls_shape_equal(ls_shape_of(x), LS_SHAPE(1, 3, 8, 8)) && ls_dtype_of(x) == LS_U8);
    CHECK_TEXT(ls_error_message(run), "");

    CHECK(!ls_is_valid(ls_image_read(run, path, .transform = ls_resize(-3))));
    CHECK(strstr(ls_error_message(run), "resize: size -3 x -3"));
    ls_clear_error(run);
    CHECK(!ls_jpeg_write(run, path, rgb, 30, 40, 0) && strstr(ls_error_message(run), "quality 0 is not from 1 to 100"));
    ls_clear_error(run);
    CHECK(!ls_jpeg_write(run, "no/such/folder/x.jpg", rgb, 30, 40, 90) && ls_error(run) == LS_ERR_IO);
    ls_clear_error(run);
    CHECK(!ls_is_valid(ls_image_read(run, "no/such/file.jpg")) && strstr(ls_error_message(run), "no/such/file.jpg"));
    ls_clear_error(run);
    remove(path);
    CHECK(ls_finish(run) == 0);
}

static void png_files_keep_every_pixel(void)
{
    const char *path = "written.png";
    enum { HEIGHT = 7, WIDTH = 300 };
    static uint8_t rgb[HEIGHT * WIDTH * 3], pixels[3 * HEIGHT * WIDTH];
    for (int i = 0; i < (int)sizeof rgb; i++) rgb[i] = (uint8_t)(i % 5 ? i * i / 7 : 200);
    ls_run *run = ls_init(NULL, NULL);
    CHECK(ls_png_write(run, path, rgb, HEIGHT, WIDTH));
    CHECK(ls_read(ls_image_read(run, path, .transform = ls_to_tensor(.dtype = LS_U8)), pixels, sizeof pixels));
    int differ = 0;
    for (int c = 0; c < 3; c++)
        for (int i = 0; i < HEIGHT * WIDTH; i++) differ += pixels[c * HEIGHT * WIDTH + i] != rgb[3 * i + c];
    CHECK_MSG(differ == 0, "%d bytes differ", differ);
    CHECK(!ls_png_write(run, path, rgb, 0, 3) && strstr(ls_error_message(run), "png_write: written.png: 3 x 0 pixels"));
    ls_clear_error(run);
    CHECK(!ls_png_write(run, "no/such/folder/x.png", rgb, 2, 2) && ls_error(run) == LS_ERR_IO);
    ls_clear_error(run);
    ls_message why = {{0}};
    CHECK(ls_png_encode(path, rgb, 3, 0, &why) == LS_ERR_IO);
    CHECK_MSG(strstr(why.text, "written.png: libpng refuses to write it: "), "%s", why.text);
    remove(path);
    CHECK(ls_finish(run) == 0);
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    values = golden_open(GOLDEN_DIR "/images.safetensors");
    CHECK_RUN(every_kind_of_file_is_read);
    CHECK_RUN(parts_equal_the_whole);
    CHECK_RUN(other_kinds_are_left_to_libjpeg);
    CHECK_RUN(fast_decoding_comes_near);
    CHECK_RUN(pictures_stay_as_stored_by_default);
    CHECK_RUN(photos_equal_torchvision);
    CHECK_RUN(odd_files_are_pictures_or_named);
    CHECK_RUN(others_are_named);
    CHECK_RUN(large_pictures_are_refused);
    CHECK_RUN(damage_is_survived);
    CHECK_RUN(results_do_not_depend_on_what_went_before);
    CHECK_RUN(floats_are_scaled_and_normalised);
    CHECK_RUN(nothing_is_allocated_in_a_steady_state);
    CHECK_RUN(files_become_tensors_and_back);
    CHECK_RUN(png_files_keep_every_pixel);
    golden_close(&values);
    return check_done();
}
