/* pixels.c - transforms of plain pixels, random crops, and pictures of tensors. */
#include <lockstep.h>

#include <signal.h>
#include <sys/resource.h>

#include "expect.h"
#include "folder.h"

#define HERE "pixels_here"

static ls_run *run;

enum { HEIGHT = 6, WIDTH = 5 };

/* Pixel (y, x) of channel c of sample i; never black. */
static uint8_t pixel(int64_t i, int y, int x, int c)
{
    return (uint8_t)(1 + i * 100 + y * 16 + x * 3 + c);
}

static bool get(int64_t index, ls_sample *sample, void *user)
{
    int channels = *(const int *)user;
    uint8_t pixels[HEIGHT * WIDTH * 3];
    for (int i = 0; i < HEIGHT * WIDTH * channels; i++)
        pixels[i] = pixel(index, i / channels / WIDTH, i / channels % WIDTH, i % channels);
    return ls_sample_pixels(sample, 0, pixels);
}

static const int one = 1, three = 3;

static ls_dataset *pictures(const int *channels, int64_t count)
{
    return ls_dataset_new(run, .count = count, .get = get, .user = (void *)channels,
                          .fields = {{.name = "image", .image = true, .shape = {*channels, HEIGHT, WIDTH}}});
}

/* Every window of the padded picture occurs, and is that window, black where it is outside. */
static void random_crops_are_windows_of_the_padded_picture(void)
{
    enum { SAMPLES = 400, SIZE = 4, PADDING = 2 };
    for (int channels = 1; channels <= 3; channels += 2) {
        ls_loader *loader = ls_loader_new(run, pictures(channels == 1 ? &one : &three, SAMPLES), .batch = SAMPLES,
                                          .dtype = LS_U8, .transform = ls_random_crop(SIZE, .padding = PADDING));
        ls_batch b;
        static uint8_t got[SAMPLES * 3 * SIZE * SIZE];
        size_t bytes = (size_t)(SAMPLES * channels * SIZE * SIZE);
        CHECK(ls_next(loader, &b) && ls_dim(b.image, 2) == SIZE && ls_read(b.image, got, bytes));
        bool seen[HEIGHT + 2 * PADDING - SIZE + 1][WIDTH + 2 * PADDING - SIZE + 1] = {{0}};
        int found = 0, windows = 0;
        for (int i = 0; i < SAMPLES; i++)
            for (int top = -PADDING; top <= HEIGHT + PADDING - SIZE; top++)
                for (int left = -PADDING; left <= WIDTH + PADDING - SIZE; left++) {
                    bool same = true;
                    for (int k = 0; k < channels * SIZE * SIZE && same; k++) {
                        int c = k / (SIZE * SIZE), y = top + k / SIZE % SIZE, x = left + k % SIZE;
                        bool inside = y >= 0 && y < HEIGHT && x >= 0 && x < WIDTH;
                        same = got[i * channels * SIZE * SIZE + k] == (inside ? pixel(i, y, x, c) : 0);
                    }
                    if (!same) continue;
                    found++;
                    windows += !seen[top + PADDING][left + PADDING];
                    seen[top + PADDING][left + PADDING] = true;
                }
        CHECK_MSG(found == SAMPLES, "%d of %d crops are windows", found, SAMPLES);
        CHECK_MSG(windows == 7 * 6, "%d of %d windows occur", windows, 7 * 6);
    }
    FAILS_SAYING(ls_loader_new(run, pictures(&three, 2), .transform = ls_random_crop(4, .padding = -1)),
                 "padding -1 must be");
}

/* The usual augmentation of CIFAR: crop, flip, normalise; the same in every pass of the same epoch. */
static void plain_pixels_are_transformed(void)
{
    ls_transform usual = ls_compose(ls_random_crop(HEIGHT, .padding = 1, .width = WIDTH), ls_random_flip(),
                                    ls_normalize_image(.mean = {0.5f, 0.5f, 0.5f}, .std = {0.25f, 0.25f, 0.25f}));
    float got[2][3 * HEIGHT * WIDTH];
    ls_batch b;
    for (int pass = 0; pass < 2; pass++)
        CHECK(ls_next(ls_loader_new(run, pictures(&three, 1), .transform = usual), &b) &&
              ls_read(b.image, got[pass], sizeof *got));
    CHECK(memcmp(got[0], got[1], sizeof *got) == 0);
    for (int i = 0; i < 3 * HEIGHT * WIDTH; i++) CHECK(got[0][i] >= -2 && got[0][i] <= 2);
    ls_transform flip = ls_random_flip(.probability = 1);
    CHECK(ls_next(ls_loader_new(run, pictures(&three, 1), .transform = flip), &b) &&
          ls_read(b.image, got[0], sizeof *got));
    CHECK_NEAR(got[0][0], pixel(0, 0, WIDTH - 1, 0) / 255.0, 1e-6);
    CHECK(ls_next(ls_loader_new(run, pictures(&one, 1), .transform = ls_resize_shorter(10)), &b));
    CHECK(ls_dim(b.image, 1) == 1 && ls_dim(b.image, 2) == 12 && ls_dim(b.image, 3) == 10);
    static const int two = 2;
    FAILS_SAYING(ls_loader_new(run, pictures(&two, 1), .transform = flip),
                 "for images of 1 or 3 channels; \"image\" has 2");
    ls_dataset *shapeless = ls_dataset_new(run, .count = 1, .get = get, .user = (void *)&three,
                                           .fields = {{.name = "image", .image = true}});
    ls_loader *loader = ls_loader_new(run, shapeless, .transform = ls_resize(4));
    FAILS_SAYING(ls_next(loader, &b), "the size of the pixels of \"image\" is unknown; declare the field with .shape");
    CHECK_TEXT(ls_error_message(run), "");
}

/* As on a disk without room. */
static void failures_spare_earlier_files(ls_tensor *x)
{
    struct rlimit before, tight;
    getrlimit(RLIMIT_FSIZE, &before);
    tight = before;
    tight.rlim_cur = 16;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &tight);
    ls_image_write(x, HERE "/grid.png");
    setrlimit(RLIMIT_FSIZE, &before);
    FAILS_SAYING((void)0, "grid.png");
    CHECK(ls_is_valid(ls_image_read(run, HERE "/grid.png")));
}

static void tensors_become_pictures(void)
{
    folder_fresh(HERE);
    uint8_t bytes[5 * 3 * 4 * 3];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)(10 + i);
    ls_tensor *x = ls_from(run, LS_U8, LS_SHAPE(5, 3, 4, 3), bytes);
    CHECK(ls_image_write(x, HERE "/grid.png", .columns = 2, .padding = 1));
    /* 3 rows of 2: (4 + 1) * 3 + 1 high, (3 + 1) * 2 + 1 wide */
    ls_tensor *grid = ls_image_read(run, HERE "/grid.png", .transform = ls_to_tensor(.dtype = LS_U8));
    CHECK(ls_dim(grid, 2) == 16 && ls_dim(grid, 3) == 9);
    for (int i = 0; i < 5; i++) {
        int64_t top = 1 + i / 2 * 5, left = 1 + i % 2 * 4;
        ls_tensor *part = ls_slice(ls_slice(grid, 2, top, top + 4, 1), 3, left, left + 3, 1);
        CHECK(ls_item(ls_all(ls_eq(part, ls_slice(x, 0, i, i + 1, 1)))) == 1);
    }
    CHECK(ls_item(ls_sum(ls_slice(grid, 2, 0, 1, 1))) == 0 && ls_item(ls_sum(ls_slice(grid, 3, 8, 9, 1))) == 0);
    ls_tensor *gray = ls_from(run, LS_F32, LS_SHAPE(1, 1, 3), (float[]){-1, 0.5F, 7});
    CHECK(ls_image_write(gray, HERE "/gray.png"));
    uint8_t got[9];
    CHECK(ls_read(ls_image_read(run, HERE "/gray.png", .transform = ls_to_tensor(.dtype = LS_U8)), got, sizeof got));
    CHECK(got[0] == 0 && got[1] == 128 && got[2] == 255 && got[4] == 128 && got[8] == 255);
    CHECK(ls_image_write(ls_select(x, 0, 0), HERE "/one.jpg", .quality = 100));
    CHECK(ls_dim(ls_image_read(run, HERE "/one.jpg"), 3) == 3);
    FAILS_SAYING(ls_image_write(x, HERE "/grid.bmp"), "must end in .png, .jpg or .jpeg");
    FAILS_SAYING(ls_image_write(x, HERE "/no/grid.png"), "no/grid.png");
    failures_spare_earlier_files(x);
    FAILS_SAYING(ls_image_write(ls_reshape(x, -1), HERE "/x.png"), "[180] u8: pictures are [C,H,W] or [N,C,H,W]");
    FAILS_SAYING(ls_image_write(x, HERE "/x.png", .columns = 0), "at least 1 column");
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    run = ls_init(NULL, NULL, .seed = 3);
    CHECK_RUN(random_crops_are_windows_of_the_padded_picture);
    CHECK_RUN(plain_pixels_are_transformed);
    CHECK_RUN(tensors_become_pictures);
    ls_finish(run);
    return check_done();
}
