/* shards.c - checkpoints of several files: sizes, splitting, names, and what can be wrong with them. */
#include "formats/files.h"

#include <sys/stat.h>

#include "base/memory.h"
#include "formats/index.h"

static ls_run *run;

static void sizes_are_read_like_accelerate_reads_them(void)
{
    static const struct {
        const char *text;
        int64_t bytes;
    } rows[] = {{"0MB", 0},
                {"100MB", 100000000},
                {"2GiB", 2ll << 30},
                {"512KiB", 512 << 10},
                {"1.5GB", 1500000000},
                {"100KB", 100000},
                {"500", 500},
                {"5 MB", 5000000},
                {"5MBB", -1},
                {"5k0MB", -1},
                {"-1GB", -1},
                {"", -1},
                {"GB", -1},
                {".", -1},
                {"1.2.3MB", -1},
                {"1e3", -1},
                {"0x10", -1},
                {"99999999999TB", -1},
                {"1TiB", 1ll << 40},
                {"0.5KiB", 512}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        CHECK_MSG(ls_size_from_text(rows[i].text) == rows[i].bytes, "\"%s\" is %lld", rows[i].text,
                  (long long)ls_size_from_text(rows[i].text));
}

static void tensors_are_split_in_their_order(void)
{
    static const struct {
        uint64_t limit;
        int count;
        uint64_t bytes[8];
        int64_t shards, shard[8];
    } rows[] = {
        {10, 6, {6, 6, 2, 6, 2, 2}, 3, {0, 1, 1, 2, 2, 2}},
        {10, 3, {4, 20, 4}, 2, {1, 0, 1}}, /* the large one is numbered first, the open shard continues */
        {10, 3, {20, 30, 40}, 3, {0, 1, 2}},
        {10, 4, {0, 10, 0, 1}, 2, {0, 0, 0, 1}},
        {0, 2, {0, 1}, 2, {1, 0}},
        {10, 1, {3}, 1, {0}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int64_t shard[8];
        CHECK(ls_shard_split(rows[i].count, rows[i].bytes, rows[i].limit, shard) == rows[i].shards);
        for (int t = 0; t < rows[i].count; t++)
            CHECK_MSG(shard[t] == rows[i].shard[t], "row %zu, tensor %d: %lld", i, t, (long long)shard[t]);
    }
    CHECK(ls_shard_split(0, NULL, 10, NULL) == 0);
}

static void names_of_shards_are_recognised(void)
{
    CHECK(ls_is_shard_name("model-00001-of-00004.safetensors", "model", ".safetensors"));
    CHECK(!ls_is_shard_name("model-00001-of-00004.bin", "model", ".safetensors"));
    CHECK(!ls_is_shard_name("model-0001-of-00004.safetensors", "model", ".safetensors"));
    CHECK(!ls_is_shard_name("my-model-00001-of-00004.safetensors", "model", ".safetensors"));
    CHECK(!ls_is_shard_name("model-00001-of-00004.safetensors.part", "model", ".safetensors"));
    CHECK(!ls_is_shard_name("model.safetensors", "model", ".safetensors"));
}

static ls_state *numbers(int count)
{
    ls_state *state = ls_state_new(run);
    char name[16];
    for (int i = 0; i < count; i++) {
        snprintf(name, sizeof name, "w%d", i);
        ls_state_add(state, name, ls_full(run, LS_F32, i, 4));
    }
    return state;
}

static void a_sharded_save_reads_back_by_folder_index_and_shard(void)
{
    files_in(test_folder, true);
    CHECK(ls_state_write_sharded(numbers(5), test_folder, .max_shard_size = "32"));
    CHECK(files_in(test_folder, false) == 4);
    char *paths[] = {test_folder, in_folder("model.safetensors.index.json")};
    for (int i = 0; i < 2; i++) {
        ls_state *s = ls_state_read(run, paths[i]);
        CHECK_MSG(ls_state_count(s) == 5, "%s", ls_error_message(run));
        for (int t = 0; t < 5; t++) CHECK(number_at(s, ls_state_name(s, t), 3) == t);
        ls_state_free(s);
    }
    ls_state *s = ls_state_read(run, in_folder("model-00002-of-00003.safetensors"));
    CHECK(ls_state_count(s) == 2 && number_at(s, "w3", 0) == 3);
    const ls_contents *c = ls_contents_read(run, test_folder);
    CHECK(c->count == 5 && c->file_count == 3 && strstr(c->tensors[4].file, "model-00003-of-00003.safetensors"));
    CHECK_TEXT(c->format, "sharded safetensors");
    ls_contents_free(c);
    ls_state_free(s);
}

static void a_new_save_removes_what_the_old_one_left(void)
{
    files_in(test_folder, true);
    put_file(in_folder("model-00009-of-00009.safetensors"), "old", 3);
    put_file(in_folder("config.json"), "{}", 2);
    put_file(in_folder("model-mine.safetensors"), "kept", 4);
    CHECK(ls_state_write_sharded(numbers(5), test_folder, .max_shard_size = "32"));
    CHECK(files_in(test_folder, false) == 6 &&
          ls_path_kind_of(in_folder("model-00009-of-00009.safetensors")) == LS_PATH_NONE);
    CHECK(ls_state_write_sharded(numbers(5), test_folder));
    CHECK(files_in(test_folder, false) == 3 && ls_path_kind_of(in_folder("model.safetensors")) == LS_PATH_FILE);
    CHECK(ls_state_write_sharded(numbers(2), test_folder, .max_shard_size = "16"));
    CHECK(files_in(test_folder, false) == 5 && ls_path_kind_of(in_folder("model.safetensors")) == LS_PATH_NONE);
    ls_state *s = ls_state_read(run, test_folder);
    CHECK(ls_state_count(s) == 2);
    ls_state_free(s);
}

static void a_failing_save_keeps_the_old_one(void)
{
    files_in(test_folder, true);
    CHECK(ls_state_write_sharded(numbers(3), test_folder, .max_shard_size = "16"));
    /* A folder is in the place of the last temporary file. */
    mkdir(in_folder("model-00004-of-00004.safetensors.part"), 0777);
    CHECK_REFUSED(run, ls_state_write_sharded(numbers(4), test_folder, .max_shard_size = "16"), LS_ERR_IO,
                  "model-00004-of");
    rmdir(in_folder("model-00004-of-00004.safetensors.part"));
    CHECK(files_in(test_folder, false) == 4);
    ls_state *s = ls_state_read(run, test_folder);
    CHECK(ls_state_count(s) == 3 && number_at(s, "w2", 0) == 2);
    ls_state_free(s);
}

static void wrong_indices_are_refused(void)
{
    files_in(test_folder, true);
    CHECK(ls_state_write_sharded(numbers(3), test_folder, .max_shard_size = "32"));
    unlink(in_folder("model-00002-of-00002.safetensors"));
    CHECK_REFUSED(run, ls_state_read(run, test_folder), LS_ERR_IO, "model-00002-of-00002.safetensors is missing");
    static const struct {
        const char *index, *says;
    } bad[] = {
        {"{\"weight_map\":{\"w0\":\"model-00001-of-00002.safetensors\",\"x\":\"model-00001-of-00002.safetensors\"}}",
         "tensor x, which the index puts into this shard, is not in it"},
        {"{\"weight_map\":{\"w0\":\"../w\"}}", "the shard of w0 is not a file name"},
        {"{\"weight_map\":{\"w0\":\"\"}}", "the shard of w0 is not a file name"},
        {"{\"weight_map\":{\"w0\":3}}", "the shard of w0 is not a file name"},
        {"{\"weight_map\":[]}", "there is no weight_map"},
        {"{\"a\":1}", "there is no weight_map"},
        {"{\"a\":1,}", "line 1, column 8"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        put_file(in_folder("x.index.json"), bad[i].index, strlen(bad[i].index));
        CHECK_REFUSED(run, ls_state_read(run, in_folder("x.index.json")), LS_ERR_IO, bad[i].says);
    }
    /* An index that omits tensors of a shard is accepted. */
    const char *part = " \n{\"weight_map\":{\"w1\":\"model-00001-of-00002.safetensors\"}}";
    put_file(in_folder("x.index.json"), part, strlen(part));
    ls_state *s = ls_state_read(run, in_folder("x.index.json"));
    CHECK(ls_state_count(s) == 1 && number_at(s, "w1", 0) == 1);
    ls_state_free(s);
}

static void folders_must_be_unambiguous(void)
{
    files_in(test_folder, true);
    CHECK_REFUSED(run, ls_state_read(run, test_folder), LS_ERR_IO, "no file of tensors in this folder");
    CHECK(ls_state_write(numbers(1), in_folder("net.safetensors")));
    ls_state *s = ls_state_read(run, test_folder);
    CHECK(ls_state_count(s) == 1);
    CHECK(ls_state_write(numbers(2), in_folder("other.safetensors")));
    CHECK_REFUSED(run, ls_state_read(run, test_folder), LS_ERR_IO, "name the one you mean");
    CHECK(ls_state_write(numbers(3), in_folder("model.safetensors")));
    ls_state_free(s);
    s = ls_state_read(run, test_folder);
    CHECK(ls_state_count(s) == 3);
    ls_state_free(s);
    CHECK_REFUSED(run, ls_state_write_sharded(numbers(1), in_folder("net.safetensors")), LS_ERR_IO, "it is a file");
    CHECK_REFUSED(run, ls_state_write_sharded(numbers(1), test_folder, .max_shard_size = "5MBB"), LS_ERR_VALUE,
                  "\"5MBB\" is not a size");
    CHECK(ls_state_write_sharded(ls_state_new(run), test_folder));
    s = ls_state_read(run, test_folder);
    CHECK(s && ls_state_count(s) == 0);
    ls_state_free(s);
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    begin_files();
    run = ls_init(NULL, NULL);
    CHECK_RUN(sizes_are_read_like_accelerate_reads_them);
    CHECK_RUN(tensors_are_split_in_their_order);
    CHECK_RUN(names_of_shards_are_recognised);
    CHECK_RUN(a_sharded_save_reads_back_by_folder_index_and_shard);
    CHECK_RUN(a_new_save_removes_what_the_old_one_left);
    CHECK_RUN(a_failing_save_keeps_the_old_one);
    CHECK_RUN(wrong_indices_are_refused);
    CHECK_RUN(folders_must_be_unambiguous);
    CHECK(ls_finish(run) == 0);
    end_files();
    return check_done();
}
