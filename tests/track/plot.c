/* plot.c - recorded values read back, and plots of them: files that other programs can read, with the right
 * contents. */
#include <lockstep/track.h>

#include <locale.h>
#include <math.h>

#include "base/capture.h"
#include "base/crc.h"
#include "base/file.h"
#include "base/memory.h"
#include "check.h"
#include "folder.h"
#include "track/plot/plot.h"

#define FOLDER "plot_test"
#define CHECK_HAS(text, part) CHECK_MSG(strstr(text, part), "\"%.300s\" lacks \"%s\"", text, part)

/* ---- PNG, decoded according to its specification ---- */

typedef struct picture {
    int width, height;
    unsigned char *pixels; /* NULL: the file is invalid */
} picture;

static uint32_t u32(const unsigned char *b)
{
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

typedef struct bits {
    const unsigned char *bytes, *end;
    int bit;
} bits;

static uint32_t take(bits *b, int count)
{
    uint32_t value = 0;
    for (int i = 0; i < count && b->bytes < b->end; i++) {
        value |= (uint32_t)(*b->bytes >> b->bit & 1) << i;
        if (++b->bit == 8) b->bit = 0, b->bytes++;
    }
    return value;
}

static uint32_t take_code(bits *b, int count, uint32_t code)
{
    while (count--) code = code << 1 | take(b, 1);
    return code;
}

/* A symbol of the fixed Huffman code (RFC 1951, 3.2.6). */
static uint32_t take_symbol(bits *b)
{
    uint32_t code = take_code(b, 7, 0);
    if (code < 24) return 256 + code;
    code = take_code(b, 1, code);
    if (code >= 0x30 && code < 0xc0) return code - 0x30;
    if (code >= 0xc0 && code < 0xc8) return 280 + code - 0xc0;
    return 144 + take_code(b, 1, code) - 0x190;
}

/* Unpacks one block with fixed codes; returns the number of bytes. */
static size_t inflate_fixed(const unsigned char *bytes, size_t size, unsigned char *to, size_t room)
{
    static const int base[] = {3,  4,  5,  6,  7,  8,  9,  10, 11,  13,  15,  17,  19,  23, 27,
                               31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258};
    static const int extra[] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
    bits b = {bytes, bytes + size, 0};
    size_t length = 0;
    CHECK(take(&b, 1) == 1 && take(&b, 2) == 1);
    for (uint32_t symbol; b.bytes < b.end && (symbol = take_symbol(&b)) != 256;) {
        if (symbol < 256) {
            if (length < room) to[length++] = (unsigned char)symbol;
            continue;
        }
        int run = base[symbol - 257] + (int)take(&b, extra[symbol - 257]);
        CHECK(take_code(&b, 5, 0) == 0);
        for (; run > 0 && length > 0 && length < room; run--, length++) to[length] = to[length - 1];
    }
    return length;
}

static picture read_png(const char *path)
{
    picture p = {0};
    size_t size = 0, data_size = 0;
    unsigned char *file = (unsigned char *)file_text(path, &size), *data = malloc(size + 1);
    CHECK(file && size > 60 && memcmp(file, "\x89PNG\r\n\x1a\n", 8) == 0);
    char order[64] = "";
    for (size_t at = 8; file && at + 12 <= size;) {
        size_t length = u32(file + at);
        if (length > size - at - 12) break;
        CHECK(u32(file + at + 8 + length) == ls_crc32(0, file + at + 4, length + 4));
        snprintf(order + strlen(order), sizeof order - strlen(order), "%.4s ", (const char *)file + at + 4);
        if (memcmp(file + at + 4, "IHDR", 4) == 0) {
            p.width = (int)u32(file + at + 8);
            p.height = (int)u32(file + at + 12);
            CHECK(length == 13 && memcmp(file + at + 16, "\x08\x02\x00\x00\x00", 5) == 0);
        }
        if (memcmp(file + at + 4, "IDAT", 4) == 0) memcpy(data, file + at + 8, length), data_size = length;
        at += 12 + length;
    }
    CHECK_TEXT(order, "IHDR IDAT IEND ");
    size_t row = (size_t)p.width * 3, room = (row + 1) * (size_t)p.height;
    unsigned char *rows = calloc(1, room + 1);
    CHECK(data_size > 6 && (data[0] * 256 + data[1]) % 31 == 0 && (data[0] & 15) == 8);
    CHECK(inflate_fixed(data + 2, data_size - 6, rows, room + 1) == room);
    uint32_t a = 1, b = 0;
    for (size_t i = 0; i < room; i++) a = (a + rows[i]) % 65521, b = (b + a) % 65521;
    CHECK(u32(data + data_size - 4) == (b << 16 | a));
    p.pixels = calloc(1, row * (size_t)p.height + 1);
    for (size_t y = 0; y < (size_t)p.height; y++) {
        CHECK(rows[y * (row + 1)] == 2);
        for (size_t i = 0; i < row; i++)
            p.pixels[y * row + i] =
                (unsigned char)(rows[y * (row + 1) + 1 + i] + (y ? p.pixels[(y - 1) * row + i] : 0));
    }
    free(rows);
    free(data);
    free(file);
    return p;
}

static uint32_t pixel(picture p, int x, int y)
{
    const unsigned char *c = p.pixels + 3 * ((size_t)y * (size_t)p.width + (size_t)x);
    return (uint32_t)c[0] << 16 | (uint32_t)c[1] << 8 | c[2];
}

static int count_of(picture p, uint32_t colour)
{
    int count = 0;
    for (int y = 0; y < p.height; y++)
        for (int x = 0; x < p.width; x++) count += pixel(p, x, y) == colour;
    return count;
}

/* ---- SVG: is it XML? ---- */

/* Tags nest and close, attributes are quoted, entities are known, there is one root. Returns the number of elements, -1
 * if something is wrong. */
static int well_formed(const char *c)
{
    char names[16][32];
    int depth = 0, elements = 0;
    while (*c) {
        if (*c == '&') {
            if (strncmp(c, "&lt;", 4) && strncmp(c, "&gt;", 4) && strncmp(c, "&amp;", 5) && strncmp(c, "&quot;", 6))
                return -1;
        }
        if ((unsigned char)*c < ' ' && *c != '\n') return -1;
        if (*c != '<') {
            if (depth == 0 && *c != '\n') return -1;
            c++;
            continue;
        }
        bool closing = *++c == '/';
        c += closing;
        size_t length = strspn(c, "abcdefghijklmnopqrstuvwxyz");
        if (length == 0 || length > 31 || depth == 16) return -1;
        if (closing) {
            if (depth == 0 || strncmp(names[--depth], c, length) || names[depth][length] || c[length] != '>') return -1;
            c += length + 1;
            continue;
        }
        if (depth == 0 && elements > 0) return -1;
        snprintf(names[depth++], 32, "%.*s", (int)length, c);
        elements++;
        for (c += length; *c == ' ';) {
            size_t name = strspn(++c, "abcdefghijklmnopqrstuvwxyzB-0123456789");
            if (name == 0 || c[name] != '=' || c[name + 1] != '"') return -1;
            c += name + 2;
            c += strcspn(c, "\"<&");
            if (*c++ != '"') return -1;
        }
        bool empty = *c == '/';
        depth -= empty;
        c += empty;
        if (*c++ != '>') return -1;
    }
    return depth == 0 ? elements : -1;
}

/* ---- values read back ---- */

static void record_runs(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_tracker_new(run, "all", .project_dir = FOLDER, .name = "a");
    for (int i = 0; i < 100; i++) ls_track(run, i, {"loss", 1.0 / (i + 1)}, {"lr,\"x\"", 0.25});
    ls_track(run, 99, {"accuracy", 97.5});
    ls_track_text(run, 99, "note", "words");
    ls_finish(run);
    run = ls_init(NULL, NULL);
    ls_tracker_new(run, "all", .project_dir = FOLDER, .name = "a");
    for (int i = 50; i < 60; i++) ls_track(run, i, {"loss", 2 + i}); /* resumed from step 50 */
    ls_finish(run);
}

static void check_history(ls_run *run, const char *path)
{
    ls_history *h = ls_history_read(run, path);
    CHECK_MSG(!ls_error(run), "%s", ls_error_message(run));
    CHECK_MSG(ls_history_count(h) == 3, "%s: %d names", path, (int)ls_history_count(h));
    ls_curve loss = ls_history_find(h, "loss"), other = ls_history_find(h, "lr,\"x\""),
             at = ls_history_find(h, "accuracy");
    CHECK_MSG(loss.count == 60 && other.count == 100 && at.count == 1, "%s: %d, %d, %d points", path, (int)loss.count,
              (int)other.count, (int)at.count);
    for (int64_t i = 0; i < loss.count; i++) {
        CHECK(loss.x[i] == (double)i);
        CHECK_NEAR(loss.y[i], i < 50 ? 1.0 / (double)(i + 1) : (double)(2 + i), 1e-7); /* events hold floats */
    }
    CHECK(at.count == 1 && at.x[0] == 99 && at.y[0] == 97.5 && other.count && other.y[99] == 0.25);
    CHECK_TEXT(ls_history_at(h, 0).name, "loss");
    CHECK(ls_history_find(h, "nothing").count == 0 && ls_history_at(h, -1).count == 0 &&
          ls_history_at(h, 3).count == 0);
    ls_history_free(h);
}

static void every_format_reads_back_the_same(void)
{
    folder_remove(FOLDER);
    record_runs();
    ls_run *run = ls_init(NULL, NULL);
    check_history(run, FOLDER "/a");
    check_history(run, FOLDER "/a/values.jsonl");
    remove(FOLDER "/a/values.jsonl");
    check_history(run, FOLDER "/a");
    check_history(run, FOLDER "/a/values.csv");
    remove(FOLDER "/a/values.csv");
    check_history(run, FOLDER "/a"); /* both sessions of events */
    CHECK(ls_finish(run) == 0);
}

static void refuses_history(const char *path, const char *words)
{
    ls_run *run = ls_init(NULL, NULL);
    CHECK(!ls_history_read(run, path) && ls_error(run));
    CHECK_HAS(ls_error_message(run), words);
    ls_clear_error(run);
    ls_finish(run);
}

static void what_cannot_be_read_is_refused(void)
{
    folder_fresh(FOLDER);
    refuses_history(FOLDER, "contains no values.jsonl, values.csv or events.out.tfevents.*");
    mkdir(FOLDER "/a", 0777), mkdir(FOLDER "/b", 0777);
    file_append(FOLDER "/b/values.csv", "step,time,loss\n");
    refuses_history(FOLDER, "events.out.tfevents.*; the run " FOLDER "/b does");
    refuses_history(FOLDER "/none", FOLDER "/none");
    refuses_history(NULL, "NULL");
    file_append(FOLDER "/text", "just some words, no events at all");
    refuses_history(FOLDER "/text", "neither JSON lines, nor a CSV table with steps, nor TensorBoard events");
    static const char zeros[] = "step,a\0,a\0bbbbbbbbbbbbbbbb\n1,1,2\n";
    ls_message why;
    CHECK(ls_file_write(FOLDER "/zeros", zeros, sizeof zeros - 1, false, &why));
    refuses_history(FOLDER "/zeros", "byte 6 is zero: this is not a text file");
    file_append(FOLDER "/values.jsonl", "{\"step\":1,\"loss\":2}\n{\"step\":\n{\"step\":3,\"loss\":2}\n");
    refuses_history(FOLDER, "line 2 is not a JSON object");
}

/* The file `whole` with five values of a loss, and its bytes; to be freed. */
static char *write_events(size_t *size)
{
    folder_remove(FOLDER);
    ls_run *run = ls_init(NULL, NULL);
    ls_tracker_new(run, "tensorboard", .project_dir = FOLDER, .name = ".");
    for (int i = 0; i < 5; i++) ls_track(run, i, {"loss", i});
    ls_finish(run);
    CHECK(system("mv " FOLDER "/events.out.tfevents.* " FOLDER "/whole") == 0);
    return file_text(FOLDER "/whole", size);
}

static void damaged_events_are_detected_and_incomplete_ones_ignored(void)
{
    size_t size = 0;
    char *bytes = write_events(&size);
    ls_run *run = ls_init(NULL, NULL);
    for (size_t cut = 0; cut <= size; cut++) {
        FILE *file = fopen(FOLDER "/cut", "wb");
        fwrite(bytes, 1, cut, file);
        fclose(file);
        ls_history *h = ls_history_read(run, FOLDER "/cut");
        CHECK_MSG(!ls_error(run), "cut at %zu: %s", cut, ls_error_message(run));
        CHECK(cut < size || ls_history_find(h, "loss").count == 5);
        ls_clear_error(run);
        ls_history_free(h);
    }
    for (size_t at = 0; at < size; at++) {
        bytes[at] ^= 0x10;
        FILE *file = fopen(FOLDER "/cut", "wb");
        fwrite(bytes, 1, size, file);
        fclose(file);
        CHECK_MSG(!ls_history_read(run, FOLDER "/cut"), "a changed byte at %zu was not noticed", at);
        ls_clear_error(run);
        bytes[at] ^= 0x10;
    }
    free(bytes);
    ls_finish(run);
}

/* Read a file of which the machine kept the length, but lost the bytes from `kept` on. */
static int64_t values_after_a_crash(ls_run *run, const char *path, const char *bytes, size_t kept, size_t size)
{
    FILE *file = fopen(path, "wb");
    fwrite(bytes, 1, kept, file);
    for (size_t i = kept; i < size; i++) fputc(0, file);
    fclose(file);
    ls_history *h = ls_history_read(run, path);
    CHECK_MSG(!ls_error(run), "zeros from byte %zu of %zu: %s", kept, size, ls_error_message(run));
    ls_clear_error(run);
    int64_t count = ls_history_find(h, "loss").count;
    ls_history_free(h);
    return count;
}

static int read_what_a_crash_left(void)
{
    ls_run *run = ls_init(NULL, NULL);
    size_t size = 0, head = 12, length = 0;
    char *bytes = file_text(FOLDER "/whole", &size);
    memcpy(&length, bytes, sizeof length);
    size_t first = head + length + 4; /* the record that says what file it is */
    int64_t most = 0;
    for (size_t kept = first; kept <= size; kept++) {
        int64_t count = values_after_a_crash(run, FOLDER "/crashed", bytes, kept, size + 100);
        CHECK_MSG(count == most || count == most + 1, "%zu bytes: %d values, %d before", kept, (int)count, (int)most);
        most = count;
    }
    CHECK(most == 5);
    CHECK(values_after_a_crash(run, FOLDER "/another", bytes, size, size + 100) == 5);
    free(bytes);
    ls_finish(run);
    return check_failures_here != 0;
}

static int times_in(const char *text, const char *part)
{
    int count = 0;
    for (; (text = strstr(text, part)); text++) count++;
    return count;
}

/* Zeros may begin anywhere in a record: in its length, its checksums or its values. */
static void zeros_that_a_crash_left_are_told_once_for_each_file(void)
{
    static char text[100000];
    size_t size;
    free(write_events(&size));
    CHECK_MSG(run_captured(NULL, read_what_a_crash_left, text, sizeof text) == 0, "%s", text);
    CHECK_MSG(times_in(text, FOLDER "/crashed: the last ") == 1, "%s", text);
    CHECK_MSG(times_in(text, FOLDER "/another: the last ") == 1, "%s", text);
}

/* ---- pictures ---- */

static ls_plot *plot_of(ls_run *run, const char *name)
{
    static double x[1000], y[1000], z[1000];
    for (int i = 0; i < 1000; i++) x[i] = i, y[i] = exp(-i / 200.0), z[i] = 1 + sin(i / 50.0);
    y[500] = (double)NAN;
    z[0] = (double)INFINITY;
    ls_plot *plot = ls_plot_new(run, .title = "a <title> & more", .smooth = 0.5);
    ls_plot_add(plot, name, (ls_curve){"one", 1000, x, y});
    ls_plot_add(plot, name, (ls_curve){"two", 1000, x, z});
    return plot;
}

static void png_files_are_valid(void)
{
    folder_fresh(FOLDER);
    ls_run *run = ls_init(NULL, NULL);
    CHECK(ls_plot_write(plot_of(run, "loss"), FOLDER "/a.png"));
    picture p = read_png(FOLDER "/a.png");
    CHECK(p.width == 880 && p.height == 520);
    CHECK(pixel(p, 0, 0) == 0xffffff && pixel(p, 879, 519) == 0xffffff);
    CHECK_MSG(count_of(p, 0x1f6feb) > 300 && count_of(p, 0xe8590c) > 300, "the curves are not there");
    CHECK_MSG(count_of(p, 0xffffff) > 880 * 520 / 2, "too little is white");
    free(p.pixels);
    ls_plot *small = ls_plot_new(run, .width = 100, .height = 100);
    CHECK(ls_plot_write(small, FOLDER "/b.png")); /* empty */
    p = read_png(FOLDER "/b.png");
    CHECK(p.width == 100 && p.height == 100);
    free(p.pixels);
    CHECK(ls_finish(run) == 0);
}

static void svg_files_are_xml(void)
{
    folder_fresh(FOLDER);
    setlocale(LC_ALL, "de_DE.UTF-8"); /* a comma in numbers, where this locale is installed */
    ls_run *run = ls_init(NULL, NULL);
    CHECK(ls_plot_write(plot_of(run, "a \"panel\" <1> & \x01 \xff"), FOLDER "/a.svg"));
    char *text = file_text(FOLDER "/a.svg", NULL);
    CHECK_MSG(well_formed(text) > 20, "%d elements", well_formed(text));
    CHECK(well_formed("<svg><a></svg>") == -1 && well_formed("<svg x=1/>") == -1 && well_formed("<s>&x;</s>") == -1);
    CHECK_HAS(text, "width=\"880\" height=\"520\" viewBox=\"0 0 880 520\"");
    CHECK_HAS(text, ">a &lt;title&gt; &amp; more</text>");
    CHECK_HAS(text, "stroke=\"#1f6feb\" stroke-width=\"2\" d=\"M");
    CHECK_HAS(text, "stroke-opacity=\"0.25\"");
    CHECK_HAS(text, ">two</text>");
    CHECK(!strstr(text, "nan") && !strstr(text, "inf"));
    free(text);
    ls_finish(run);
    setlocale(LC_ALL, "C");
}

static int occurrences(const char *text, const char *of)
{
    int count = 0;
    for (; (text = strstr(text, of)); text++) count++;
    return count;
}

static void histories_are_drawn_in_panels(void)
{
    folder_remove(FOLDER);
    record_runs();
    ls_run *run = ls_init(NULL, NULL);
    ls_history *h = ls_history_read(run, FOLDER "/a");
    ls_plot *all = ls_plot_new(run), *some = ls_plot_new(run, .log_y = true), *wrong = ls_plot_new(run);
    ls_plot_add_history(all, h, NULL);
    ls_plot_add_history(some, h, "accuracy,loss+accuracy", .name = "first");
    ls_plot_add_history(some, h, "loss+accuracy", .name = "second");
    CHECK(ls_plot_write(all, FOLDER "/all.svg") && ls_plot_write(some, FOLDER "/some.svg"));
    char *text = file_text(FOLDER "/all.svg", NULL);
    CHECK_HAS(text, "width=\"1040\" height=\"720\"");
    CHECK(occurrences(text, ">step</text>") == 3 && occurrences(text, "font-weight=\"bold\"") == 3);
    free(text);
    text = file_text(FOLDER "/some.svg", NULL);
    CHECK(occurrences(text, ">step</text>") == 2 && occurrences(text, "font-weight=\"bold\"") == 2);
    CHECK_HAS(text, ">first loss</text>");
    CHECK_HAS(text, ">second accuracy</text>");
    free(text);
    ls_plot_add_history(wrong, h, "loss,los");
    CHECK_HAS(ls_error_message(run), "\"los\" was not recorded");
    ls_clear_error(run);
    ls_finish(run);
}

static void runs_are_drawn_side_by_side_with_the_same_axes(void)
{
    const double x[] = {0, 1}, low[] = {0, 1}, high[] = {0, 900};
    ls_run *run = ls_init(NULL, NULL, .device = "cpu");
    ls_plot *plot = ls_plot_new(run, .beside = true);
    ls_plot_add(plot, "loss", (ls_curve){.name = "a", .count = 2, .x = x, .y = low});
    ls_plot_add(plot, "loss", (ls_curve){.name = "b", .count = 2, .x = x, .y = high});
    ls_plot_add(plot, "lr", (ls_curve){.name = "a", .count = 2, .x = x, .y = low});
    CHECK(ls_plot_write(plot, FOLDER "/beside.svg"));
    CHECK(ls_finish(run) == 0);
    char *svg = file_text(FOLDER "/beside.svg", NULL);
    CHECK_HAS(svg, "width=\"1040\" height=\"720\"");
    CHECK_HAS(svg, ">loss: a<");
    CHECK_HAS(svg, ">loss: b<");
    CHECK_HAS(svg, ">lr: a<");
    const char *first = strstr(svg, ">800<"); /* a tick in both, although a ends at 1 */
    CHECK(first && strstr(first + 1, ">800<"));
    free(svg);
}

static void many_points_cost_little(void)
{
    folder_fresh(FOLDER);
    enum { POINTS = 300000 };
    double *x = malloc(POINTS * sizeof *x), *y = malloc(POINTS * sizeof *y);
    for (int i = 0; i < POINTS; i++) x[i] = i, y[i] = i % 2;
    y[150000] = 5; /* must be visible */
    ls_run *run = ls_init(NULL, NULL);
    ls_plot *plot = ls_plot_new(run);
    ls_plot_add(plot, "p", (ls_curve){"c", POINTS, x, y});
    CHECK(ls_plot_write(plot, FOLDER "/a.svg") && ls_plot_write(plot, FOLDER "/a.png"));
    size_t size = 0;
    free(file_text(FOLDER "/a.svg", &size));
    CHECK_MSG(size < 200000, "%zu bytes", size);
    picture p = read_png(FOLDER "/a.png");
    int top = 0;
    for (int y_ = 40; y_ < p.height && !top; y_++)
        for (int x_ = 60; x_ < p.width - 20; x_++)
            if (pixel(p, x_, y_) == 0x1f6feb) top = y_;
    CHECK_MSG(top > 0 && top < 80, "the highest blue is in row %d", top);
    free(p.pixels);
    free(x);
    free(y);
    ls_finish(run);
}

static void wrong_plots_are_refused(void)
{
    ls_run *run = ls_init(NULL, NULL);
    CHECK(!ls_plot_new(run, .smooth = 1) && ls_error(run) == LS_ERR_VALUE);
    ls_clear_error(run);
    CHECK(!ls_plot_new(run, .width = 10) && ls_error(run) == LS_ERR_VALUE);
    CHECK_TEXT(ls_error_message(run), "ls_plot_new: .width = 10 pixels; it must be from 100 to 16384");
    ls_clear_error(run);
    ls_plot *plot = ls_plot_new(run);
    CHECK(!ls_plot_write(plot, "curve.gif"));
    CHECK_HAS(ls_error_message(run), "\"curve.gif\" must end in .svg or .png");
    ls_clear_error(run);
    CHECK(!ls_plot_write(plot, FOLDER "/no/such/folder/a.svg") && ls_error(run) == LS_ERR_IO);
    ls_clear_error(run);
    ls_plot_add(plot, "x", (ls_curve){"c", 5, NULL, NULL});
    CHECK(ls_error(run) == LS_ERR_VALUE);
    ls_clear_error(run);
    ls_plot_add(NULL, "x", (ls_curve){0});
    ls_plot_add_history(plot, NULL, NULL);
    CHECK(!ls_plot_write(NULL, "a.svg") && !ls_error(run));
    ls_plot_free(NULL);
    ls_history_free(NULL);
    ls_finish(run);
}

static void out_of_memory_does_not_crash(void)
{
    folder_fresh(FOLDER);
    for (uint64_t n = 1; n < 60; n++) {
        ls_run *run = ls_init(NULL, NULL);
        ls_sys_fail_at(n);
        ls_plot *plot = plot_of(run, "x");
        ls_plot_write(plot, n % 2 ? FOLDER "/a.png" : FOLDER "/a.svg");
        ls_sys_fail_at(0);
        CHECK(ls_error(run) == LS_OK || ls_error(run) == LS_ERR_MEMORY || ls_error(run) == LS_ERR_IO);
        ls_clear_error(run);
        ls_finish(run);
    }
}

/* ---- axes ---- */

static void check_ticks(double low, double high, bool logarithmic, int wanted, const char *labels)
{
    ls_plot_axis axis = ls_plot_axis_empty(logarithmic);
    ls_plot_axis_take(&axis, low);
    ls_plot_axis_take(&axis, high);
    ls_plot_axis_round(&axis, true);
    ls_ticks ticks = ls_plot_axis_ticks(&axis, wanted);
    char got[512] = "";
    for (int i = 0; i < ticks.count; i++) snprintf(got + strlen(got), sizeof got - strlen(got), "%s ", ticks.label[i]);
    CHECK_TEXT(got, labels);
}

static void ticks_are_round(void)
{
    check_ticks(0, 1, false, 5, "0 0.2 0.4 0.6 0.8 1.0 ");
    check_ticks(0.013, 2.9, false, 3, "1 2 ");
    check_ticks(-3, 4, false, 4, "-2 0 2 4 ");
    check_ticks(0, 3000, false, 6, "0 500 1000 1500 2000 2500 3000 ");
    check_ticks(0, 60000, false, 3, "0 20k 40k 60k ");
    check_ticks(0, 5e6, false, 5, "0 1M 2M 3M 4M 5M ");
    check_ticks(0, 3e-5, false, 3, "0 1e-05 2e-05 3e-05 ");
    check_ticks(7, 7, false, 4, "6.5 7.0 7.5 ");
    check_ticks(1e-3, 10, true, 6, "0.001 0.01 0.1 1 10 ");
    check_ticks(1, 30, true, 6, "1 2 5 10 20 ");
    check_ticks(1e-20, 1e20, true, 4, "1e-20 1e-10 1 1e+10 1e+20 ");
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    CHECK_RUN(every_format_reads_back_the_same);
    CHECK_RUN(what_cannot_be_read_is_refused);
    CHECK_RUN(damaged_events_are_detected_and_incomplete_ones_ignored);
    CHECK_RUN_FORK(zeros_that_a_crash_left_are_told_once_for_each_file);
    CHECK_RUN(png_files_are_valid);
    CHECK_RUN(svg_files_are_xml);
    CHECK_RUN(histories_are_drawn_in_panels);
    CHECK_RUN(runs_are_drawn_side_by_side_with_the_same_axes);
    CHECK_RUN(many_points_cost_little);
    CHECK_RUN(wrong_plots_are_refused);
    CHECK_RUN(out_of_memory_does_not_crash);
    CHECK_RUN(ticks_are_round);
    folder_remove(FOLDER);
    return check_done();
}
