/* custom.c - trackers of one's own: numbers, texts, settings, pictures, histograms, and the end reach them. */
#include <lockstep/ops.h>
#include <lockstep/track.h>

#include "check.h"
#include "folder.h"
#include "run/session.h"

#define FOLDER "custom_test"

typedef struct heard {
    char words[400];
    uint8_t rgb[5 * 10 * 3];
    int64_t height, width;
    ls_histogram histogram;
} heard;

static void add(heard *h, const char *format, ...)
{
    va_list args;
    size_t length = strlen(h->words);
    va_start(args, format);
    vsnprintf(h->words + length, sizeof h->words - length, format, args);
    va_end(args);
}

static void on_values(int64_t step, const ls_value *values, int64_t count, void *user)
{
    for (int64_t i = 0; i < count; i++) add(user, "%lld %s=%g; ", (long long)step, values[i].name, values[i].number);
}

static void on_text(int64_t step, const char *name, const char *text, void *user)
{
    add(user, "%lld %s=%s; ", (long long)step, name, text);
}

static void on_config(const char *name, double number, const char *text, void *user)
{
    if (text) add(user, "%s is %s; ", name, text);
    else add(user, "%s is %g; ", name, number);
}

static void on_image(int64_t step, const char *name, const uint8_t *rgb, int64_t height, int64_t width, void *user)
{
    heard *h = user;
    add(h, "%lld %s %lldx%lld; ", (long long)step, name, (long long)height, (long long)width);
    h->height = height;
    h->width = width;
    if ((size_t)(height * width * 3) <= sizeof h->rgb) memcpy(h->rgb, rgb, (size_t)(height * width * 3));
}

static void on_histogram(int64_t step, const char *name, const ls_histogram *histogram, void *user)
{
    add(user, "%lld %s of %lld; ", (long long)step, name, (long long)histogram->count);
    ((heard *)user)->histogram = *histogram;
}

static void on_close(bool succeeded, void *user)
{
    add(user, "closed %d", succeeded);
}

#define OWN(h)                                                                                                         \
    .values = on_values, .text = on_text, .config = on_config, .image = on_image, .histogram = on_histogram,           \
    .close = on_close, .user = (h)

static void it_gets_everything_in_order(void)
{
    heard h = {.height = 0};
    ls_run *run = ls_init(NULL, NULL, .device = "cpu");
    ls_tracker *tracker = ls_custom_tracker_new(run, OWN(&h));
    CHECK_TEXT(ls_tracker_folder(tracker), "");
    ls_track_config(run, {"lr", 0.5});
    ls_track_config_text(run, "model", "cnn");
    ls_track(run, 1, {"loss", 2}, {"acc", 0.25});
    ls_track_text(run, 2, "note", "hello");
    ls_track_image(run, 3, "x", ls_ones(run, LS_F32, 1, 2, 2));
    ls_track_histogram(run, 4, "w", ls_ones(run, LS_BF16, 5));
    CHECK(ls_finish(run) == 0);
    CHECK_TEXT(h.words, "lr is 0.5; model is cnn; 1 loss=2; 1 acc=0.25; 2 note=hello; 3 x 2x2; 4 w of 5; closed 1");
}

static void what_it_does_not_want_it_does_not_get(void)
{
    heard h = {.height = 0};
    ls_run *run = ls_init(NULL, NULL, .device = "cpu");
    ls_custom_tracker_new(run, .values = on_values, .user = &h);
    ls_track_config(run, {"lr", 0.5});
    ls_track_text(run, 2, "note", "hello");
    ls_track_image(run, 3, "x", ls_ones(run, LS_F32, 1, 2, 2));
    ls_track(run, 4, {"loss", 1});
    CHECK(ls_finish(run) == 0);
    CHECK_TEXT(h.words, "4 loss=1; ");
}

static void colours_and_grids_are_where_they_belong(void)
{
    heard h = {.height = 0};
    ls_run *run = ls_init(NULL, NULL, .device = "cpu");
    ls_custom_tracker_new(run, OWN(&h));
    const float red_then_half[] = {1, 1, 0, 0, 0, 0, 0.5f, 2, 0.5f, -1, 0.5f, (float)NAN}; /* [2,3,1,2] */
    ls_track_image(run, 0, "grid", ls_from(run, LS_F32, LS_SHAPE(2, 3, 1, 2), red_then_half));
    CHECK(h.height == 2 + 1 + 2 && h.width == 2 + 2 + 2 + 2 + 2); /* two pixels of black around each */
    static const uint8_t row[] = {255, 0, 0, 255, 0, 0, 0, 0, 0, 0, 0, 0, 128, 128, 128, 255, 0, 0};
    CHECK(memcmp(h.rgb + (2 * 10 + 2) * 3, row, sizeof row) == 0);
    const uint8_t grey[] = {0, 7, 255, 128};
    ls_track_image(run, 0, "bytes", ls_from(run, LS_U8, LS_SHAPE(1, 2, 2), grey));
    for (int i = 0; i < 4; i++) CHECK(h.rgb[3 * i] == grey[i] && h.rgb[3 * i + 2] == grey[i]);
    ls_track_image(run, 0, "wrong", ls_ones(run, LS_F32, 2, 4, 4));
    CHECK(ls_error(run) == LS_ERR_VALUE && strstr(ls_error_message(run), "ls_track_image: "));
    ls_clear_error(run);
    ls_finish(run);
}

static void histograms_count_every_finite_element_once(void)
{
    heard h = {.height = 0};
    ls_run *run = ls_init(NULL, NULL, .device = "cpu");
    ls_custom_tracker_new(run, OWN(&h));
    const float numbers[] = {-3, 0, 0, 6, (float)NAN, (float)INFINITY, 5.9f};
    ls_track_histogram(run, 0, "w", ls_from(run, LS_F32, LS_SHAPE(7), numbers));
    const ls_histogram *g = &h.histogram;
    CHECK(g->count == 5 && g->min == -3 && g->max == 6);
    CHECK_NEAR(g->sum, 8.9, 1e-6);
    CHECK_NEAR(g->sum_squares, 9 + 36 + 5.9 * 5.9, 1e-6);
    double all = 0;
    for (int i = 0; i < g->bins; i++) all += g->size[i];
    CHECK(all == 5 && g->size[0] == 1 && g->size[g->bins - 1] == 2 && g->limit[g->bins - 1] == 6);
    ls_track_histogram(run, 0, "same", ls_ones(run, LS_F32, 9));
    CHECK(h.histogram.size[0] == 9 && h.histogram.limit[0] > 1);
    ls_track_histogram(run, 0, "none", ls_zeros(run, LS_F32, 0));
    CHECK(h.histogram.count == 0);
    CHECK(ls_finish(run) == 0);
}

static void formats_without_pictures_leave_them_out(void)
{
    folder_fresh(FOLDER);
    ls_run *run = ls_init(NULL, NULL, .device = "cpu");
    ls_tracker_new(run, "jsonl,csv", .project_dir = FOLDER, .name = ".");
    ls_track_image(run, 1, "x", ls_ones(run, LS_F32, 1, 2, 2));
    ls_track(run, 2, {"loss", 1});
    CHECK(ls_finish(run) == 0);
    char *lines = file_text(FOLDER "/values.jsonl", NULL);
    CHECK(strncmp(lines, "{\"step\":2,", 10) == 0);
    free(lines);
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    CHECK_RUN(it_gets_everything_in_order);
    CHECK_RUN(what_it_does_not_want_it_does_not_get);
    CHECK_RUN(colours_and_grids_are_where_they_belong);
    CHECK_RUN(histograms_count_every_finite_element_once);
    CHECK_RUN(formats_without_pictures_leave_them_out);
    folder_remove(FOLDER);
    return check_done();
}
