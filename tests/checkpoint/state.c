/* state.c - runs that are saved and resumed: everything is restored, damage is detected, nothing is lost on the way. */
#include <lockstep.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/capture.h"
#include "base/hash.h"
#include "base/memory.h"
#include "check.h"
#include "checkpoint/folder.h"
#include "checkpoint/manifest.h"
#include "checkpoint/points.h"
#include "run/team.h"

/* ---- a folder of our own ---- */

static const char *home;

static void clean(void)
{
    char command[600];
    snprintf(command, sizeof command, "rm -rf '%s'; mkdir -p '%s'", home, home);
    CHECK(system(command) == 0);
}

static const char *in_home(const char *name)
{
    static _Thread_local char path[4][512];
    static _Thread_local int turn;
    turn = (turn + 1) % 4;
    snprintf(path[turn], sizeof path[turn], "%s/%s", home, name);
    return path[turn];
}

static bool exists(const char *name)
{
    return access(in_home(name), F_OK) == 0;
}

/* ---- a small training ---- */

typedef struct training {
    ls_run *run;
    ls_module *net;
    ls_optim *adam;
    ls_schedule *cycle;
    ls_loader *train, *eval;
} training;

static training start(ls_run *run)
{
    training t = {.run = run};
    t.net = ls_sequential_new(run, ls_linear_new(run, 4, 16), ls_batch_norm_new(run, 16), ls_relu_new(run),
                              ls_dropout_new(run, 0.2), ls_linear_new(run, 16, 2));
    t.adam = ls_adamw_new(run, t.net, .lr = 1e-2);
    t.cycle = ls_one_cycle_schedule_new(t.adam, .max_lr = 1e-2, .total_steps = 40);
    t.train = ls_loader_new(run, points(run, 22, 4), .batch = 4, .shuffle = true);
    t.eval = ls_loader_new(run, points(run, 8, 4), .batch = 8);
    ls_prepare(run, t.cycle, t.train, t.net, t.adam, t.eval);
    return t;
}

static double train_batch(training *t, const ls_batch *b)
{
    ls_train(t->net);
    ls_tensor *loss = ls_cross_entropy(ls_forward(t->net, b->image), b->label);
    ls_backward(t->run, loss);
    ls_clip_grad_norm(t->adam, 1);
    ls_step(t->adam);
    ls_schedule_step(t->cycle);
    ls_zero_grad(t->adam);
    return ls_item(loss);
}

typedef struct record {
    double loss[256];
    int count;
} record;

enum { EPOCHS = 4, NEVER = -1 };

/* Train to the end or to `stop` losses, saving (automatically) after every `save_every` of them and after each
 * epoch. */
static void train(training *t, record *r, int save_every, int stop)
{
    for (int epoch; ls_epoch(t->run, EPOCHS, &epoch);) {
        for (ls_batch b; ls_next(t->train, &b);) {
            r->loss[r->count++] = train_batch(t, &b);
            if (save_every > 0 && r->count % save_every == 0) CHECK(ls_save_state(t->run, NULL));
            if (r->count == stop) return;
        }
        ls_eval(t->net);
        double sum = 0;
        for (ls_batch b; ls_next(t->eval, &b);) sum += ls_item(ls_cross_entropy(ls_forward(t->net, b.image), b.label));
        r->loss[r->count++] = sum;
        if (save_every > 0) CHECK(ls_save_state(t->run, NULL));
        if (r->count == stop) return;
    }
}

static ls_init_opts plain = {ls_init_opts_defaults};

static training start_with(ls_init_opts o)
{
    o.seed = 3;
    o.project_dir = home;
    return start(ls_init_sized(NULL, NULL, &o, LS_OPTS_SIZE(ls_init_opts)));
}

/* Interrupt after each number of losses in turn, and resume from the latest checkpoint: identical to the last bit. */
static void goes_on_exactly(ls_init_opts o, int save_every)
{
    record whole = {0};
    training t = start_with(o);
    train(&t, &whole, 0, NEVER);
    CHECK(ls_finish(t.run) == 0 && whole.count == 28);
    for (int stop = 1; stop <= whole.count; stop += 3) {
        clean();
        record r = {0};
        t = start_with(o);
        train(&t, &r, save_every, stop);
        CHECK(ls_finish(t.run) == 0);
        /* position of the latest checkpoint: everything after it is repeated */
        int saved = 0;
        for (int i = 1; i <= stop; i++)
            if (i % save_every == 0 || i % 7 == 0) saved = i;
        r.count = saved;
        o.resume_from_checkpoint = "latest";
        t = start_with(o);
        train(&t, &r, save_every, NEVER);
        CHECK_TEXT(ls_error_message(t.run), "");
        CHECK_MSG(r.count == whole.count && memcmp(r.loss, whole.loss, sizeof(double) * (size_t)r.count) == 0,
                  "stopped after %d: %d losses, the last %.17g instead of %.17g", stop, r.count, r.loss[r.count - 1],
                  whole.loss[whole.count - 1]);
        CHECK(ls_finish(t.run) == 0);
        o.resume_from_checkpoint = NULL;
    }
}

static void runs_resume_exactly(void)
{
    goes_on_exactly(plain, 1);
    goes_on_exactly(plain, 5);
}

static void accumulating_runs_resume_exactly(void)
{
    goes_on_exactly(LS_OPTIONS(ls_init_opts, .gradient_accumulation_steps = 4), 1);
    goes_on_exactly(LS_OPTIONS(ls_init_opts, .gradient_accumulation_steps = 3, .accumulate_across_epochs = true), 2);
}

static void mixed_precision_resumes_exactly(void)
{
    goes_on_exactly(LS_OPTIONS(ls_init_opts, .mixed_precision = LS_F16), 2);
    goes_on_exactly(LS_OPTIONS(ls_init_opts, .mixed_precision = LS_BF16, .async_save = true, .total_limit = 2), 1);
}

/* ---- names and limits ---- */

static void only_the_latest_are_kept(void)
{
    for (int async = 0; async < 2; async++) {
        clean();
        training t = start_with(LS_OPTIONS(ls_init_opts, .total_limit = 2, .async_save = async));
        for (int i = 0; i < 11; i++) CHECK(ls_save_state(t.run, NULL));
        CHECK(ls_wait_for_save(t.run));
        int64_t *numbers, count = ls_folder_numbers(in_home("checkpoints"), &numbers);
        CHECK(count == 2 && numbers[0] == 9 && numbers[1] == 10);
        ls_sys_free(numbers);
        CHECK(ls_finish(t.run) == 0);
        t = start_with(plain); /* numbering continues */
        CHECK(ls_load_state(t.run, NULL) && ls_save_state(t.run, NULL) &&
              exists("checkpoints/checkpoint_11/state.json"));
        CHECK(ls_finish(t.run) == 0);
    }
}

/* Folders with numbers that cannot be ours are ignored, and there is a last number. */
static void numbers_have_a_limit(void)
{
    clean();
    CHECK(mkdir(in_home("checkpoints"), 0777) == 0 && mkdir(in_home("checkpoints/checkpoint_007"), 0777) == 0);
    CHECK(mkdir(in_home("checkpoints/checkpoint_9223372036854775807"), 0777) == 0);
    training t = start_with(plain);
    CHECK(ls_save_state(t.run, NULL) && exists("checkpoints/checkpoint_0/state.json"));
    CHECK(rename(in_home("checkpoints/checkpoint_0"), in_home("checkpoints/checkpoint_999999999999")) == 0);
    CHECK(!ls_save_state(t.run, NULL) && strstr(ls_error_message(t.run), "the highest possible number; rename it"));
    ls_finish(t.run);
}

static int begin_in_an_old_folder(void)
{
    for (int resumes = 0; resumes < 2; resumes++) {
        training t = start_with(LS_OPTIONS(ls_init_opts, .total_limit = 3));
        CHECK(!ls_resumed_from(t.run));
        if (resumes) CHECK(ls_load_state(t.run, NULL) && strstr(ls_resumed_from(t.run), "checkpoints/checkpoint_3"));
        for (int i = 0; i < 2; i++) ls_save_state(t.run, NULL);
        for (int epoch; ls_epoch(t.run, 1, &epoch);) {}
        if (ls_finish(t.run) != 0) return 1;
    }
    training t = start_with(plain);
    for (int epoch; ls_epoch(t.run, 1, &epoch);) {}
    return ls_finish(t.run);
}

/* Starting a new training in a folder with older checkpoints reports, once, what happens to both. */
static void older_checkpoints_are_named(void)
{
    clean();
    training t = start_with(plain);
    for (int i = 0; i < 2; i++) CHECK(ls_save_state(t.run, NULL));
    for (int epoch; ls_epoch(t.run, 1, &epoch);) {} /* its own checkpoints are not older ones */
    CHECK(ls_finish(t.run) == 0);
    char text[4096], expected[1024];
    CHECK(run_captured(NULL, begin_in_an_old_folder, text, sizeof text) == 0);
    snprintf(
        expected, sizeof expected,
        "lockstep: warning: %s/checkpoints holds an older training, up to checkpoint_1, from which this one does not "
        "resume: its own checkpoints start with checkpoint_2, and only the latest 3 of all are kept; resume from the "
        "older one, or use another folder\n"
        "lockstep: resuming from %s/checkpoints/checkpoint_3: epoch 0, step 0\n"
        "lockstep: warning: %s/checkpoints holds an older training, up to checkpoint_5, from which this one does not "
        "resume: its own checkpoints start with checkpoint_6; resume from the older one, or use another folder\n",
        home, home, home);
    CHECK_TEXT(text, expected);
}

static void a_named_folder_is_replaced(void)
{
    clean();
    training t = start_with(plain);
    char folder[512];
    snprintf(folder, sizeof folder, "%s", in_home("mine/best"));
    for (int i = 0; i < 3; i++) CHECK(ls_save_state(t.run, folder));
    CHECK(exists("mine/best/model.safetensors") && exists("mine/best/optimizer.safetensors"));
    CHECK(exists("mine/best/scheduler.json") && exists("mine/best/random_states_0.json") && !exists("mine/best.part"));
    CHECK(!exists("mine/best/gradients.safetensors") && !exists("mine/best/scaler.json"));
    CHECK(ls_load_state(t.run, folder));
    mkdir(in_home("other"), 0777);
    close(open(in_home("other/thing"), O_CREAT | O_WRONLY, 0666));
    CHECK(!ls_save_state(t.run, in_home("other")) && ls_error(t.run) == LS_ERR_IO && exists("other/thing"));
    CHECK(strstr(ls_error_message(t.run), "other: it contains other things than a checkpoint"));
    CHECK(ls_finish(t.run) == 1);
}

/* However the path is written: with a trailing slash, through a link. */
static void a_folder_may_be_named_in_any_way(void)
{
    clean();
    training t = start_with(plain);
    for (int i = 0; i < 2; i++) CHECK(ls_save_state(t.run, in_home("slash//")));
    CHECK(exists("slash/state.json") && !exists("slash/.part") && !exists("slash.part"));
    CHECK(ls_save_state(t.run, in_home("real")) && symlink("real", in_home("link")) == 0);
    for (int i = 0; i < 2; i++) CHECK(ls_save_state(t.run, in_home("link")));
    char target[16];
    CHECK(readlink(in_home("link"), target, sizeof target) == 4 && !exists("real.part") && !exists("link.part"));
    CHECK(ls_load_state(t.run, in_home("link")) && ls_load_state(t.run, in_home("slash/")));
    CHECK(ls_finish(t.run) == 0);
}

/* A folder that cannot be written is reported before training, not after it. */
static void the_project_is_opened_first(void)
{
    clean();
    int epoch;
    ls_run *run = ls_init(NULL, NULL, .project_dir = in_home("a/b"));
    CHECK(ls_epoch(run, 1, &epoch) && exists("a/b"));
    CHECK(ls_finish(run) == 0);
    close(open(in_home("file"), O_CREAT | O_WRONLY, 0666));
    run = ls_init(NULL, NULL, .project_dir = in_home("file"));
    CHECK(!ls_epoch(run, 1, &epoch) && ls_error(run) == LS_ERR_IO && strstr(ls_error_message(run), "it is a file"));
    ls_finish(run);
    run = ls_init(NULL, NULL, .project_dir = "");
    CHECK(ls_error(run) == LS_ERR_VALUE && strstr(ls_error_message(run), "folder is empty"));
    ls_finish(run);
}

/* ---- damage ---- */

static void change_byte(const char *name, off_t at)
{
    int file = open(in_home(name), O_RDWR);
    char c = 0;
    CHECK(file >= 0 && pread(file, &c, 1, at) == 1);
    c ^= 1;
    CHECK(pwrite(file, &c, 1, at) == 1);
    close(file);
}

static void refused(const char *words)
{
    training t = start_with(plain);
    double before = ls_item(ls_sum(ls_module_tensor(t.net, "0.weight")));
    CHECK(!ls_load_state(t.run, in_home("one")) && ls_error(t.run) == LS_ERR_IO);
    CHECK_MSG(strstr(ls_error_message(t.run), words), "\"%s\" lacks \"%s\"", ls_error_message(t.run), words);
    ls_clear_error(t.run);
    CHECK(ls_item(ls_sum(ls_module_tensor(t.net, "0.weight"))) == before && t.run->session->epoch == 0);
    ls_finish(t.run);
}

static void save_one(const char *name)
{
    clean();
    training t = start_with(plain);
    record r = {0};
    train(&t, &r, 0, 3);
    CHECK(ls_save_state(t.run, in_home(name)));
    CHECK(ls_finish(t.run) == 0);
}

static void damage_is_named(void)
{
    save_one("one");
    change_byte("one/model.safetensors", 700);
    refused("one: model.safetensors does not match its checksum");
    save_one("one");
    CHECK(truncate(in_home("one/optimizer.safetensors"), 100) == 0);
    refused("one: optimizer.safetensors has 100 bytes instead of");
    save_one("one");
    unlink(in_home("one/dataloader.json"));
    refused("one: dataloader.json is missing");
    save_one("one");
    change_byte("one/state.json", 110);
    refused("state.json");
    save_one("one");
    CHECK(truncate(in_home("one/state.json"), 200) == 0);
    refused("one: state.json is damaged: line");
    save_one("one");
    unlink(in_home("one/state.json"));
    refused("one: state.json is missing: this is not a checkpoint");
    clean();
    refused("there is no folder");
    training named = start_with(plain);
    CHECK(!ls_load_state(named.run, "checkpoint_8"));
    CHECK_MSG(strstr(ls_error_message(named.run), "there is no folder \"checkpoint_8\", and none of that name in ") &&
                  strstr(ls_error_message(named.run), "/checkpoints"),
              "%s", ls_error_message(named.run));
    ls_finish(named.run);
    training t = start_with(plain);
    CHECK(!ls_load_state(t.run, NULL) && strstr(ls_error_message(t.run), "there is no complete checkpoint in"));
    ls_finish(t.run);
}

static void damaged_ones_are_skipped(void)
{
    clean();
    training t = start_with(plain);
    record r = {0};
    train(&t, &r, 2, 8);
    CHECK(ls_finish(t.run) == 0);
    int64_t *numbers, count = ls_folder_numbers(in_home("checkpoints"), &numbers);
    CHECK(count == 5 && numbers[4] == 4); /* after 2, 4, 6, 7 and 8 */
    ls_sys_free(numbers);
    unlink(in_home("checkpoints/checkpoint_4/model.safetensors"));
    mkdir(in_home("checkpoints/checkpoint_5"), 0777);
    t = start_with(LS_OPTIONS(ls_init_opts, .resume_from_checkpoint = "latest"));
    int epoch;
    CHECK(ls_epoch(t.run, EPOCHS, &epoch) && epoch == 1 && ls_optim_steps_taken(t.adam) == 6);
    CHECK(ls_save_state(t.run, NULL) && exists("checkpoints/checkpoint_6/state.json"));
    CHECK(ls_finish(t.run) == 0);
    t = start_with(LS_OPTIONS(ls_init_opts, .resume_from_checkpoint = "checkpoint_1")); /* in the project's folder */
    CHECK(ls_epoch(t.run, EPOCHS, &epoch) && ls_optim_steps_taken(t.adam) == 4);
    CHECK(ls_finish(t.run) == 0);
}

static void a_checkpoint_that_does_not_match_is_refused(void)
{
    save_one("one");
    ls_run *run = ls_init(NULL, NULL);
    ls_prepare(run, ls_linear_new(run, 2, 2));
    CHECK(!ls_load_state(run, in_home("one")) && ls_error(run) == LS_ERR_STATE);
    CHECK(strstr(ls_error_message(run),
                 "1 modules, 1 optimisers, 1 schedules and 2 loaders; 1, 0, 0 and 0 are prepared"));
    ls_finish(run);

    /* the message must say what was expected, and which file is wrong */
    training t = start_with(plain);
    CHECK(ls_save_state(t.run, NULL));
    CHECK(!ls_load_state(t.run, home) && strstr(ls_error_message(t.run), "the newest is") &&
          strstr(ls_error_message(t.run), "/checkpoints/checkpoint_0"));
    ls_clear_error(t.run);
    CHECK(!ls_load_state(t.run, in_home("one/state.json")) &&
          strstr(ls_error_message(t.run), "is a file; checkpoints"));
    ls_finish(t.run);
    ls_run *other = ls_init(NULL, NULL);
    ls_module *net = ls_sequential_new(other, ls_linear_new(other, 4, 16), ls_linear_new(other, 16, 2));
    ls_optim *adam = ls_adamw_new(other, net, .lr = 1e-2);
    ls_prepare(other, net, adam, ls_one_cycle_schedule_new(adam, .max_lr = 1e-2, .total_steps = 2),
               ls_loader_new(other, points(other, 22, 4), .batch = 4),
               ls_loader_new(other, points(other, 8, 4), .batch = 8));
    CHECK(!ls_load_state(other, in_home("one")) && strstr(ls_error_message(other), in_home("one")));
    CHECK_MSG(
        strstr(ls_error_message(other), "model.safetensors: it belongs to another model, with 9 tensors instead of 4"),
        "%s", ls_error_message(other));
    ls_finish(other);
}

/* ---- what is registered, and hooks ---- */

typedef struct words {
    char text[32];
    bool refuses;
} words;

static ls_bytes save_words(void *user)
{
    words *w = user;
    return (ls_bytes){w->text, strlen(w->text)};
}

static bool load_words(const void *data, size_t size, void *user)
{
    words *w = user;
    memset(w->text, 0, sizeof w->text);
    memcpy(w->text, data, size);
    return !w->refuses;
}

static void registered_objects_are_restored(void)
{
    clean();
    training t = start_with(plain);
    double best = 0.75;
    words w = {.text = "seven"};
    ls_state *extra = ls_state_new(t.run);
    ls_tensor *mean = ls_keep(ls_full(t.run, LS_F64, 2.5, 3));
    ls_state_add(extra, "mean", mean);
    ls_register_for_checkpointing(t.run, "best", .data = &best, .size = sizeof best);
    ls_register_for_checkpointing(t.run, "words", .save = save_words, .load = load_words, .user = &w);
    ls_register_for_checkpointing(t.run, "extra", .tensors = extra);
    CHECK(ls_save_state(t.run, in_home("one")));
    best = 0;
    strcpy(w.text, "another");
    ls_init_constant(mean, 0);
    CHECK(ls_load_state(t.run, in_home("one")));
    CHECK(best == 0.75 && strcmp(w.text, "seven") == 0 && ls_item(ls_min(mean)) == 2.5);
    w.refuses = true;
    CHECK(!ls_load_state(t.run, in_home("one")) &&
          strstr(ls_error_message(t.run), "custom_words.bin: its load function"));
    ls_clear_error(t.run);

    static const char *const bad[] = {"a/b", "best", "", "nothing"};
    for (int i = 0; i < 4; i++) {
        if (i == 3) ls_register_for_checkpointing(t.run, bad[i]);
        else ls_register_for_checkpointing(t.run, bad[i], .data = &best, .size = sizeof best);
        CHECK(ls_error(t.run) == LS_ERR_VALUE && strstr(ls_error_message(t.run), bad[i]));
        ls_clear_error(t.run);
    }
    ls_register_for_checkpointing(t.run, "late", .data = &best, .size = sizeof best);
    CHECK(!ls_load_state(t.run, in_home("one")) &&
          strstr(ls_error_message(t.run), "custom_late.bin: it is registered"));
    CHECK(ls_finish(t.run) == 1);
}

static void write_note(ls_run *run, const char *folder, void *user)
{
    (void)run;
    char path[512];
    snprintf(path, sizeof path, "%s/note.txt", folder);
    FILE *file = fopen(path, "w");
    fputs("hello", file);
    fclose(file);
    ++*(int *)user;
}

static void read_note(ls_run *run, const char *folder, void *user)
{
    (void)run;
    char path[512];
    snprintf(path, sizeof path, "%s/note.txt", folder);
    *(int *)user += access(path, F_OK) == 0;
}

static void refuse_to_save(ls_run *run, const char *folder, void *user)
{
    (void)folder, (void)user;
    ls_set_error(run, LS_ERR_STATE, "not %s", "now");
}

static void write_in_folder(ls_run *run, const char *folder, void *user)
{
    char path[512];
    snprintf(path, sizeof path, "%s/ema", folder);
    CHECK(ls_save_model(run, user, path));
}

static void hooks_may_make_folders(void)
{
    clean();
    training t = start_with(plain);
    ls_register_save_hook(t.run, write_in_folder, t.net);
    for (int i = 0; i < 2; i++) CHECK_MSG(ls_save_state(t.run, in_home("one")), "%s", ls_error_message(t.run));
    CHECK(exists("one/ema/model.safetensors") && ls_load_state(t.run, in_home("one")));
    change_byte("one/ema/model.safetensors", 700);
    CHECK(!ls_load_state(t.run, in_home("one")) &&
          strstr(ls_error_message(t.run), "ema/model.safetensors does not match its checksum"));
    CHECK(ls_finish(t.run) == 1);
}

static void hooks_take_part(void)
{
    clean();
    training t = start_with(plain);
    int saves = 0, loads = 0;
    ls_hook *on_save = ls_register_save_hook(t.run, write_note, &saves),
            *on_load = ls_register_load_hook(t.run, read_note, &loads);
    CHECK(ls_save_state(t.run, in_home("one")) && ls_load_state(t.run, in_home("one")) && saves == 1 && loads == 1);
    ls_hook_remove(on_load);
    CHECK(ls_load_state(t.run, in_home("one")) && loads == 1);
    change_byte("one/note.txt", 0); /* their files have checksums, too */
    CHECK(!ls_load_state(t.run, in_home("one")) && strstr(ls_error_message(t.run), "note.txt does not match"));
    ls_clear_error(t.run);
    ls_hook_remove(on_save);
    CHECK(ls_save_state(t.run, in_home("one")) && saves == 1 && !exists("one/note.txt"));
    on_save = ls_register_save_hook(t.run, refuse_to_save, NULL); /* a hook that fails ends the save */
    CHECK(!ls_save_state(t.run, in_home("two")) && ls_error(t.run) == LS_ERR_STATE);
    CHECK_TEXT(ls_error_message(t.run), "not now");
    CHECK(!exists("two") && !exists("two.part"));
    ls_clear_error(t.run);
    ls_hook_remove(on_save);
    CHECK(ls_save_state(t.run, in_home("two")));
    CHECK(ls_finish(t.run) == 0);
}

/* ---- going back ---- */

/* A checkpoint from before the first step takes all steps back, moments too. */
static void a_run_can_go_back(void)
{
    clean();
    training t = start_with(plain);
    CHECK(ls_save_state(t.run, in_home("begin")));
    record first = {0}, second = {0};
    train(&t, &first, 0, 12);
    ls_optim_set_lr(t.adam, 7);
    CHECK(ls_load_state(t.run, in_home("begin")) && ls_optim_steps_taken(t.adam) == 0 && ls_optim_lr(t.adam) < 1);
    train(&t, &second, 0, 12);
    CHECK(memcmp(&first, &second, sizeof first) == 0);
    CHECK(ls_finish(t.run) == 0);
}

/* Rates not set by a schedule, of every group, and the momentum of SGD. */
static void rates_set_by_hand_are_restored(void)
{
    clean();
    ls_run *run = ls_init(NULL, NULL);
    ls_module *net = ls_linear_new(run, 2, 2);
    ls_optim *sgd = ls_sgd_new(run, net, .lr = 0.5, .momentum = 0.9);
    ls_optim_add_group(sgd, ls_state_matching(ls_parameters(net), "bias"), .lr = 0.25);
    ls_prepare(run, net, sgd);
    ls_backward(run, ls_sum(ls_forward(net, ls_ones(run, LS_F32, 1, 2))));
    CHECK(ls_step(sgd));
    ls_optim_set_group(sgd, 0, .lr = 0.1, .weight_decay = 1e-3);
    CHECK(ls_save_state(run, in_home("one")));
    float before[4], after[4];
    ls_read(ls_state_find(ls_optim_state_dict(sgd), "weight.momentum_buffer"), before, sizeof before);
    ls_optim_set_lr(sgd, 3);
    ls_step(sgd);
    CHECK(ls_load_state(run, in_home("one")));
    CHECK(ls_optim_lr(sgd) == 0.1 && ls_optim_group(sgd, 0).weight_decay == 1e-3 && ls_optim_group(sgd, 1).lr == 0.25);
    ls_read(ls_state_find(ls_optim_state_dict(sgd), "weight.momentum_buffer"), after, sizeof after);
    CHECK(memcmp(before, after, sizeof before) == 0 && ls_optim_steps_taken(sgd) == 1);
    CHECK(ls_finish(run) == 0);
}

/* ---- other numbers of processes ---- */

static int seen[22];
static pthread_mutex_t seen_lock = PTHREAD_MUTEX_INITIALIZER;

static void count_samples(const ls_batch *b)
{
    pthread_mutex_lock(&seen_lock);
    for (int64_t i = 0; i < b->size; i++) seen[b->index[i]]++;
    pthread_mutex_unlock(&seen_lock);
}

/* Two processes read two batches each of the epoch, and save. */
static void save_as_two(ls_run *run)
{
    ls_loader *train = ls_loader_new(run, points(run, 22, 4), .batch = 3, .shuffle = true, .seed = 8);
    ls_prepare(run, train);
    int epoch;
    CHECK(ls_epoch(run, 1, &epoch));
    ls_batch b;
    for (int i = 0; i < 2; i++) {
        CHECK(ls_next(train, &b));
        count_samples(&b);
    }
    ls_set_rng(run, (ls_rng_state){.seed = 5, .offset = (uint64_t)ls_rank(run)});
    CHECK(ls_save_state(run, in_home("two")));
}

/* Any number of processes continues with the rest: every sample comes once, except for those that pad the last
 * round. */
static void go_on(ls_run *run)
{
    ls_loader *train = ls_loader_new(run, points(run, 22, 4), .batch = 2, .shuffle = true, .seed = 1);
    ls_prepare(run, train);
    CHECK(ls_load_state(run, in_home("two")));
    CHECK(ls_rng(run).offset == (ls_rank(run) == 1 ? 1 : 0));
    for (int epoch; ls_epoch(run, 1, &epoch);)
        for (ls_batch b; ls_next(train, &b);) count_samples(&b);
}

static void another_number_of_processes_resumes(void)
{
    for (int world = 1; world <= 3; world++) {
        clean();
        memset(seen, 0, sizeof seen);
        team_run(2, save_as_two);
        CHECK(exists("two/random_states_0.json") && exists("two/random_states_1.json"));
        team_run(world, go_on);
        int total = 0, missing = 0;
        for (int i = 0; i < 22; i++) {
            total += seen[i];
            missing += seen[i] == 0;
        }
        int round = 2 * world, rest = (10 + round - 1) / round * round;
        CHECK_MSG(missing == 0 && total == 12 + rest, "world %d: %d missing, %d in all", world, missing, total);
    }
}

/* ---- loops inside loops ---- */

static double numbers[64];
static int number_count, saved_count;

/* Evaluate after every second batch, and save in the middle of each evaluation. */
static void train_with_evaluations(ls_init_opts o, int stop)
{
    training t = start_with(o);
    for (int epoch; ls_epoch(t.run, 2, &epoch);) {
        for (ls_batch b; ls_next(t.train, &b);) {
            numbers[number_count++] = train_batch(&t, &b);
            if (b.index[0] % 2) continue;
            for (ls_batch e; ls_next(t.eval, &e);) CHECK(e.size == 8 && ls_save_state(t.run, NULL));
            saved_count = number_count;
            if (stop && number_count >= stop) goto finish;
        }
        for (ls_batch e; ls_next(t.eval, &e);) CHECK(e.size == 8);
    }
finish:
    CHECK(ls_finish(t.run) == 0);
}

static void saved_in_an_inner_loop_the_outer_one_resumes(void)
{
    clean();
    train_with_evaluations(plain, 0);
    double whole[64];
    memcpy(whole, numbers, sizeof whole);
    int count = number_count;
    for (int stop = 1; stop < count; stop += 2) {
        clean();
        number_count = 0;
        train_with_evaluations(plain, stop);
        number_count = saved_count;
        train_with_evaluations(LS_OPTIONS(ls_init_opts, .resume_from_checkpoint = "latest"), 0);
        CHECK_MSG(number_count == count && memcmp(whole, numbers, sizeof(double) * (size_t)count) == 0,
                  "stopped at %d of %d: %d numbers", stop, count, number_count);
    }
    number_count = 0;
}

/* ---- leftovers ---- */

static void remains_of_a_killed_save_do_no_harm(void)
{
    for (int async = 0; async < 2; async++) {
        clean();
        training t = start_with(LS_OPTIONS(ls_init_opts, .async_save = async, .total_limit = 1));
        CHECK(ls_save_state(t.run, NULL) && ls_wait_for_save(t.run));
        mkdir(in_home("checkpoints/checkpoint_1.part"), 0777);
        close(open(in_home("checkpoints/checkpoint_1.part/rest"), O_CREAT | O_WRONLY, 0666));
        mkdir(in_home("checkpoints/checkpoint_0.part"), 0777);
        CHECK(ls_save_state(t.run, NULL) && ls_wait_for_save(t.run));
        CHECK(exists("checkpoints/checkpoint_1/state.json") && !exists("checkpoints/checkpoint_1/rest"));
        CHECK(!exists("checkpoints/checkpoint_0") && !exists("checkpoints/checkpoint_0.part"));
        CHECK(ls_finish(t.run) == 0);
    }
}

/* ---- memory ---- */

typedef bool step_fn(ls_run *run);

static bool save_and_wait(ls_run *run)
{
    return ls_save_state(run, in_home("new")) && ls_wait_for_save(run);
}

static bool load_old(ls_run *run)
{
    return ls_load_state(run, in_home("old"));
}

/* Every allocation fails in turn: an error and nothing else, and what is on disk stays valid. */
static void walk_requests(ls_run *run, step_fn *step)
{
    uint64_t before = ls_sys_calls();
    CHECK(step(run));
    uint64_t requests = ls_sys_calls() - before;
    CHECK(requests > 5);
    for (uint64_t n = 1; n <= requests; n++) {
        ls_sys_fail_at(n);
        bool ok = step(run);
        ls_sys_fail_at(0);
        CHECK(ok == (ls_error(run) == LS_OK));
        CHECK_MSG(ok || ls_error(run) == LS_ERR_MEMORY || strstr(ls_error_message(run), "no memory"), "request %d: %s",
                  (int)n, ls_error_message(run));
        ls_clear_error(run);
        ls_manifest manifest;
        ls_message why = {{0}};
        CHECK_MSG(ls_manifest_check(in_home("old"), &manifest, &why), "%s", why.text);
        CHECK_MSG(ls_manifest_check(in_home("new"), &manifest, &why), "%s", why.text);
        CHECK(!exists("new.part"));
    }
    CHECK(step(run));
}

static void memory_may_run_out_anywhere(void)
{
    for (int async = 0; async < 2; async++) {
        clean();
        training t = start_with(LS_OPTIONS(ls_init_opts, .async_save = async, .gradient_accumulation_steps = 2));
        record r = {0};
        train(&t, &r, 0, 3);
        CHECK(ls_save_state(t.run, in_home("old")) && save_and_wait(t.run));
        walk_requests(t.run, save_and_wait);
        walk_requests(t.run, load_old);
        CHECK(ls_finish(t.run) == 0);
    }
}

/* ---- the checksum ---- */

static void checksums_are_xxh64(void)
{
    static const struct {
        const char *text;
        uint64_t hash;
    } known[] = {{"", 0xef46db3751d8e999u}, {"a", 0xd24ec4f1a98c6e5bu}, {"abc", 0x44bc2cf5ad770999u}};
    ls_hash h;
    for (int i = 0; i < 3; i++) {
        ls_hash_begin(&h);
        ls_hash_add(&h, known[i].text, strlen(known[i].text));
        CHECK(ls_hash_end(&h) == known[i].hash);
    }
    /* chunks of any size give the same */
    char bytes[200];
    for (int i = 0; i < 200; i++) bytes[i] = (char)(i * 7);
    for (size_t n = 0; n <= 200; n++) {
        ls_hash_begin(&h);
        ls_hash_add(&h, bytes, n);
        uint64_t whole = ls_hash_end(&h);
        for (size_t piece = 1; piece < 70; piece += 11) {
            ls_hash_begin(&h);
            for (size_t at = 0; at < n; at += piece) ls_hash_add(&h, bytes + at, n - at < piece ? n - at : piece);
            CHECK(ls_hash_end(&h) == whole);
        }
    }
}

int main(int argc, char **argv)
{
    check_filter = argc > 1 ? argv[1] : NULL;
    home = home_of("state");
    CHECK_RUN(checksums_are_xxh64);
    CHECK_RUN(runs_resume_exactly);
    CHECK_RUN(accumulating_runs_resume_exactly);
    CHECK_RUN(mixed_precision_resumes_exactly);
    CHECK_RUN(only_the_latest_are_kept);
    CHECK_RUN(numbers_have_a_limit);
    CHECK_RUN_FORK(older_checkpoints_are_named);
    CHECK_RUN(a_named_folder_is_replaced);
    CHECK_RUN(a_folder_may_be_named_in_any_way);
    CHECK_RUN(the_project_is_opened_first);
    CHECK_RUN(damage_is_named);
    CHECK_RUN(damaged_ones_are_skipped);
    CHECK_RUN(a_checkpoint_that_does_not_match_is_refused);
    CHECK_RUN(registered_objects_are_restored);
    CHECK_RUN(hooks_take_part);
    CHECK_RUN(hooks_may_make_folders);
    CHECK_RUN(a_run_can_go_back);
    CHECK_RUN(rates_set_by_hand_are_restored);
    CHECK_RUN(another_number_of_processes_resumes);
    CHECK_RUN(saved_in_an_inner_loop_the_outer_one_resumes);
    CHECK_RUN(remains_of_a_killed_save_do_no_harm);
    CHECK_RUN(memory_may_run_out_anywhere);
    clean();
    rmdir(home);
    return check_done();
}
