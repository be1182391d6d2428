/* dataset.c - where samples come from: one's own function, tensors, photos in folders, idx files,
 * and parts of these. */
#include "data/loader/loader.h"

#include "check.h"
#include "data/tests.h"
#include "folder.h"

#define HERE "dataset_files"

/* 2 x 2 pixels of (255, 0, 51). */
static const unsigned char png[] = {
    0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0x00, 0x00, 0x00, 0x0d, 0x49, 0x48, 0x44, 0x52, 0x00, 0x00, 0x00,
    0x02, 0x00, 0x00, 0x00, 0x02, 0x08, 0x02, 0x00, 0x00, 0x00, 0xfd, 0xd4, 0x9a, 0x73, 0x00, 0x00, 0x00, 0x10, 0x49,
    0x44, 0x41, 0x54, 0x78, 0xda, 0x63, 0xf8, 0xcf, 0x60, 0x0c, 0x44, 0x0c, 0x10, 0x0a, 0x00, 0x24, 0xb6, 0x04, 0xc9,
    0xa3, 0x6f, 0x83, 0x47, 0x00, 0x00, 0x00, 0x00, 0x49, 0x45, 0x4e, 0x44, 0xae, 0x42, 0x60, 0x82};

static void put(const char *name, const void *bytes, size_t size)
{
    char path[512];
    snprintf(path, sizeof path, HERE "/%s", name);
    FILE *file = fopen(path, "wb");
    CHECK(file && fwrite(bytes, 1, size, file) == size);
    if (file) fclose(file);
}

static void put_photo(const char *name)
{
    put(name, png, sizeof png);
}

static void put_folder(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, HERE "/%s", name);
    mkdir(path, 0777);
}

/* ---- photos ---- */

static void names_become_labels(void)
{
    folder_fresh(HERE);
    static const char *const names[] = {"pug_2.jpg", "pug_10.jpg", "great_dane_7.JPG", "Sphynx_1.jpg", ".hidden_1.jpg"};
    for (int i = 0; i < 5; i++) put_photo(names[i]);
    ls_run *run = ls_init(NULL, NULL, .seed = 1);
    ls_dataset *set = ls_image_folder_new(run, HERE);
    CHECK(ls_dataset_len(set) == 4 && ls_len(set) == 4 && ls_class_count(set) == 3);
    CHECK_TEXT(ls_class_name(set, 0), "Sphynx"); /* bytes decide: capitals come first */
    CHECK_TEXT(ls_class_name(set, 1), "great_dane");
    CHECK_TEXT(ls_class_name(set, 2), "pug");
    CHECK_TEXT(ls_class_name(set, 3), "");
    CHECK_TEXT(ls_dataset_path(set, 0), HERE "/Sphynx_1.jpg");
    CHECK_TEXT(ls_dataset_path(set, 2), HERE "/pug_10.jpg");
    CHECK_TEXT(ls_dataset_path(set, 3), HERE "/pug_2.jpg");
    CHECK_TEXT(ls_dataset_path(set, 4), "");
    static const int64_t labels[] = {0, 1, 2, 2};
    for (int64_t i = 0; i < 4; i++) CHECK(ls_dataset_class(set, i) == labels[i]);
    CHECK(ls_dataset_class(set, 4) == -1);
    ls_dataset *dogs = ls_subset_new(set, (const int64_t[]){3, 1}, 2);
    CHECK(ls_class_count(dogs) == 3 && ls_dataset_class(dogs, 1) == 1);
    CHECK_TEXT(ls_class_name(dogs, 2), "pug");
    CHECK_TEXT(ls_dataset_path(dogs, 0), HERE "/pug_2.jpg");
    CHECK(ls_finish(run) == 0);
}

static void photos_become_batches(void)
{
    folder_fresh(HERE);
    put_photo("a_1.jpg");
    put_photo("b_1.jpg");
    ls_run *run = ls_init(NULL, NULL, .seed = 1);
    ls_dataset *set = ls_image_folder_new(run, HERE);
    ls_batch b;
    ls_loader *loader = ls_loader_new(run, set, .batch = 2, .transform = ls_resize(3));
    bool decodes = ls_next(loader, &b);
    if (!decodes) CHECK(ls_error(run) == LS_ERR_UNSUPPORTED); /* built without libpng */
    else {
        CHECK(ls_dtype_of(b.image) == LS_F32 && ls_ndim(b.image) == 4);
        CHECK(ls_dim(b.image, 0) == 2 && ls_dim(b.image, 1) == 3 && ls_dim(b.image, 2) == 3);
        CHECK(b.image->view.stride[1] == 1 && b.image->view.stride[3] == 3 && ls_view_dense(&b.image->view));
        float value[54];
        CHECK(ls_read(b.image, value, sizeof value));
        for (int i = 0; i < 54; i++) CHECK_NEAR(value[i], i / 9 % 3 == 0 ? 1.0 : i / 9 % 3 == 1 ? 0.0 : 0.2, 1e-6);
        CHECK(label_of(b.label, 0) == 0 && label_of(b.label, 1) == 1);
        ls_loader *raw = ls_loader_new(run, set, .batch = 2, .transform = ls_resize(3), .dtype = LS_U8);
        uint8_t pixel[54];
        CHECK(ls_next(raw, &b) && ls_dtype_of(b.image) == LS_U8 && ls_read(b.image, pixel, sizeof pixel));
        CHECK(pixel[0] == 255 && pixel[9] == 0 && pixel[18] == 51);
    }
    ls_clear_error(run);
    CHECK(!ls_loader_new(run, set) && strstr(ls_error_message(run), "ls_resize(224)"));
    ls_clear_error(run);
    CHECK(!ls_loader_new(run, set, .transform = ls_resize(-1)) && strstr(ls_error_message(run), ".transform: "));
    ls_clear_error(run);
    CHECK(!ls_loader_new(run, set, .transform = ls_resize(3), .dtype = LS_I64) && ls_error(run) == LS_ERR_DTYPE);
    ls_clear_error(run);
    CHECK(!ls_loader_new(run, numbers(run, 3), .transform = ls_resize(3)) &&
          strstr(ls_error_message(run), "for images"));
    ls_finish(run);
}

static void folders_become_labels(void)
{
    folder_fresh(HERE);
    static const char *const folders[] = {"cats", "cats/big", "dogs", ".git", "empty"};
    for (int i = 0; i < 5; i++) put_folder(folders[i]);
    put_photo("dogs/1.PNG");
    put_photo("cats/z.jpeg");
    put_photo("cats/big/lion.jpg");
    put_photo(".git/x.jpg");
    put("notes.txt", "x", 1);
    ls_run *run = ls_init(NULL, NULL, .seed = 1);
    capture_begin();
    ls_dataset *set = ls_image_folder_new(run, HERE, .by_folder = true);
    const char *said = capture_end();
    CHECK_MSG(strstr(said, "skipped 1 files of " HERE ", used 3: notes.txt"), "%s", said);
    CHECK(ls_dataset_len(set) == 3 && ls_class_count(set) == 2);
    CHECK_TEXT(ls_dataset_path(set, 0), HERE "/cats/big/lion.jpg");
    CHECK_TEXT(ls_dataset_path(set, 2), HERE "/dogs/1.PNG");
    CHECK(ls_dataset_class(set, 1) == 0 && ls_dataset_class(set, 2) == 1);
    CHECK(!ls_image_folder_new(run, HERE) && strstr(ls_error_message(run), ".by_folder = true"));
    CHECK(strstr(ls_error_message(run), "are they in " HERE "/cats?"));
    ls_clear_error(run);
    ls_dataset *large = ls_image_folder_new(run, HERE "/cats", .pattern = "^(.)");
    CHECK(ls_dataset_len(large) == 1 && strcmp(ls_class_name(large, 0), "z") == 0);
    ls_finish(run);
}

static void wrong_folders_are_explained(void)
{
    folder_fresh(HERE);
    ls_run *run = ls_init(NULL, NULL, .seed = 1);
    CHECK(!ls_image_folder_new(run, NULL) && strstr(ls_error_message(run), "NULL"));
    ls_clear_error(run);
    CHECK(!ls_image_folder_new(run, HERE "/none") && strstr(ls_error_message(run), HERE "/none: No such file"));
    ls_clear_error(run);
    CHECK(!ls_image_folder_new(run, HERE) && strstr(ls_error_message(run), "has no photo"));
    ls_clear_error(run);
    put_photo("x.jpg");
    CHECK(!ls_image_folder_new(run, HERE "/x.jpg") && strstr(ls_error_message(run), "Not a directory"));
    ls_clear_error(run);
    CHECK(!ls_image_folder_new(run, HERE) && strstr(ls_error_message(run), "x.jpg") &&
          strstr(ls_error_message(run), ".pattern"));
    ls_clear_error(run);
    static const char *const others[] = {"e", "c", "a", "d", "b"};
    for (int i = 0; i < 5; i++) put(others[i], "", 0);
    CHECK(!ls_image_folder_new(run, HERE) && strstr(ls_error_message(run), "(6 other files: a, b, c, ...)"));
    ls_clear_error(run);
    CHECK(!ls_image_folder_new(run, HERE, .pattern = "(") && strstr(ls_error_message(run), ".pattern = \"(\""));
    ls_clear_error(run);
    CHECK(!ls_image_folder_new(run, HERE, .pattern = "jpg$") && strstr(ls_error_message(run), "no group"));
    ls_clear_error(run);
    put_photo("pug_1.jpg");
    put_photo("pug_2.jpg");
    capture_begin();
    CHECK(ls_dataset_len(ls_image_folder_new(run, HERE)) == 2);
    const char *said = capture_end();
    CHECK_MSG(strstr(said, "one class, \"pug\"") &&
                  strstr(said, "skipped 6 files of " HERE ", used 2: a, b, c, ... does not match"),
              "%s", said);
    CHECK(ls_finish(run) == 0);
}

static void damaged_photos_are_named(void)
{
    folder_fresh(HERE);
    put_photo("a_1.jpg");
    put("a_2.jpg", png, 50);
    put("a_3.jpg", "hello", 5);
    put("a_4.jpg", "", 0);
    put_photo("b_5.jpg");
    for (int workers = 0; workers < 4; workers += 3) {
        ls_run *run = ls_init(NULL, NULL, .seed = 1);
        ls_batch b;
        ls_dataset *strict = ls_image_folder_new(run, HERE);
        ls_loader *loader = ls_loader_new(run, strict, .batch = 5, .workers = workers, .transform = ls_resize(2));
        CHECK(!ls_next(loader, &b));
        if (ls_error(run) != LS_ERR_UNSUPPORTED) { /* built with libpng */
            const char *message = ls_error_message(run), *path = strstr(message, HERE "/a_2.jpg: ");
            CHECK_MSG(path && !strstr(path + 1, HERE), "%s", message); /* once */
            CHECK_MSG(strstr(message, "; .on_bad = LS_ON_BAD_SKIP skips"), "%s", message);
            CHECK(ls_error(run) == LS_ERR_IO);
            ls_clear_error(run);
            ls_dataset *lenient = ls_image_folder_new(run, HERE, .on_bad = LS_ON_BAD_SKIP);
            loader = ls_loader_new(run, lenient, .batch = 5, .workers = workers, .transform = ls_resize(2));
            capture_begin();
            CHECK(ls_next(loader, &b) && b.size == 5);
            static const int64_t taken[] = {0, 4, 4, 4, 4};
            CHECK(memcmp(b.index, taken, sizeof taken) == 0 && label_of(b.label, 2) == 1);
            CHECK(!ls_next(loader, &b) && ls_loader_bad_count(loader) == 3);
            const char *said = capture_end();
            CHECK_MSG(strstr(said, "3 bad samples") && strstr(said, "the first: " HERE "/a_2.jpg: "), "%s", said);
        }
        ls_finish(run);
    }
}

static bool is_jpeg_or_png(const char *path)
{
    unsigned char start[4] = {0};
    FILE *file = fopen(path, "rb");
    bool read = file && fread(start, 1, sizeof start, file) == sizeof start;
    if (file) fclose(file);
    return read && (memcmp(start, "\xff\xd8\xff", 3) == 0 || memcmp(start, "\x89PNG", 4) == 0);
}

/* Photos in grey, with a palette, with odd markers are read, as what they are and not as their name says; others under
 * the same name are counted, the first is named, and none gets into a batch. */
static void odd_photos_are_read_or_named(void)
{
    const char *folder = check_data("pets_orig/odd");
    if (!folder) return;
#ifndef LOCKSTEP_WITH_PHOTOS
    CHECK_SKIP("built without libjpeg or libpng");
#endif
    ls_run *run = ls_init(NULL, NULL, .seed = 1);
    ls_dataset *set = ls_image_folder_new(run, folder, .on_bad = LS_ON_BAD_SKIP);
    int64_t samples = ls_dataset_len(set), bad = 0, count = 0;
    bool seen[64] = {false};
    const char *first_bad = NULL;
    for (int64_t i = 0; i < samples; i++) {
        if (is_jpeg_or_png(ls_dataset_path(set, i))) continue;
        bad++;
        if (!first_bad) first_bad = ls_dataset_path(set, i);
    }
    CHECK(samples == 15 && bad == 4 && first_bad);

    ls_loader *loader = ls_loader_new(run, set, .batch = 4, .transform = ls_resize(32));
    capture_begin();
    for (ls_batch b; ls_next(loader, &b); count += b.size)
        for (int64_t j = 0; j < b.size; j++) {
            ls_tensor *photo = ls_select(b.image, 0, j); /* no flat area, such as one that was never written */
            CHECK(ls_item(ls_max(photo)) > ls_item(ls_min(photo)));
            CHECK(is_jpeg_or_png(ls_dataset_path(set, b.index[j])));
            seen[b.index[j]] = true;
        }
    const char *said = capture_end();
    char words[1200];
    snprintf(words, sizeof words, "epoch 0: %d bad samples of the image folder replaced", (int)bad);
    CHECK_MSG(strstr(said, words), "%s", said);
    snprintf(words, sizeof words, "%s: is a GIF; only JPEG and PNG images are supported", first_bad);
    CHECK_MSG(strstr(said, words), "%s", said);
    CHECK(count == samples && ls_loader_bad_count(loader) == bad);
    for (int64_t i = 0; i < samples; i++) CHECK(seen[i] == is_jpeg_or_png(ls_dataset_path(set, i)));
    CHECK(ls_finish(run) == 0);
}

/* ---- idx ---- */

static const unsigned char idx_images[] = {0, 0, 8, 3,  0,   0,   0, 3, 0, 0, 0, 2, 0, 0,
                                           0, 2, 0, 51, 102, 255, 1, 2, 3, 4, 5, 6, 7, 8};
static const unsigned char idx_labels[] = {0, 0, 8, 1, 0, 0, 0, 3, 0, 2, 1};
static const unsigned char idx_packed[] = {0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0x63,
                                           0x60, 0xe0, 0x60, 0x66, 0x60, 0x60, 0x00, 0x61, 0x26, 0x30, 0x36,
                                           0x4e, 0xfb, 0xcf, 0xc8, 0xc4, 0xcc, 0xc2, 0xca, 0xc6, 0xce, 0x01,
                                           0x00, 0xa4, 0x49, 0x1c, 0x51, 0x1c, 0x00, 0x00, 0x00};

static void idx_files_become_digits(void)
{
    folder_fresh(HERE);
    put("images", idx_images, sizeof idx_images);
    put("packed", idx_packed, sizeof idx_packed);
    put("labels", idx_labels, sizeof idx_labels);
    for (int packed = 0; packed < 2; packed++) {
        ls_run *run = ls_init(NULL, NULL, .seed = 1);
        ls_dataset *set = ls_mnist_new(run, packed ? HERE "/packed" : HERE "/images", HERE "/labels");
        if (packed && ls_error(run) == LS_ERR_UNSUPPORTED) {
            CHECK(strstr(ls_error_message(run), "gunzip")); /* built without zlib */
            ls_finish(run);
            return;
        }
        CHECK(ls_dataset_len(set) == 3 && ls_class_count(set) == 3 && ls_dataset_class(set, 1) == 2);
        CHECK_TEXT(ls_class_name(set, 2), "2");
        ls_batch b;
        float value[12];
        uint8_t pixel[12];
        CHECK(ls_next(ls_loader_new(run, set, .batch = 3), &b) && ls_read(b.image, value, sizeof value));
        CHECK(ls_dim(b.image, 1) == 1 && ls_dim(b.image, 3) == 2 && label_of(b.label, 1) == 2);
        CHECK_NEAR(value[1], 0.2, 1e-7);
        CHECK(value[3] == 1);
        CHECK(ls_next(ls_loader_new(run, set, .batch = 3, .dtype = LS_U8), &b) &&
              ls_read(b.image, pixel, sizeof pixel));
        CHECK(memcmp(pixel, idx_images + 16, 12) == 0);
        ls_finish(run);
    }
}

static void mnist_is_refused(const char *images, const char *labels, const char *words)
{
    ls_run *run = ls_init(NULL, NULL, .seed = 1);
    CHECK(!ls_mnist_new(run, images, labels));
    CHECK_MSG(strstr(ls_error_message(run), words), "%s: no \"%s\"", ls_error_message(run), words);
    ls_clear_error(run);
    ls_finish(run);
}

static void damaged_idx_files_are_refused(void)
{
    folder_fresh(HERE);
    put("images", idx_images, sizeof idx_images);
    put("labels", idx_labels, sizeof idx_labels);
    mnist_is_refused(HERE "/none", HERE "/labels", "/none: No such file");
    mnist_is_refused(NULL, HERE "/labels", "NULL");
    mnist_is_refused(HERE, HERE "/labels", "not a file");
    mnist_is_refused(HERE "/labels", HERE "/images", "with 1 dimensions; expected bytes (08) with 3: images");
    for (size_t cut = 0; cut < sizeof idx_images; cut++) {
        put("bad", idx_images, cut);
        mnist_is_refused(HERE "/bad", HERE "/labels", "bad: ");
    }
    unsigned char bytes[sizeof idx_images + 1] = {0};
    memcpy(bytes, idx_images, sizeof idx_images);
    put("bad", bytes, sizeof bytes);
    mnist_is_refused(HERE "/bad", HERE "/labels", "longer than its header says");
    bytes[4] = 0xff;
    put("bad", bytes, sizeof idx_images);
    mnist_is_refused(HERE "/bad", HERE "/labels", "does not fit a file of 28 bytes");
    memcpy(bytes, idx_labels, sizeof idx_labels);
    bytes[7] = 2;
    put("bad", bytes, sizeof idx_labels - 1);
    mnist_is_refused(HERE "/images", HERE "/bad", "has 3 images, " HERE "/bad has 2 labels");
#ifdef LOCKSTEP_WITH_ZLIB
    unsigned char packed[sizeof idx_packed];
    for (size_t cut = 2; cut < sizeof idx_packed; cut++) {
        put("bad", idx_packed, cut);
        mnist_is_refused(HERE "/bad", HERE "/labels", "bad: ");
    }
    memcpy(packed, idx_packed, sizeof packed);
    packed[36] ^= 1; /* the checksum */
    put("bad", packed, sizeof packed);
    mnist_is_refused(HERE "/bad", HERE "/labels", "damaged");
#endif
}

static void the_real_mnist_is_read(void)
{
    char images[1024];
    const char *path = check_data("mnist/t10k-images-idx3-ubyte.gz");
    snprintf(images, sizeof images, "%s", path ? path : "");
    const char *labels = check_data("mnist/t10k-labels-idx1-ubyte.gz");
    if (!path || !labels) return;
    ls_run *run = ls_init(NULL, NULL, .seed = 1);
    ls_dataset *set = ls_mnist_new(run, images, labels);
    if (!set && ls_error(run) == LS_ERR_UNSUPPORTED) {
        check_skip("%s", ls_error_message(run));
        ls_clear_error(run);
    } else {
        CHECK(ls_dataset_len(set) == 10000 && ls_class_count(set) == 10 && ls_dataset_class(set, 0) == 7);
    }
    CHECK(ls_finish(run) == 0);
}

/* ---- parts, lifetimes, mistakes ---- */

static void datasets_follow_each_other(void)
{
    ls_run *run = ls_init(NULL, NULL, .seed = 1);
    ls_dataset *a = numbers(run, 3), *b = ls_subset_new(numbers(run, 9), (const int64_t[]){8, 4}, 2);
    ls_dataset *both = ls_concat_dataset_new(a, b, a);
    CHECK(ls_dataset_len(both) == 8);
    ls_batch batch;
    CHECK(ls_next(ls_loader_new(run, both, .batch = 8), &batch));
    static const int64_t expected[] = {0, 1, 2, 8, 4, 0, 1, 2};
    for (int64_t i = 0; i < 8; i++) CHECK(label_of(batch.label, i) == (double)expected[i]);
    ls_tensor *x = ls_zeros(run, LS_F32, 2, 3);
    CHECK(!ls_concat_dataset_new(a, ls_tensor_dataset_new(run, x)) &&
          strstr(ls_error_message(run), "fields of dataset 1 differ"));
    ls_clear_error(run);
    CHECK(!ls_subset_new(a, (const int64_t[]){3}, 1) &&
          strstr(ls_error_message(run), "sample 3 (at [0]) is not in the dataset of 3"));
    ls_finish(run);
}

static void note(void *user)
{
    ++*(int *)user;
}

static bool nothing(int64_t index, ls_sample *sample, void *user)
{
    (void)user;
    int64_t *x = ls_sample_field(sample, 0);
    *x = index;
    return true;
}

static void a_dataset_lives_as_long_as_it_is_used(void)
{
    int released = 0;
    ls_run *run = ls_init(NULL, NULL, .seed = 1);
    ls_dataset *set = ls_dataset_new(run, .count = 4, .get = nothing, .release = note, .user = &released,
                                     .fields = {{.name = "x", .dtype = LS_I64}});
    ls_dataset *half = ls_subset_new(set, (const int64_t[]){0, 2}, 2);
    ls_loader *loader = ls_loader_new(run, half, .batch = 2);
    ls_dataset_free(set);
    ls_dataset_free(half);
    ls_batch b;
    CHECK(ls_next(loader, &b) && label_of(b.tensor[0], 1) == 2 && released == 0);
    ls_loader_free(loader);
    CHECK(released == 1);
    set = ls_dataset_new(run, .count = 4, .get = nothing, .release = note, .user = &released,
                         .fields = {{.name = "x", .dtype = LS_I64}});
    ls_loader_new(run, ls_subset_new(set, (const int64_t[]){3}, 1));
    ls_dataset_free(set);
    CHECK(released == 1);
    CHECK(ls_finish(run) == 0 && released == 2);
}

static void wrong_datasets_say_so(void)
{
    ls_run *run = ls_init(NULL, NULL, .seed = 1);
    CHECK(!ls_dataset_new(run, .count = 4, .fields = {{.name = "x", .dtype = LS_I64}}) &&
          strstr(ls_error_message(run), ".get is missing"));
    ls_clear_error(run);
    CHECK(!ls_dataset_new(run, .count = 4, .get = nothing) && strstr(ls_error_message(run), ".fields is missing"));
    ls_clear_error(run);
    CHECK(!ls_dataset_new(run, .count = 4, .get = nothing, .fields = {{.name = "x"}}) &&
          strstr(ls_error_message(run), ".dtype"));
    ls_clear_error(run);
    CHECK(
        !ls_dataset_new(run, .count = 4, .get = nothing, .fields = {{.name = "x", .dtype = LS_F32, .shape = {2, -3}}}));
    CHECK(ls_error(run) == LS_ERR_SHAPE);
    ls_clear_error(run);
    CHECK(!ls_dataset_new(run, .count = 0, .get = nothing,
                          .fields = {{.name = "x", .dtype = LS_F32}, {.name = "x", .dtype = LS_F32}}));
    CHECK(strstr(ls_error_message(run), "two fields are named \"x\""));
    ls_clear_error(run);
    ls_dataset *empty = ls_dataset_new(run, .count = 0, .get = nothing, .fields = {{.name = "x", .dtype = LS_F32}});
    CHECK(empty && !ls_loader_new(run, empty) && strstr(ls_error_message(run), "has no samples"));
    ls_clear_error(run);
    ls_dataset *one = ls_tensor_dataset_new(run, ls_zeros(run, LS_F32, 1, 3)), *none = ls_subset_new(one, NULL, 0);
    CHECK(!ls_loader_new(run, none) && strstr(ls_error_message(run), "no samples; its source has 1"));
    ls_clear_error(run);
    CHECK(!ls_loader_new(run, one, .workers = 5000) &&
          strstr(ls_error_message(run), ".workers = 5000; it must be from 0 to 1024"));
    ls_clear_error(run);
    CHECK(!ls_loader_new(run, one, .batch = INT64_MAX) &&
          strstr(ls_error_message(run), ".batch = 9223372036854775807"));
    ls_clear_error(run);
    ls_tensor *x = ls_zeros(run, LS_F32, 2, 3), *y = ls_zeros(run, LS_F32, 3);
    CHECK(!ls_tensor_dataset_new(run, x, y) && strstr(ls_error_message(run), "[2,3] f32 and [3] f32"));
    ls_clear_error(run);
    ls_dataset *a, *b;
    ls_random_split(numbers(run, 4), 1.5, &a, &b);
    CHECK(!a && !b && strstr(ls_error_message(run), "1.5"));
    ls_finish(run);
}

int main(int argc, char **argv)
{
    check_filter = argc > 1 ? argv[1] : NULL;
    CHECK_RUN(names_become_labels);
    CHECK_RUN(photos_become_batches);
    CHECK_RUN(folders_become_labels);
    CHECK_RUN(wrong_folders_are_explained);
    CHECK_RUN(damaged_photos_are_named);
    CHECK_RUN(odd_photos_are_read_or_named);
    CHECK_RUN(idx_files_become_digits);
    CHECK_RUN(damaged_idx_files_are_refused);
    CHECK_RUN(the_real_mnist_is_read);
    CHECK_RUN(datasets_follow_each_other);
    CHECK_RUN(a_dataset_lives_as_long_as_it_is_used);
    CHECK_RUN(wrong_datasets_say_so);
    folder_remove(HERE);
    return check_done();
}
