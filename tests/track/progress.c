/* progress.c - messages of a program and its progress bar, on a terminal and off it. */
#include <lockstep.h>

#include <stdio.h>
#include <time.h>

#include "base/capture.h"
#include "base/log.h"
#include "base/terminal.h"
#include "check.h"
#include "run/pty.h"

#define CHECK_HAS(text, part) CHECK_MSG(strstr(text, part), "\"%s\" lacks \"%s\"", text, part)
#define CHECK_LACKS(text, part) CHECK_MSG(!strstr(text, part), "\"%s\" has \"%s\"", text, part)

static char text[1 << 16], screen[1 << 16];

static void wait_ms(long ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

/* ---- messages ---- */

enum { SPEAKS = __LINE__ };
static int speaks(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_log_main(run, LS_LOG_ERROR, "e");
    ls_warn(run, "w %d", 2);
    ls_info(run, "i\nj");
    ls_debug(run, "d");
    ls_info(NULL, "before there is a run");
    for (int i = 0; i < 3; i++) ls_warn_once(run, "once, i = %d", i);
    ls_log_all(run, LS_LOG_INFO, "all");
    return ls_finish(run);
}

static void levels_choose_what_is_shown(void)
{
    CHECK(run_captured(NULL, speaks, text, sizeof text) == 0);
    CHECK_TEXT(text, "error: e\nwarning: w 2\ni j\nbefore there is a run\nwarning: once, i = 0\nall\n");
    CHECK(run_captured("LOCKSTEP_LOG=warn", speaks, text, sizeof text) == 0);
    CHECK_TEXT(text, "error: e\nwarning: w 2\nwarning: once, i = 0\n");
    CHECK(run_captured("LOCKSTEP_LOG=error", speaks, text, sizeof text) == 0);
    CHECK_TEXT(text, "error: e\n");
}

static void debug_shows_the_place(void)
{
    CHECK(run_captured("LOCKSTEP_LOG=debug", speaks, text, sizeof text) == 0);
    char wanted[2][64];
    snprintf(wanted[0], sizeof wanted[0], "\nprogress.c:%d: i j\n", SPEAKS + 6);
    snprintf(wanted[1], sizeof wanted[1], "\nprogress.c:%d: debug: d\n", SPEAKS + 7);
    for (int i = 0; i < 2; i++) CHECK_HAS(text, wanted[i]);
}

static void time_comes_first(void)
{
    CHECK(run_captured("LOCKSTEP_LOG_TIME=1", speaks, text, sizeof text) == 0);
    int year, month, day, hour, minute, second, ms, end = 0;
    int read = sscanf(text, "%d-%d-%d %d:%d:%d.%d error: %n", &year, &month, &day, &hour, &minute, &second, &ms, &end);
    CHECK_MSG(read == 7 && end == 31 && text[end] == 'e' && year > 2000, "%s", text);
}

/* ---- off the terminal ---- */

static int counts_quietly(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_progress *bar = ls_progress_new(run, 100, .label = "train");
    for (int i = 0; i < 100; i++) {
        ls_progress_show(bar, "loss", 1.0 / (i + 1));
        ls_progress_step(bar, 1);
    }
    ls_progress_free(bar);
    bar = ls_progress_new(run, 0, .unit = "batch", .quiet = true);
    ls_progress_step(bar, 7);
    ls_progress_free(bar);
    bar = ls_progress_new(run, 5, .unit = "file", .done = 3);
    ls_progress_step(bar, 1);
    return ls_finish(run); /* ends the bar */
}

static void one_line_without_a_terminal(void)
{
    CHECK(run_captured(NULL, counts_quietly, text, sizeof text) == 0);
    int minutes[2], seconds[2];
    CHECK_MSG(sscanf(text, "train: 100 steps in %d:%2d, %*[^ ] steps/s, loss 0.01\n1 file in %d:%2d, ", &minutes[0],
                     &seconds[0], &minutes[1], &seconds[1]) == 4,
              "%s", text);
    int lines = 0;
    for (const char *c = text; *c; c++) lines += *c == '\n';
    CHECK(lines == 2 && !strchr(text, '\r'));
}

static int counts_files_of_strangers(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_progress *bar = ls_progress_new(run, 1, .label = "a\nb\x1b[2J", .unit = "\rfile");
    ls_progress_show(bar, "x\ny", 1);
    ls_progress_step(bar, 1);
    return ls_finish(run);
}

static void names_do_not_control_the_terminal(void)
{
    CHECK(run_captured(NULL, counts_files_of_strangers, text, sizeof text) == 0);
    CHECK_MSG(strncmp(text, "a b?[2J: 1  file in ", 20) == 0 && strstr(text, ", x y 1\n"), "%s", text);
}

/* ---- on the display of a program ---- */

static char shown[4][512]; /* the last line of each bar */
static int times_shown, ends;

static void show_bar(const ls_progress_state *state, void *user)
{
    CHECK(user == shown && state->number >= 1 && state->number <= 3 && strlen(state->line) < 100);
    snprintf(shown[state->number], sizeof shown[0], "%s (%lld of %lld)", state->line, (long long)state->done,
             (long long)state->total);
    times_shown++;
    ends += state->ended;
}

static void a_program_may_show_bars_itself(void)
{
    ls_progress_register_display(show_bar, shown);
    ls_run *run = ls_init(NULL, NULL);
    ls_progress *outer = ls_progress_new(run, 2, .label = "epochs");
    ls_progress *bar = ls_progress_new(run, 100000, .label = "train");
    CHECK_HAS(shown[1], "epochs   0% [");
    for (int i = 0; i < 50000; i++) ls_progress_step(bar, 1);
    ls_progress_show(bar, "loss", 0.5);
    ls_progress_free(bar);
    CHECK_HAS(shown[2], "train  50% [");
    CHECK_HAS(shown[2], "loss 0.5 (50000 of 100000)");
    ls_progress_step(outer, 1);
    ls_progress_new(run, 0, .quiet = true);
    CHECK(ls_finish(run) == 0);
    CHECK_HAS(shown[1], "] 1/2  ");
    CHECK_MSG(times_shown < 1000 && ends == 2 && !shown[3][0], "%d drawings, %d ends", times_shown, ends);
    ls_progress_register_display(NULL, NULL);
}

/* ---- on the terminal ---- */

static int draws(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_progress *bar = ls_progress_new(run, 1000, .label = "train");
    for (int i = 0; i < 500; i++) {
        ls_progress_show(bar, "loss", 0.125);
        ls_progress_step(bar, 1);
    }
    wait_ms(110);
    ls_progress_step(bar, 1);
    ls_info(run, "a message");
    const char words[] = "half a line, ";
    ls_terminal_write(stdout, words, strlen(words));
    wait_ms(110);
    ls_progress_step(bar, 1); /* not in the middle of another line */
    ls_terminal_write(stdout, "and its end\n", 12);
    return ls_finish(run);
}

static void the_bar_stays_below_other_output(void)
{
    CHECK(run_on_terminal(100, draws, text, sizeof text) == 0);
    CHECK_HAS(text, "train  50% [==============>               ] 501/1000  ");
    CHECK_HAS(text, " left  loss 0.125");
    screen_of(text, screen);
    CHECK_MSG(strncmp(screen, "a message\nhalf a line, and its end\ntrain  50% [=====", 50) == 0, "%s", screen);
    int minutes, seconds, end = 0;
    const char *after = strstr(screen, "] 502/1000  ");
    CHECK_MSG(after &&
                  sscanf(after, "] 502/1000  %*[^ ] steps/s  in %d:%2d  loss 0.125%n", &minutes, &seconds, &end) == 2,
              "%s", screen);
    CHECK(end && after[end] == '\n');
    CHECK(strchr(strstr(screen, "502/1000"), '\n')[1] == '\0');
}

static int draws_seldom(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_progress *bar = ls_progress_new(run, 0, .label = "read");
    for (int i = 0; i < 100000; i++) ls_progress_step(bar, 1);
    return ls_finish(run);
}

static void many_steps_are_few_drawings(void)
{
    CHECK(run_on_terminal(80, draws_seldom, text, sizeof text) == 0);
    int drawings = 0;
    for (const char *c = text; (c = strstr(c, "read ")); c++) drawings++;
    CHECK_MSG(drawings >= 2 && drawings < 100, "%d drawings", drawings);
    screen_of(text, screen);
    CHECK(strncmp(screen, "read 100000 steps  ", 19) == 0); /* the total is unknown: no bar, no percentage */
    CHECK_LACKS(screen, "%");
    CHECK_LACKS(screen, "[");
}

static int draws_much(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_progress *bar = ls_progress_new(run, 1000000, .label = "a label with \xc3\xa4");
    ls_progress_show(bar, "first", -1.2345e-10);
    ls_progress_show(bar, "second", 2);
    ls_progress_step(bar, 1000000);
    return ls_finish(run);
}

static void no_terminal_is_too_narrow(void)
{
    for (int columns = 1; columns < 130; columns++) {
        CHECK(run_on_terminal(columns, draws_much, text, sizeof text) == 0);
        size_t width = 0, widest = 0;
        for (const char *c = text; *c; c++) {
            width = *c == '\r' || *c == '\n' ? 0 : width + ((*c & 0xc0) != 0x80);
            if (width > widest) widest = width;
        }
        CHECK_MSG(widest < (size_t)columns || columns == 1, "%zu characters in %d columns: %s", widest, columns, text);
        if (columns >= 16) CHECK_HAS(text, "1000000/1000000");
        if (columns >= 45) CHECK_HAS(text, "first -1.234e-10"); /* stays when rate and time are omitted */
        if (columns >= 120) CHECK_HAS(text, "] 1000000/1000000  ");
    }
}

static int nests(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_progress *epochs = ls_progress_new(run, 2, .label = "epochs");
    for (int epoch = 0; epoch < 2; epoch++) {
        ls_progress *steps = ls_progress_new(run, 3, .label = "steps");
        ls_progress_step(steps, 3);
        ls_progress_free(steps);
        wait_ms(110);
        ls_progress_step(epochs, 1);
    }
    return ls_finish(run);
}

static void bars_nest(void)
{
    CHECK(run_on_terminal(80, nests, text, sizeof text) == 0);
    screen_of(text, screen);
    int counts[3][2] = {{0}};
    CHECK_MSG(sscanf(screen,
                     "steps 100%% [%*[=]] %d/%d %*[^\n] steps 100%% [%*[=]] %d/%d %*[^\n] epochs 100%% [%*[=]] %d/%d",
                     &counts[0][0], &counts[0][1], &counts[1][0], &counts[1][1], &counts[2][0], &counts[2][1]) == 6,
              "%s", screen);
    CHECK(counts[0][0] == 3 && counts[1][0] == 3 && counts[2][0] == 2);
    CHECK_HAS(text, "epochs  50%");
}

static int counts_batches(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_tensor *x = ls_keep(ls_arange(run, LS_F32, 10, 0, 1));
    ls_loader *loader = ls_loader_new(run, ls_tensor_dataset_new(run, x), .batch = 4);
    ls_progress *bar = ls_progress_new(run, 2 * ls_len(loader), .unit = "batch");
    double sum = 0;
    for (int epoch = 0; epoch < 2; epoch++)
        for (ls_batch b; ls_progress_next(bar, loader, &b);) sum += ls_item(ls_sum(b.tensor[0]));
    for (ls_batch b; ls_progress_next(NULL, loader, &b);) sum += 0.5;
    return ls_finish(run) + (sum != 91.5);
}

static void batches_of_a_loader_are_steps(void)
{
    CHECK(run_captured(NULL, counts_batches, text, sizeof text) == 0);
    CHECK(strncmp(text, "6 batches in", 12) == 0);
}

static void misuse_does_nothing(void)
{
    ls_progress_step(NULL, 1);
    ls_progress_show(NULL, "x", 1);
    ls_progress_free(NULL);
    ls_run *run = ls_init(NULL, NULL);
    CHECK(ls_progress_new(run, -1) == NULL && ls_error(run) == LS_ERR_VALUE);
    CHECK(ls_progress_new(run, 5) == NULL);
    ls_clear_error(run);
    ls_progress *bar = ls_progress_new(run, 5, .quiet = true);
    for (int i = 0; i < 20; i++) ls_progress_show(bar, (char[]){(char)('a' + i), 0}, i); /* more than it can show */
    ls_progress_show(bar, NULL, 0);
    CHECK(ls_finish(run) == 0);
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    CHECK_RUN(levels_choose_what_is_shown);
    CHECK_RUN(debug_shows_the_place);
    CHECK_RUN(time_comes_first);
    CHECK_RUN(one_line_without_a_terminal);
    CHECK_RUN(names_do_not_control_the_terminal);
    CHECK_RUN(batches_of_a_loader_are_steps);
    CHECK_RUN(a_program_may_show_bars_itself);
    if (!has_terminals()) strcpy(check_skip_all, "no pseudo terminals here");
    CHECK_RUN(the_bar_stays_below_other_output);
    CHECK_RUN(many_steps_are_few_drawings);
    CHECK_RUN(no_terminal_is_too_narrow);
    CHECK_RUN(bars_nest);
    check_skip_all[0] = '\0';
    CHECK_RUN(misuse_does_nothing);
    return check_done();
}
