/* model.c - models are saved as Accelerate saves them and load from what Python wrote. */
#include "formats/files.h"

#include "base/capture.h"
#include "base/memory.h"
#include "run/team.h"
#include "tensor/context.h"

static ls_run *run;

static ls_tensor *forward(ls_module *net, ls_tensor *x, void *user)
{
    (void)user;
    x = ls_forward(ls_child(net, "batchnorm"), ls_forward(ls_child(net, "linear1"), x));
    return ls_forward(ls_child(net, "linear2"), x);
}

/* The model of Accelerate's own tests. */
static ls_module *model_for_test(void)
{
    ls_module *net = ls_module_new(run, "ModelForTest", forward, NULL);
    ls_module_add(net, "linear1", ls_linear_new(run, 3, 4));
    ls_module_add(net, "batchnorm", ls_batch_norm_new(run, 4));
    ls_module_add(net, "linear2", ls_linear_new(run, 4, 5));
    return net;
}

static bool same_numbers(ls_module *a, ls_module *b)
{
    ls_state *x = ls_state_dict(a), *y = ls_state_dict(b);
    bool same = ls_state_count(x) == ls_state_count(y);
    for (int64_t i = 0; same && i < ls_state_count(x); i++) {
        ls_tensor *t = ls_state_find(y, ls_state_name(x, i));
        same = t && ls_item(ls_sum(ls_cast(ls_eq(ls_state_tensor(x, i), t), LS_F32))) == (double)ls_numel(t);
    }
    return same;
}

static void shards_and_index_are_those_of_accelerate(void)
{
    files_in(test_folder, true);
    ls_module *net = model_for_test();
    CHECK(ls_save_model(run, net, test_folder, .max_shard_size = "100"));
    CHECK(files_in(test_folder, false) == 4);
    CHECK(!ls_save_model(run, net, test_folder, .max_shard_size = "many"));
    CHECK_MSG(strstr(ls_error_message(run), "ls_save_model: .max_shard_size = \"many\""), "%s", ls_error_message(run));
    ls_clear_error(run);
    size_t size;
    ls_message why;
    char *index = ls_file_read(in_folder("model.safetensors.index.json"), 10000, &size, &why);
    CHECK_TEXT(index, "{\n  \"metadata\": {\n    \"total_size\": 236\n  },\n  \"weight_map\": {\n"
                      "    \"batchnorm.bias\": \"model-00001-of-00003.safetensors\",\n"
                      "    \"batchnorm.num_batches_tracked\": \"model-00002-of-00003.safetensors\",\n"
                      "    \"batchnorm.running_mean\": \"model-00002-of-00003.safetensors\",\n"
                      "    \"batchnorm.running_var\": \"model-00002-of-00003.safetensors\",\n"
                      "    \"batchnorm.weight\": \"model-00001-of-00003.safetensors\",\n"
                      "    \"linear1.bias\": \"model-00001-of-00003.safetensors\",\n"
                      "    \"linear1.weight\": \"model-00001-of-00003.safetensors\",\n"
                      "    \"linear2.bias\": \"model-00003-of-00003.safetensors\",\n"
                      "    \"linear2.weight\": \"model-00003-of-00003.safetensors\"\n  }\n}\n");
    ls_sys_free(index);
    ls_module *other = model_for_test();
    CHECK(!same_numbers(net, other));
    ls_load_report report = ls_load_model(run, other, test_folder);
    CHECK(report.loaded == 9 && !ls_error(run) && same_numbers(net, other));
}

static void a_small_model_is_one_file(void)
{
    files_in(test_folder, true);
    ls_module *net = model_for_test(), *other = model_for_test();
    CHECK(ls_save_model(run, net, in_folder("deep/er"), .metadata = (ls_metadata[]){{"epoch", "3"}, {0}}));
    CHECK(files_in(in_folder("deep/er"), false) == 1);
    ls_load_model(run, other, in_folder("deep/er/model.safetensors"));
    CHECK(!ls_error(run) && same_numbers(net, other));
    CHECK(!ls_save_model(run, NULL, test_folder));
    files_in(in_folder("deep/er"), true);
    rmdir(in_folder("deep/er"));
    rmdir(in_folder("deep"));
}

static void an_optimiser_that_moves_parameters_together_changes_nothing(void)
{
    files_in(test_folder, true);
    ls_module *net = model_for_test(), *other = model_for_test();
    ls_optim *adam = ls_adam_new(run, net, .lr = 0.1);
    ls_mark mark = ls_scope_begin(run);
    ls_backward(run, ls_sum(ls_forward(net, ls_randn(run, LS_F32, 8, 3))));
    ls_step(adam);
    ls_zero_grad(adam);
    ls_scope_end(run, mark, NULL);
    CHECK(ls_save_model(run, net, test_folder));
    CHECK(ls_load_model(run, other, test_folder).loaded == 9 && same_numbers(net, other));
}

static void differences_are_named(void)
{
    files_in(test_folder, true);
    ls_module *net = model_for_test();
    ls_state *some = ls_state_without(ls_state_dict(net), "linear2.*|batchnorm.num_batches_tracked");
    ls_state_add(some, "head.weight", ls_zeros(run, LS_F32, 2));
    CHECK(ls_state_write(some, in_folder("some.safetensors")));
    ls_module *other = model_for_test();
    ls_load_model(run, other, in_folder("some.safetensors"));
    CHECK(ls_error(run) == LS_ERR_VALUE);
    CHECK(strstr(ls_error_message(run), "some.safetensors: "));
    CHECK(strstr(ls_error_message(run), "missing linear2.weight, linear2.bias, unexpected head.weight"));
    CHECK(strstr(ls_error_message(run), "unexpected head.weight"));
    ls_clear_error(run);
    ls_load_report report = ls_load_model(run, other, in_folder("some.safetensors"), .partial = true);
    CHECK(report.loaded == 6 && report.missing_count == 3 && report.unexpected_count == 1);
    CHECK_TEXT(report.unexpected[0], "head.weight");
    CHECK_TEXT(report.missing[1], "linear2.weight");
    report = ls_load_model(run, other, in_folder("some.safetensors"), .only = "linear1.*",
                           .optional = "linear2.*|batchnorm.*");
    CHECK(report.loaded == 2 && !ls_error(run));

    ls_state *wrong = ls_state_new(run);
    ls_state_add(wrong, "linear1.weight", ls_zeros(run, LS_F32, 3, 4));
    CHECK(ls_state_write(wrong, in_folder("wrong.safetensors")));
    ls_load_model(run, other, in_folder("wrong.safetensors"), .partial = true);
    CHECK(ls_error(run) == LS_ERR_SHAPE &&
          strstr(ls_error_message(run), "linear1.weight of ModelForTest is [4,3], the list has [3,4]"));
    ls_clear_error(run);
    report = ls_load_model(run, other, in_folder("wrong.safetensors"), .partial = true, .skip_mismatched = true);
    CHECK(report.mismatched_count == 1 && report.loaded == 0 && !ls_error(run));
    CHECK(ls_load_model(run, other, in_folder("none")).loaded == 0 && ls_error(run) == LS_ERR_IO);
    ls_clear_error(run);
}

/* Also for a partial load; the message names the pattern and the existing names, nearest first. */
static void a_load_that_matches_nothing_is_an_error(void)
{
    files_in(test_folder, true);
    ls_module *net = model_for_test();
    CHECK(ls_save_model(run, net, test_folder));
    const char *path = in_folder("model.safetensors");
    CHECK(ls_load_model(run, net, path, .partial = true, .only = "linaer2.*").loaded == 0);
    CHECK(ls_error(run) == LS_ERR_VALUE);
    CHECK_MSG(
        strstr(ls_error_message(run), "model.safetensors: no name matches .only = \"linaer2.*\"; there are linear2."),
        "%s", ls_error_message(run));
    ls_clear_error(run);
    CHECK(ls_load_model(run, net, path, .partial = true, .prefix = "bakbone.").loaded == 0);
    CHECK(ls_error(run) == LS_ERR_VALUE);
    CHECK_MSG(strstr(ls_error_message(run), "nothing to load: ModelForTest has linear1.weight, linear1.bias, ") &&
                  strstr(ls_error_message(run), ", the list bakbone."),
              "%s", ls_error_message(run));
    ls_clear_error(run);
    CHECK(ls_load_model(run, net, path, .partial = true, .only = "linear2.*|gone.*").loaded == 2 && !ls_error(run));
}

static int loads_with_unmatched_patterns(void)
{
    run = ls_init(NULL, NULL);
    ls_module *net = model_for_test();
    bool ok = ls_save_model(run, net, test_folder);
    ok = ok && ls_load_model(run, net, test_folder, .partial = true, .only = "linear2.*|gone.*|linear1.*").loaded == 4;
    ls_state *all = ls_state_dict(net);
    ok = ok && ls_state_count(ls_state_matching(all, "*.bias|*.gama")) == 3;
    ok = ok && ls_state_count(ls_state_without(all, "liner1.*")) == 9;
    ok = ok && ls_load_model(run, net, test_folder, .strip = "modul.", .optional = "linear1.*|liner2.*").loaded == 9;
    return ls_finish(run) || !ok;
}

static void unmatched_patterns_are_reported(void)
{
    static char text[4096];
    CHECK(run_captured(NULL, loads_with_unmatched_patterns, text, sizeof text) == 0);
    CHECK_MSG(strstr(text, "no name begins with .strip = \"modul.\"; there are "), "%s", text);
    CHECK_MSG(strstr(text, "no name of ModelForTest matches .optional = \"liner2.*\"; there are linear2."), "%s", text);
    CHECK_MSG(strstr(text, "no name matches \"gone.*\" of .only = \"linear2.*|gone.*|linear1.*\"; there are "), "%s",
              text);
    CHECK_MSG(strstr(text, "ls_state_matching: no name matches \"*.gama\"; there are "), "%s", text);
    CHECK_MSG(strstr(text, "ls_state_without: no name matches \"liner1.*\"; there are linear1."), "%s", text);
    CHECK(!strstr(text, "\"linear1.*"));
}

static void names_of_wrappers_are_understood(void)
{
    files_in(test_folder, true);
    ls_module *net = model_for_test(), *other = model_for_test();
    ls_state *all = ls_state_dict(net), *wrapped = ls_state_new(run);
    for (int64_t i = 0; i < ls_state_count(all); i++) {
        char name[100];
        snprintf(name, sizeof name, "module._orig_mod.%s", ls_state_name(all, i));
        ls_state_add(wrapped, name, ls_state_tensor(all, i));
    }
    CHECK(ls_state_write(wrapped, in_folder("w")));
    CHECK(ls_load_model(run, other, in_folder("w")).loaded == 9 && same_numbers(net, other));
    ls_module *whole = ls_module_new(run, "Whole", forward, NULL);
    ls_module_add(whole, "backbone", model_for_test());
    CHECK(ls_load_model(run, whole, in_folder("w"), .strip = "module._orig_mod.", .prefix = "backbone.").loaded == 9);
    CHECK(same_numbers(net, ls_child(whole, "backbone")));
}

/* {"epoch": 3, "state_dict": {"module.linear1.weight": ...}, "optimizer": {...}}; and a child called "model". */
static void a_model_is_found_among_other_things(void)
{
    files_in(test_folder, true);
    ls_module *net = model_for_test(), *other = model_for_test(), *whole = ls_module_new(run, "Whole", forward, NULL);
    ls_state *all = ls_state_dict(net), *saved = ls_state_new(run);
    ls_state_add(saved, "epoch", ls_full(run, LS_I64, 3, 1));
    for (int64_t i = 0; i < ls_state_count(all); i++) {
        char name[100];
        snprintf(name, sizeof name, "state_dict.module.%s", ls_state_name(all, i));
        ls_state_add(saved, name, ls_state_tensor(all, i));
        snprintf(name, sizeof name, "optimizer.state.%d.exp_avg", (int)i);
        ls_state_add(saved, name, ls_state_tensor(all, i));
    }
    CHECK(ls_state_write(saved, in_folder("w")));
    CHECK(ls_load_model(run, other, in_folder("w")).loaded == 9 && same_numbers(net, other));
    ls_module_add(whole, "model", net);
    CHECK(ls_save_model(run, whole, test_folder));
    CHECK(ls_load_model(run, whole, test_folder).loaded == 9);
    CHECK(ls_load_model(run, other, in_folder("model.safetensors")).loaded == 9);
}

/* A file of half precision into a model of f32, and vice versa. */
static void types_are_converted(void)
{
    files_in(test_folder, true);
    ls_module *net = model_for_test(), *half = model_for_test();
    ls_module_cast(half, LS_BF16);
    CHECK(ls_save_model(run, half, test_folder));
    CHECK(ls_load_model(run, net, test_folder).loaded == 9);
    CHECK(ls_dtype_of(ls_module_tensor(net, "linear1.weight")) == LS_F32);
    CHECK(same_numbers(net, half));
}

static ls_module *tied_model(void)
{
    ls_module *net = ls_module_new(run, "Tied", forward, NULL), *out = ls_linear_new(run, 4, 4, .bias = false);
    ls_module_add(net, "out", out);
    ls_module *in = ls_module_new(run, "Shared", forward, NULL);
    ls_register_parameter(in, "weight", ls_module_tensor(out, "weight"));
    ls_module_add(net, "in", in);
    return net;
}

static void shared_tensors_are_written_once_and_come_back(void)
{
    files_in(test_folder, true);
    ls_module *net = tied_model(), *other = tied_model();
    CHECK(ls_state_count(ls_state_dict(net)) == 2);
    CHECK(ls_save_model(run, net, test_folder));
    ls_state *written = ls_state_read(run, test_folder);
    CHECK(ls_state_count(written) == 1 && ls_state_find(written, "out.weight"));
    ls_load_report report = ls_load_model(run, other, test_folder);
    CHECK_MSG(!ls_error(run) && report.missing_count == 0, "%s", ls_error_message(run));
    CHECK(same_numbers(net, other) && ls_module_tensor(other, "in.weight") == ls_module_tensor(other, "out.weight"));
}

static char place[256]; /* where processes save together */

/* Other processes can read what one has written as soon as the call returns. */
static void save_and_load(ls_run *mine)
{
    ls_module *net = ls_linear_new(mine, 500, 700);
    CHECK(ls_save_model(mine, net, place));
    CHECK(ls_load_model(mine, net, place).loaded == 2);
    CHECK_TEXT(ls_error_message(mine), "");
}

static void all_processes_may_load_what_one_saved(void)
{
    snprintf(place, sizeof place, "%s", in_folder("together"));
    for (int i = 0; i < 3; i++) {
        team_run(3, save_and_load);
        files_in(place, true);
        rmdir(place);
    }
}

static void fail_to_save(ls_run *mine)
{
    ls_module *net = ls_linear_new(mine, 5, 7);
    CHECK(!ls_save_model(mine, net, place));
    CHECK_MSG(strstr(ls_error_message(mine), "file: it is a file") || strstr(ls_error_message(mine), "Not a directory"),
              "%s", ls_error_message(mine));
    CHECK(ls_is_main(mine) || strstr(ls_error_message(mine), "the main process cannot write it"));
}

static void all_processes_learn_that_it_failed(void)
{
    ls_message why;
    CHECK(ls_file_write(in_folder("file"), "x", 1, false, &why));
    snprintf(place, sizeof place, "%s", in_folder("file/below"));
    team_run(2, fail_to_save);
    unlink(in_folder("file"));
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    begin_files();
    CHECK_RUN(unmatched_patterns_are_reported); /* in a separate process, before this one has threads */
    run = ls_init(NULL, NULL, .seed = 1);
    CHECK_RUN(shards_and_index_are_those_of_accelerate);
    CHECK_RUN(a_small_model_is_one_file);
    CHECK_RUN(an_optimiser_that_moves_parameters_together_changes_nothing);
    CHECK_RUN(differences_are_named);
    CHECK_RUN(a_load_that_matches_nothing_is_an_error);
    CHECK_RUN(names_of_wrappers_are_understood);
    CHECK_RUN(a_model_is_found_among_other_things);
    CHECK_RUN(types_are_converted);
    CHECK_RUN(shared_tensors_are_written_once_and_come_back);
    CHECK_RUN(all_processes_may_load_what_one_saved);
    CHECK_RUN(all_processes_learn_that_it_failed);
    CHECK(ls_finish(run) == 0);
    end_files();
    return check_done();
}
