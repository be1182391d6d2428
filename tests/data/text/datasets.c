/* datasets.c - texts in tables, SQuAD's questions, and batches of like lengths. */
#include <lockstep.h>

#include "base/memory.h"
#include "check.h"
#include "data/tests.h"
#include "data/text/table.h"
#include "folder.h"

static const char *const TINY = "[PAD]\n[UNK]\n[CLS]\n[SEP]\nun\n##aff\n##able\nthe\n.\n";

static ls_tokenizer *tiny(ls_run *run)
{
    folder_fresh("text_sets");
    file_append("text_sets/vocab.txt", TINY);
    return ls_tokenizer_new(run, "text_sets/vocab.txt");
}

static const char *file_with(const char *name, const char *text)
{
    static char path[100];
    snprintf(path, sizeof path, "text_sets/%s", name);
    remove(path);
    file_append(path, text);
    return path;
}

/* ---- tables ---- */

/* "a|b\nc|d\n" of a table. */
static const char *shown(const char *text, char separator, bool header)
{
    static char out[1024];
    ls_table t;
    ls_message why = {{0}};
    size_t size = strlen(text), used = 0;
    char *copy = memcpy(ls_sys_alloc(size + 1), text, size);
    out[0] = '\0';
    if (ls_table_cut(&t, copy, size, separator, header, &why)) snprintf(out, sizeof out, "%s", why.text);
    else
        for (int64_t r = 0; r < t.rows; r++)
            for (int64_t c = 0; c < t.columns; c++)
                used += (size_t)snprintf(out + used, sizeof out - used, "%s%s", ls_table_at(&t, r, c)->text,
                                         c + 1 < t.columns ? "|" : "\n");
    ls_table_free(&t);
    return out;
}

static void fields_are_cut_by_tabs_commas_and_quotes(void)
{
    CHECK_TEXT(shown("a\tb\nc\t\"d", '\t', false), "a|b\nc|\"d\n");
    CHECK_TEXT(shown("x,y\r\n\r\n1,\"a \"\"b\"\", c\"\r\n,\"two\nlines\"\r\n", ',', true),
               "1|a \"b\", c\n|two\nlines\n");
    CHECK_TEXT(shown("\xef\xbb\xbf"
                     "a,\"\"\n\"\",",
                     ',', false),
               "a|\n|\n");
    CHECK_TEXT(shown("a\tb\n\nc\n", '\t', false), "line 3 has 1 columns, but the first has 2");
    CHECK_TEXT(shown("a\n\"b\nc\n", ',', false),
               "line 2: a quoted field is not closed, or something follows its quote");
    CHECK_TEXT(shown("a\n\"b\"c\n", ',', false),
               "line 2: a quoted field is not closed, or something follows its quote");
    CHECK_TEXT(shown("a\tb\n", '\t', true), "it has no rows");
}

/* ---- classification ---- */

static void rows_become_batches_padded_to_their_longest(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_tokenizer *t = tiny(run);
    const char *path = file_with("train.tsv", "label\tother\ta\tb\nyes\t0\tthe\tun\nno\t0\tunaffable the\tthe .\n");
    ls_dataset *set = ls_text_dataset_new(t, path, .text = "a", .second = "b", .label = "label");
    CHECK(ls_dataset_len(set) == 2 && ls_class_count(set) == 2 && ls_dataset_class(set, 0) == 1);
    CHECK_TEXT(ls_class_name(set, 0), "no");
    CHECK(ls_dataset_sample_length(set, 0) == 5 && ls_dataset_sample_length(set, 1) == 9);
    ls_loader *loader = ls_loader_new(run, set, .batch = 2, .pad_multiple = 8);
    for (ls_batch b; ls_next(loader, &b);) {
        static const int64_t ids[32] = {2, 7, 3, 4, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 4, 5, 6, 7, 3, 7, 8, 3};
        static const int64_t types[32] = {[3] = 1, [4] = 1, [22] = 1, [23] = 1, [24] = 1};
        int64_t got[32], lengths[2], labels[2];
        CHECK(ls_dim(ls_batch_field(&b, "input_ids"), 1) == 16);
        ls_read(ls_batch_field(&b, "input_ids"), got, sizeof got);
        CHECK(memcmp(got, ids, sizeof got) == 0);
        ls_read(ls_batch_field(&b, "token_type_ids"), got, sizeof got);
        CHECK(memcmp(got, types, sizeof got) == 0);
        ls_read(ls_batch_field(&b, "length"), lengths, sizeof lengths);
        ls_read(b.label, labels, sizeof labels);
        CHECK(lengths[0] == 5 && lengths[1] == 9 && labels[0] == 1 && labels[1] == 0);
    }
    /* Another file with the same classes, and one that has others. */
    path = file_with("dev.csv", "a,label\n\"un, the\",yes\n");
    ls_dataset *dev = ls_text_dataset_new(t, path, .text = "a", .label = "label", .classes = set, .max_length = 4);
    CHECK(ls_dataset_class(dev, 0) == 1 && ls_class_count(dev) == 2 && ls_dataset_sample_length(dev, 0) == 4);
    path = file_with("dev.csv", "a,label\nun,maybe\n");
    CHECK(!ls_text_dataset_new(t, path, .text = "a", .label = "label", .classes = set));
    CHECK(strstr(ls_error_message(run), "row 1 has the class \"maybe\""));
    ls_finish(run);
}

static void columns_are_found_or_named(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_tokenizer *t = tiny(run);
    const char *path = file_with("cola.tsv", "x\t10\t\tthe\nx\t9\t\tun\n");
    ls_dataset *set = ls_text_dataset_new(t, path, .text = "3", .label = "1", .header = false);
    CHECK(ls_dataset_len(set) == 2 && ls_dataset_class(set, 0) == 1);
    CHECK_TEXT(ls_class_name(set, 0), "9"); /* as numbers, not as words */
    CHECK(!ls_text_dataset_new(t, path, .text = "4", .header = false));
    CHECK(strstr(ls_error_message(run), "no column \"4\"; it has 4, numbered from 0"));
    ls_clear_error(run);
    CHECK(!ls_text_dataset_new(t, file_with("a.tsv", "one\ttwo\n1\t2\n"), .text = "tow"));
    CHECK(strstr(ls_error_message(run), "no column \"tow\"; it has 2: one, two"));
    ls_clear_error(run);
    CHECK(!ls_text_dataset_new(t, path) && strstr(ls_error_message(run), ".text is missing"));
    ls_clear_error(run);
    CHECK(ls_finish(run) == 0);
}

/* Texts as they are, integers in digits, a null as nothing; other columns are not there. */
static void tables_of_arrow_are_read(void)
{
    ls_table table;
    ls_message why = {{0}};
    CHECK_MSG(ls_table_read(&table, SAMPLES_DIR "/kinds.arrow", ',', false, &why) == LS_OK, "%s", why.text);
    CHECK(table.rows == 3 && table.columns == 4 && ls_table_column(&table, "list") == -1);
    CHECK_TEXT(ls_table_at(&table, 0, ls_table_column(&table, "i8"))->text, "-128");
    CHECK_TEXT(ls_table_at(&table, 1, ls_table_column(&table, "i8"))->text, "");
    CHECK_TEXT(ls_table_at(&table, 2, ls_table_column(&table, "text"))->text, "two\nlines");
    ls_table_free(&table);
    CHECK_MSG(ls_table_read(&table, SAMPLES_DIR "/squad-train-00000-of-00002.arrow", 0, true, &why) == LS_OK, "%s",
              why.text);
    CHECK(table.rows == 4);
    CHECK_TEXT(ls_table_at(&table, 3, ls_table_column(&table, "question"))->text, "which 3?");
    ls_table_free(&table);
    CHECK(ls_table_read(&table, SAMPLES_DIR "/squad_compressed.arrow", 0, true, &why) == LS_ERR_UNSUPPORTED);
    ls_table_free(&table);

    ls_run *run = ls_init(NULL, NULL);
    ls_tokenizer *t = tiny(run);
    CHECK(!system("mkdir -p text_sets/glue/sst2/0.0.0/abc && cp " SAMPLES_DIR
                  "/glue.arrow text_sets/glue/sst2/0.0.0/abc/glue-train.arrow"));
    setenv("HF_DATASETS_CACHE", "text_sets", 1);
    ls_dataset *set = ls_text_dataset_new(t, "nyu-mll/glue", .split = "train", .config = "sst2", .text = "sentence",
                                          .label = "label");
    CHECK(ls_dataset_len(set) == 8 && ls_class_count(set) == 2 && ls_dataset_class(set, 0) == 1);
    CHECK(ls_dataset_sample_length(set, 6) == 2); /* [CLS] and [SEP] */
    CHECK(!ls_text_dataset_new(t, "glue", .split = "train", .text = "words"));
    CHECK(strstr(ls_error_message(run), "no column \"words\"; it has 3: sentence, label, idx"));
    ls_clear_error(run);
    file_append("text_sets/glue/sst2/0.0.0/abc/dataset_info.json", "{\"splits\": {\"train\": {\"num_examples\": 9}}}");
    CHECK(!ls_text_dataset_new(t, "glue", .split = "train", .text = "sentence"));
    CHECK(strstr(ls_error_message(run), "split \"train\" has 8 rows, but its dataset_info.json says 9"));
    remove("text_sets/glue/sst2/0.0.0/abc/dataset_info.json");
    unsetenv("HF_DATASETS_CACHE");
    ls_finish(run);
}

static void files_of_glue_are_read(void)
{
    static const struct {
        const char *file, *text, *second, *label;
        bool header;
        int64_t rows;
    } sets[] = {
        {"glue/MRPC/train.tsv", "#1 String", "#2 String", "Quality", true, 3668},
        {"glue/SST-2/dev.tsv", "sentence", NULL, "label", true, 872},
        {"glue/CoLA/dev.tsv", "3", NULL, "1", false, 1043},
        {"glue/RTE/train.tsv", "sentence1", "sentence2", "label", true, 2490},
    };
    ls_run *run = ls_init(NULL, NULL);
    const char *path = check_data("bert_tokenizer/bert-base-uncased-vocab.txt");
    ls_tokenizer *t = path ? ls_tokenizer_new(run, path) : NULL;
    for (size_t i = 0; t && i < sizeof sets / sizeof *sets; i++) {
        if (!(path = check_data(sets[i].file))) continue;
        ls_dataset *set = ls_text_dataset_new(t, path, .text = sets[i].text, .second = sets[i].second,
                                              .label = sets[i].label, .header = sets[i].header, .max_length = 128);
        CHECK_MSG(ls_dataset_len(set) == sets[i].rows && ls_class_count(set) == 2, "%s: %lld rows %s", sets[i].file,
                  (long long)ls_dataset_len(set), ls_error_message(run));
    }
    ls_finish(run);
}

/* ---- batches of like lengths ---- */

static ls_dataset *of_many_lengths(ls_run *run, ls_tokenizer *t, int count)
{
    folder_fresh("text_sets");
    FILE *file = fopen("text_sets/many.tsv", "w");
    fputs("text\n", file);
    for (int i = 0; i < count; i++) {
        for (int k = 0; k <= i * 37 % 100; k++) fputs("the ", file);
        fputc('\n', file);
    }
    fclose(file);
    (void)run;
    return ls_text_dataset_new(t, "text_sets/many.tsv", .text = "text");
}

static void like_lengths_share_a_batch(void)
{
    enum { COUNT = 1003, BATCH = 8 };
    ls_run *run = ls_init(NULL, NULL, .seed = 3);
    ls_tokenizer *t = tiny(run);
    ls_dataset *set = of_many_lengths(run, t, COUNT);
    ls_loader *loader = ls_loader_new(run, set, .sampler = ls_length_sampler_new(run, set, .batch = BATCH));
    static int64_t order[3][COUNT], seen[COUNT];
    int64_t padding[2] = {0}, tokens = 0;
    for (int pass = 0; pass < 3; pass++) {
        int64_t at = 0;
        ls_loader_set_epoch(loader, pass == 2 ? 0 : pass);
        for (ls_batch b; ls_next(loader, &b);) {
            CHECK(b.size == BATCH || (b.last && b.size == COUNT % BATCH));
            int64_t longest = ls_dim(ls_batch_field(&b, "input_ids"), 1);
            for (int64_t i = 0; i < b.size; i++) {
                order[pass][at++] = b.index[i];
                if (pass) continue;
                seen[b.index[i]]++;
                padding[0] += longest - ls_dataset_sample_length(set, b.index[i]);
                tokens += ls_dataset_sample_length(set, b.index[i]);
            }
        }
        CHECK(at == COUNT);
    }
    for (int i = 0; i < COUNT; i++) CHECK(seen[i] == 1);
    CHECK_MSG(padding[0] * 20 < tokens, "%lld of padding for %lld tokens", (long long)padding[0], (long long)tokens);
    CHECK(memcmp(order[0], order[1], sizeof order[0]) != 0);
    CHECK(memcmp(order[0], order[2], sizeof order[0]) == 0); /* a function of seed and epoch */
    /* Lengths do not rise or fall along the pass. */
    int turns = 0;
    for (int i = 2 * BATCH; i < COUNT - BATCH; i += BATCH) {
        int64_t a = ls_dataset_sample_length(set, order[0][i - 2 * BATCH]);
        int64_t b = ls_dataset_sample_length(set, order[0][i - BATCH]), c = ls_dataset_sample_length(set, order[0][i]);
        turns += (b > a) != (c > b);
    }
    CHECK(turns > 40);
    ls_finish(run);
}

static void a_part_of_a_dataset_knows_its_lengths(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_dataset *set = of_many_lengths(run, tiny(run), 30);
    static const int64_t some[] = {7, 3, 21};
    ls_dataset *part = ls_subset_new(set, some, 3);
    CHECK(ls_dataset_sample_length(part, 2) == ls_dataset_sample_length(set, 21));
    CHECK(ls_length_sampler_new(run, part, .batch = 2));
    CHECK(!ls_loader_new(run, set, .sampler = ls_length_sampler_new(run, part, .batch = 2)));
    CHECK(strstr(ls_error_message(run), "created for 3 samples, but the dataset has 30"));
    ls_clear_error(run);
    CHECK(!ls_loader_new(run, part, .batch = 3, .sampler = ls_length_sampler_new(run, part, .batch = 2)));
    CHECK(strstr(ls_error_message(run), "give both the same .batch"));
    ls_clear_error(run);
    CHECK(!ls_length_sampler_new(run, numbers(run, 4), .batch = 2));
    CHECK(strstr(ls_error_message(run), "the lengths of samples of a tensor dataset are unknown"));
    ls_clear_error(run);
    CHECK(!ls_length_sampler_new(run, set) && strstr(ls_error_message(run), ".batch is missing"));
    ls_clear_error(run);
    CHECK(ls_finish(run) == 0);
}

int main(int argc, char **argv)
{
    check_filter = argc > 1 ? argv[1] : NULL;
    CHECK_RUN(fields_are_cut_by_tabs_commas_and_quotes);
    CHECK_RUN(rows_become_batches_padded_to_their_longest);
    CHECK_RUN(columns_are_found_or_named);
    CHECK_RUN(tables_of_arrow_are_read);
    CHECK_RUN(files_of_glue_are_read);
    CHECK_RUN(like_lengths_share_a_batch);
    CHECK_RUN(a_part_of_a_dataset_knows_its_lengths);
    folder_remove("text_sets");
    return check_done();
}
