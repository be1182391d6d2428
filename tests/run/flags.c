/* flags.c - command lines: what a program and the run itself make of them. */
#include <lockstep.h>

#include <unistd.h>

#include "base/capture.h"
#include "check.h"
#include "tensor/context.h"

enum { ARGUMENTS = 32 };

typedef struct line {
    int argc;
    char *argv[ARGUMENTS];
} line;

/* A command line of these words. */
static line words(char *const *given, int count)
{
    line l = {.argc = count + 1, .argv = {"program"}};
    memcpy(l.argv + 1, given, (size_t)count * sizeof *given);
    return l;
}
#define LINE(...) words((char *[]){__VA_ARGS__}, (int)(sizeof((char *[]){__VA_ARGS__}) / sizeof(char *)))

typedef struct settings {
    const char *data_dir, *model;
    int epochs;
    int64_t batch_size;
    uint64_t id;
    double lr;
    bool freeze;
    ls_names predict;
} settings;

static bool parse(ls_run *run, line *l, settings *s, const char *arguments)
{
    ls_flag flags[] = {
        LS_FLAG("data_dir", &s->data_dir, "folder of photos"),
        LS_CHOICE("model", &s->model, "resnet18|resnet50d", "network"),
        LS_FLAG("epochs", &s->epochs, "passes over the data"),
        LS_FLAG("batch_size", &s->batch_size, "photos per step"),
        LS_FLAG("id", &s->id, "number of the run"),
        LS_FLAG("lr", &s->lr, "learning rate"),
        LS_FLAG("freeze", &s->freeze, "train the classifier alone"),
        LS_FLAG("predict", &s->predict, "photos to name"),
    };
    char **argv = l->argv;
    return ls_flags_read(run, &l->argc, &argv, flags, .about = "trains", .arguments = arguments);
}

static void all_spellings_are_read(void)
{
    ls_run *run = ls_init(NULL, NULL);
    settings s = {.model = "resnet18", .batch_size = 64, .freeze = true};
    line l = LINE("--data-dir", "pets", "--epochs=3", "one.jpg", "--batch_size", "-5", "--id=18446744073709551615",
                  "--lr", "3e-2", "--no-freeze", "--model=resnet50d", "--predict", "a", "b", "--", "--lr", "x");
    CHECK(parse(run, &l, &s, "FILE..."));
    CHECK_TEXT(ls_error_message(run), "");
    CHECK_TEXT(s.data_dir, "pets");
    CHECK_TEXT(s.model, "resnet50d");
    CHECK(s.epochs == 3 && s.batch_size == -5 && s.id == UINT64_MAX && s.lr == 3e-2 && !s.freeze);
    CHECK(s.predict.count == 2 && strcmp(s.predict.name[1], "b") == 0);
    CHECK(l.argc == 4 && !l.argv[4] && strcmp(l.argv[1], "one.jpg") == 0 && strcmp(l.argv[2], "--lr") == 0);
    line again = LINE("--predict=x", "y", "--freeze", "--freeze=no");
    CHECK(parse(run, &again, &s, NULL) && s.predict.count == 2 && strcmp(s.predict.name[0], "x") == 0 && !s.freeze);
    line python = LINE("--freeze", "True", "--epochs", "4");
    CHECK(parse(run, &python, &s, NULL) && s.freeze && s.epochs == 4);
    line argument = LINE("--freeze", "false", "--freeze", "1");
    CHECK(parse(run, &argument, &s, "FILE...") && s.freeze && argument.argc == 2);
    CHECK(ls_finish(run) == 0);
}

static void refused(line l, const char *message)
{
    ls_run *run = ls_init(NULL, NULL);
    settings s = {.model = "resnet18"};
    CHECK(!parse(run, &l, &s, NULL) && ls_error(run) == LS_ERR_VALUE);
    CHECK_TEXT(ls_error_message(run), message);
    ls_finish(run);
}

static void mistakes_are_named(void)
{
    CHECK(freopen("/dev/null", "w", stderr)); /* where ls_finish() repeats them */
    refused(LINE("--bath_size", "3"), "unknown flag --bath_size; did you mean --batch_size?");
    refused(LINE("--zzz"), "unknown flag --zzz; see --help");
    refused(LINE("--epochs", "many"), "--epochs is many; it must be a whole number");
    refused(LINE("--epochs", "3000000000"), "--epochs is 3000000000; it must be a whole number");
    refused(LINE("--epochs"), "--epochs is empty; it must be a whole number");
    refused(LINE("--data_dir", "--epochs", "3"), "--data_dir is empty; it must be a text");
    refused(LINE("--id", "-1"), "--id is -1; it must be a whole number from 0");
    refused(LINE("--lr=1e"), "--lr is 1e; it must be a number");
    refused(LINE("--lr=nan"), "--lr is nan; it must be a number");
    refused(LINE("--epochs=auto"), "--epochs is auto; it must be a whole number");
    refused(LINE("--model", "resnet"), "--model is resnet; it must be one of resnet18|resnet50d");
    refused(LINE("--freeze=perhaps"), "--freeze is perhaps; it must be yes or no");
    refused(LINE("--predict", "--freeze"), "--predict is empty; it must be one or more names");
    refused(LINE("photo.jpg"), "photo.jpg: arguments without a flag are not expected; see --help");
}

/* As the help page shows it; the numbers that stand for it inside are no values. */
static void auto_may_be_given_where_it_is_the_default(void)
{
    ls_run *run = ls_init(NULL, NULL);
    settings s = {.epochs = LS_AUTO, .batch_size = LS_AUTO, .id = LS_AUTO_SEED, .lr = LS_AUTO_REAL};
    line l = LINE("--epochs", "auto", "--batch_size=auto", "--id", "auto", "--lr", "auto");
    CHECK(parse(run, &l, &s, NULL));
    CHECK(s.epochs == LS_AUTO && s.batch_size == LS_AUTO && s.id == LS_AUTO_SEED && s.lr == LS_AUTO_REAL);
    const line wrong[] = {LINE("--epochs=-2147483648"), LINE("--id=18446744073709551615"), LINE("--lr=-inf")};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        l = wrong[i];
        CHECK(!parse(run, &l, &s, NULL) && ls_error(run) == LS_ERR_VALUE);
        ls_clear_error(run);
    }
    CHECK(ls_finish(run) == 0);
}

/* The program's variable would keep its default whatever the command line says. */
static void names_of_the_run_are_taken(void)
{
    uint64_t seed = 1;
    const ls_flag table[] = {LS_FLAG("seed", &seed, "of the program")};
    line l = LINE("--seed", "7");
    char **argv = l.argv;
    ls_run *run = ls_init(&l.argc, &argv);
    CHECK(!ls_flags_read(run, &l.argc, &argv, table) && ls_error(run) == LS_ERR_VALUE);
    CHECK(strstr(ls_error_message(run), "--seed is a flag of every run"));
    ls_finish(run);
}

static int asks_for_help(void)
{
    dup2(STDERR_FILENO, STDOUT_FILENO);
    ls_run *run = ls_init(NULL, NULL);
    settings s = {.model = "resnet18", .epochs = LS_AUTO, .batch_size = LS_AUTO, .id = LS_AUTO_SEED, .lr = 0.5};
    line l = LINE("--epochs", "x", "--help");
    bool goes_on = parse(run, &l, &s, "FILE...");
    return goes_on || ls_finish(run);
}

static void help_comes_from_the_table(void)
{
    static char text[8192];
    CHECK(run_captured(NULL, asks_for_help, text, sizeof text) == 0);
    CHECK(strstr(text, "usage: program [flags] FILE...\ntrains\n"));
    CHECK(strstr(text, "--model resnet18|resnet50d") && strstr(text, "network (resnet18)"));
    CHECK(strstr(text, "--freeze, --no-freeze") && strstr(text, "learning rate (0.5)"));
    CHECK(strstr(text, "passes over the data (auto)") && strstr(text, "photos per step (auto)"));
    CHECK(strstr(text, "number of the run (auto)"));
    CHECK(strstr(text, "--resume_from_checkpoint TEXT"));
    CHECK(strstr(text, "the same as --project_dir (.)"));
}

/* ---- the run's own ---- */

static void the_run_takes_its_own(void)
{
    line l = LINE("--epochs", "3", "--seed", "7", "--mixed-precision=bf16", "file", "--gradient_accumulation_steps",
                  "4", "--project_dir", "/tmp/x", "--", "--seed", "8");
    char **argv = l.argv;
    ls_run *run = ls_init(&l.argc, &argv, .seed = 1, .gradient_accumulation_steps = 2, .project_dir = ".");
    CHECK_TEXT(ls_error_message(run), "");
    CHECK(ls_rng(run).seed == 7 && ls_gradient_accumulation_steps(run) == 4);
    CHECK_TEXT(ls_project_dir(run), "/tmp/x");
    CHECK(ls_mixed_precision(run) == LS_BF16);
    CHECK(l.argc == 7 && strcmp(l.argv[1], "--epochs") == 0 && strcmp(l.argv[3], "file") == 0 &&
          strcmp(l.argv[4], "--") == 0 && !l.argv[7]);
    CHECK(ls_finish(run) == 0);

    line no = LINE("--mixed_precision", "no");
    argv = no.argv;
    run = ls_init(&no.argc, &argv, .mixed_precision = LS_F16);
    CHECK(ls_loss_scaler(run).scale == 1 && ls_mixed_precision(run) == LS_F32 && no.argc == 1);
    CHECK(ls_finish(run) == 0);

    line other = LINE("--bf16", "--no_cuda", "--mine");
    argv = other.argv;
    run = ls_init(&other.argc, &argv, .mixed_precision = LS_F16, .device = "gpu that is not there");
    CHECK(run && ls_mixed_precision(run) == LS_BF16 && other.argc == 2);
    CHECK(ls_finish(run) == 0);
    line python = LINE("--bf16", "False", "--fp16", "True", "--mine", "True");
    argv = python.argv;
    run = ls_init(&python.argc, &argv);
    CHECK(ls_mixed_precision(run) == LS_F16 && python.argc == 3);
    CHECK(ls_finish(run) == 0);
    line none = LINE("--save_total_limit", "0");
    argv = none.argv;
    run = ls_init(&none.argc, &argv);
    CHECK_TEXT(ls_error_message(run), "--save_total_limit is 0; it must be at least 1");
    ls_finish(run);
    line both = LINE("--bf16", "--mixed_precision", "fp16");
    argv = both.argv;
    run = ls_init(&both.argc, &argv);
    CHECK_TEXT(ls_error_message(run), "--bf16 and --mixed_precision fp16: give one of them");
    ls_clear_error(run);
    ls_finish(run);
    line bad = LINE("--mixed_precision", "fp8");
    argv = bad.argv;
    run = ls_init(&bad.argc, &argv);
    CHECK_TEXT(ls_error_message(run), "--mixed_precision is fp8; it must be one of no|bf16|fp16");
    int epoch;
    CHECK(!ls_epoch(run, 3, &epoch));
    CHECK(ls_finish(run) == 1);
    run = ls_init(NULL, NULL, .mixed_precision = LS_I64);
    CHECK(ls_error(run) == LS_ERR_VALUE);
    ls_finish(run);
    run = ls_init(NULL, NULL, .gradient_accumulation_steps = -1);
    CHECK(ls_error(run) == LS_ERR_VALUE);
    ls_finish(run);
}

/* The environment's say: each in a process of its own. */
static int accumulates(void)
{
    ls_run *run = ls_init(NULL, NULL, .gradient_accumulation_steps = 2, .mixed_precision = LS_BF16);
    return (int)ls_gradient_accumulation_steps(run) * 10 + (int)ls_mixed_precision(run);
}

static int precision(void)
{
    ls_run *run = ls_init(NULL, NULL);
    return ls_failed(run) ? 100 : (int)ls_mixed_precision(run);
}

static int starts(void)
{
    ls_run *run = ls_init(NULL, NULL);
    return ls_finish(run);
}

static int code(int status)
{
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void the_environment_comes_last_but_for_accumulation(void)
{
    static char text[4096];
    CHECK(code(run_captured(NULL, accumulates, text, sizeof text)) == 20 + LS_BF16);
    CHECK(code(run_captured("ACCELERATE_GRADIENT_ACCUMULATION_STEPS=3", accumulates, text, sizeof text)) ==
          30 + LS_BF16);
    CHECK(code(run_captured("LOCKSTEP_GRADIENT_ACCUMULATION_STEPS=5", accumulates, text, sizeof text)) == 50 + LS_BF16);
    static char *const none[] = {"ACCELERATE_GRADIENT_ACCUMULATION_STEPS=0", "LOCKSTEP_GRADIENT_ACCUMULATION_STEPS=-1",
                                 "LOCKSTEP_GRADIENT_ACCUMULATION_STEPS=2x"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        CHECK(code(run_captured(none[i], starts, text, sizeof text)) == 1);
        CHECK_MSG(strstr(text, "it must be at least 1"), "%s: %s", none[i], text);
    }
    CHECK(code(run_captured("ACCELERATE_MIXED_PRECISION=fp16", accumulates, text, sizeof text)) == 20 + LS_BF16);
    CHECK(code(run_captured("ACCELERATE_MIXED_PRECISION=fp16", precision, text, sizeof text)) == LS_F16);
    CHECK(code(run_captured("LOCKSTEP_MIXED_PRECISION=bf16", precision, text, sizeof text)) == LS_BF16);
    CHECK(code(run_captured("LOCKSTEP_MIXED_PRECISION=fp8", precision, text, sizeof text)) == 100);
    CHECK(code(run_captured("WORLD_SIZE=2", starts, text, sizeof text)) == 1);
    CHECK(strstr(text, "WORLD_SIZE is set, but RANK is not"));
    CHECK(code(run_captured("RANK=1", starts, text, sizeof text)) == 1);
    CHECK(strstr(text, "RANK is set, but WORLD_SIZE is not"));
    CHECK(code(run_captured("WORLD_SIZE=1", starts, text, sizeof text)) == 0);
}

int main(int argc, char **argv)
{
    check_filter = argc > 1 ? argv[1] : NULL;
    CHECK_RUN(help_comes_from_the_table);
    CHECK_RUN(the_environment_comes_last_but_for_accumulation);
    CHECK_RUN(all_spellings_are_read);
    CHECK_RUN(auto_may_be_given_where_it_is_the_default);
    CHECK_RUN(the_run_takes_its_own);
    CHECK_RUN(mistakes_are_named);
    CHECK_RUN(names_of_the_run_are_taken);
    return check_done();
}
