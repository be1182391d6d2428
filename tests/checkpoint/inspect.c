/* inspect.c - the output of `lockstep inspect`. */
#include "formats/files.h"

#include "base/json.h"
#include "base/memory.h"
#include "checkpoint/manifest.h"
#include "folder.h"

static ls_run *run;

/* What is printed; valid until the next call. */
static const char *printed(const char *path, bool json)
{
    static char text[10000];
    FILE *file = tmpfile();
    text[0] = 0;
    if (ls_inspect(run, path, file, json)) {
        rewind(file);
        text[fread(text, 1, sizeof text - 1, file)] = 0;
    }
    fclose(file);
    return text;
}

static ls_state *sample(void)
{
    ls_state *state = ls_state_new(run);
    ls_state_add(state, "fc.weight", ls_zeros(run, LS_F32, 10, 5));
    ls_state_add(state, "fc.bias", ls_zeros(run, LS_BF16, 10));
    return state;
}

static void tensors_are_listed_with_totals(void)
{
    files_in(test_folder, true);
    CHECK(ls_state_write(sample(), in_folder("a.safetensors")));
    CHECK_TEXT(printed(in_folder("a.safetensors"), false), "name       type  shape         size\n"
                                                           "fc.weight  F32   [10,5]       200 B\n"
                                                           "fc.bias    BF16  [10]          20 B\n"
                                                           "\n"
                                                           "2 tensors, 60 numbers, 220 B (safetensors)\n"
                                                           "metadata: format = pt\n");
    const char *json = printed(in_folder("a.safetensors"), true);
    ls_message why;
    ls_json *root = ls_json_read(json, strlen(json), &why);
    CHECK_MSG(root, "%s", why.text);
    CHECK(ls_json_integer(ls_json_get(root, "bytes"), 0) == 220);
    const ls_json *first = ls_json_first(ls_json_get(root, "tensors"));
    CHECK_TEXT(ls_json_text(ls_json_get(first, "name")), "fc.weight");
    CHECK(ls_json_integer(ls_json_first(ls_json_get(first, "shape")), 0) == 10);
    ls_json_free(root);
}

static void shards_are_named(void)
{
    files_in(test_folder, true);
    CHECK(ls_state_write_sharded(sample(), test_folder, .max_shard_size = "200"));
    const char *text = printed(test_folder, false);
    CHECK(strstr(text, "fc.bias    BF16  [10]          20 B  model-00002-of-00002.safetensors\n"));
    CHECK(strstr(text, "220 B in 2 files (sharded safetensors)\nmetadata: format = pt\n"));
    CHECK(!strstr(strstr(text, "format = pt") + 1, "format = pt"));
}

static void the_checkpoint_of_a_run_is_described(void)
{
    files_in(test_folder, true);
    ls_message why;
    CHECK(ls_state_write(sample(), in_folder("model.safetensors")));
    put_file(in_folder("scheduler.json"), "[]", 2);
    ls_manifest manifest = {.epoch = 3, .step = 1200, .world = 2, .modules = 1, .optims = 1};
    CHECK(ls_manifest_write(test_folder, &manifest, &why));
    CHECK_TEXT(printed(test_folder, false), "a run in epoch 3, step 1200, of 2 processes: 1 model, 1 optimiser, "
                                            "0 schedules, 0 loaders\n"
                                            "all files match their checksums\n\n"
                                            "model.safetensors       396 B  2 tensors, 60 numbers\n"
                                            "scheduler.json            2 B\n");
    const char *json = printed(test_folder, true);
    ls_json *root = ls_json_read(json, strlen(json), &why);
    CHECK_MSG(root, "%s", why.text);
    CHECK(ls_json_integer(ls_json_get(ls_json_get(root, "state"), "epoch"), 0) == 3);
    CHECK(ls_json_get(ls_json_get(root, "files"), "model.safetensors"));
    ls_json_free(root);
    put_file(in_folder("scheduler.json"), "{}", 2);
    CHECK_REFUSED(run, ls_inspect(run, test_folder, stdout, true), LS_ERR_IO,
                  "scheduler.json does not match its checksum");
    put_file(in_folder("state.json"), "{", 1);
    CHECK_REFUSED(run, ls_inspect(run, test_folder, stdout, false), LS_ERR_IO,
                  "state.json is damaged: line 1, column 2");
}

static void the_checkpoints_of_a_folder_are_listed(void)
{
    files_in(test_folder, true);
    ls_message why;
    static const int64_t steps[] = {20, 40};
    for (int i = 0; i < 2; i++) {
        char name[32];
        snprintf(name, sizeof name, "checkpoint_%d", 9 + i);
        CHECK(mkdir(in_folder(name), 0777) == 0);
        ls_manifest manifest = {.epoch = i, .step = steps[i], .world = 1};
        CHECK(ls_manifest_write(in_folder(name), &manifest, &why));
    }
    CHECK_TEXT(printed(test_folder, false), "checkpoint_9   epoch 0, step 20\n"
                                            "checkpoint_10  epoch 1, step 40\n");
    const char *json = printed(test_folder, true);
    ls_json *root = ls_json_read(json, strlen(json), &why);
    CHECK_MSG(root, "%s", why.text);
    CHECK_TEXT(ls_json_text(ls_json_get(ls_json_first(root), "name")), "checkpoint_9");
    CHECK(ls_json_integer(ls_json_get(ls_json_get(ls_json_first(root), "state"), "step"), 0) == 20);
    ls_json_free(root);
    folder_remove(in_folder("checkpoint_9"));
    folder_remove(in_folder("checkpoint_10"));
}

static void control_characters_do_not_reach_the_terminal(void)
{
    char *path = put_safetensors("{\"a\\u001b[2J\\u009b\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}}", 1);
    CHECK(strstr(printed(path, false), "a?[2J?"));
    path = put_safetensors("{\"\xe2\x80\xaez\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}}", 1);
    CHECK(strstr(printed(path, false), "?z"));
    path = put_safetensors("{\"a\\u001b[2J\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,2]}}", 1);
    CHECK_REFUSED(run, ls_inspect(run, path, stdout, false), LS_ERR_IO, "tensor a?[2J has 1 bytes");
    static const char index[] = "{\"weight_map\":{\"a\":\"\\u001b[2J.safetensors\"}}";
    put_file(in_folder("made.index.json"), index, sizeof index - 1);
    CHECK_REFUSED(run, ls_inspect(run, in_folder("made.index.json"), stdout, false), LS_ERR_IO,
                  "?[2J.safetensors is missing");
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    begin_files();
    run = ls_init(NULL, NULL);
    CHECK_RUN(tensors_are_listed_with_totals);
    CHECK_RUN(shards_are_named);
    CHECK_RUN(the_checkpoint_of_a_run_is_described);
    CHECK_RUN(the_checkpoints_of_a_folder_are_listed);
    CHECK_RUN(control_characters_do_not_reach_the_terminal);
    CHECK(ls_finish(run) == 0);
    end_files();
    return check_done();
}
