/* tokenizer.c - tokens, places, windows and decoding, by small vocabularies and by Hugging Face's fixtures. */
#include <lockstep.h>

#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "check.h"
#include "folder.h"

static ls_run *run;

/* Numbers: [PAD] 0 [UNK] 1 [CLS] 2 [SEP] 3 [MASK] 4 un 5 ##aff 6 ##able 7 the 8 . 9 , 10 ' 11 zhong 12 ##e 13 cafe 14
 * tokyo 15 ##s 16. */
static const char *const TINY =
    "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nun\n##aff\n##able\nthe\n.\n,\n'\n\xe4\xb8\xad\n##e\n"
    "cafe\ntokyo\n##s\n";

static ls_tokenizer *tokenizer_of(const char *vocabulary)
{
    char path[] = "vocab_XXXXXX";
    int file = mkstemp(path);
    CHECK(write(file, vocabulary, strlen(vocabulary)) == (ssize_t)strlen(vocabulary));
    close(file);
    ls_tokenizer *t = ls_tokenizer_new(run, path);
    unlink(path);
    return t;
}

/* "2:0-0 5:0-2 ..." : numbers and places of a window. */
static const char *shown(const ls_encoding *e, int64_t window)
{
    static char text[2048];
    size_t used = 0;
    text[0] = '\0';
    for (int64_t t = e ? e->begin[window] : 0; e && t < e->begin[window + 1]; t++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%d:%d-%d", used ? " " : "", e->id[t], e->from[t],
                                 e->to[t]);
    return text;
}

static void words_become_their_longest_pieces(void)
{
    ls_tokenizer *t = tokenizer_of(TINY);
    CHECK_TEXT(shown(ls_tokenizer_encode(t, "The unaffable, the.", NULL), 0),
               "2:0-0 8:0-3 5:4-6 6:6-9 7:9-13 10:13-14 8:15-18 9:18-19 3:0-0");
    CHECK_TEXT(shown(ls_tokenizer_encode(t, "unaffablex", NULL, .special_tokens = false), 0), "1:0-10");
    CHECK_TEXT(shown(ls_tokenizer_encode(t, "", NULL), 0), "2:0-0 3:0-0");
    ls_tokenizer_free(t);
}

static void accents_go_and_chinese_stands_alone(void)
{
    ls_tokenizer *t = tokenizer_of(TINY);
    CHECK_TEXT(
        shown(ls_tokenizer_encode(t, "CAF\xc3\x89s \xe4\xb8\xad\xe4\xb8\xad.", NULL, .special_tokens = false), 0),
        "14:0-5 16:5-6 12:7-10 12:10-13 9:13-14");
    CHECK_TEXT(shown(ls_tokenizer_encode(t, "CAF\xc3\x89s \xe4\xb8\xad\xe4\xb8\xad.", NULL, .special_tokens = false,
                                         .characters = true),
                     0),
               "14:0-4 16:4-5 12:6-7 12:7-8 9:8-9");
    ls_tokenizer_free(t);
}

static void bytes_that_are_not_text_are_passed_over(void)
{
    ls_tokenizer *t = tokenizer_of(TINY);
    size_t sizes[] = {9};
    CHECK_TEXT(shown(ls_tokenizer_encode(t,
                                         "th\xff\xed\xa0\x80"
                                         "e.",
                                         NULL, .special_tokens = false),
                     0),
               "8:0-7 9:7-8");
    CHECK_TEXT(shown(ls_tokenizer_encode(t, "the\0 the..", NULL, .special_tokens = false, .sizes = sizes), 0),
               "8:0-3 8:5-8 9:8-9");
    ls_tokenizer_free(t);
}

static void special_tokens_are_found_in_the_text(void)
{
    ls_tokenizer *t = tokenizer_of(TINY);
    ls_encoding *e = ls_tokenizer_encode(t, "the[MASK].[SEP", NULL);
    CHECK_TEXT(shown(e, 0), "2:0-0 8:0-3 4:3-9 9:9-10 1:10-11 1:11-14 3:0-0");
    CHECK(e->special[2] == 0 && e->word[2] == 1 && e->word[5] == 4 && e->special[0] == 1 && e->word[0] == -1);
    ls_tokenizer_free(t);
}

static void a_pair_has_types_and_sequences(void)
{
    ls_tokenizer *t = tokenizer_of(TINY);
    ls_encoding *e = ls_tokenizer_encode(t, "the", "un the");
    static const int8_t types[] = {0, 0, 0, 1, 1, 1}, sequences[] = {-1, 0, -1, 1, 1, -1};
    CHECK(e->begin[1] == 6 && memcmp(e->type, types, 6) == 0 && memcmp(e->sequence, sequences, 6) == 0);
    CHECK_TEXT(shown(e, 0), "2:0-0 8:0-3 3:0-0 5:0-2 8:3-6 3:0-0");
    ls_tokenizer_free(t);
}

static void what_does_not_fit_makes_windows(void)
{
    ls_tokenizer *t = tokenizer_of(TINY);
    ls_encoding *e = ls_tokenizer_encode(t, "the", "un un the . . the", .max_length = 7, .stride = 1,
                                         .truncation = LS_TRUNCATE_SECOND, .overflow = true, .padding = LS_PAD_MAX,
                                         .pad_multiple = 8);
    CHECK(e->count == 3 && e->begin[3] == 24);
    CHECK_TEXT(shown(e, 0), "2:0-0 8:0-3 3:0-0 5:0-2 5:3-5 8:6-9 3:0-0 0:0-0");
    CHECK_TEXT(shown(e, 1), "2:0-0 8:0-3 3:0-0 8:6-9 9:10-11 9:12-13 3:0-0 0:0-0");
    CHECK_TEXT(shown(e, 2), "2:0-0 8:0-3 3:0-0 9:12-13 8:14-17 3:0-0 0:0-0 0:0-0");
    CHECK(e->mask[6] == 1 && e->mask[7] == 0 && e->special[7] == 1);
    e = ls_tokenizer_encode(t, "the un the", NULL, .max_length = 4);
    CHECK(e->count == 1);
    CHECK_TEXT(shown(e, 0), "2:0-0 8:0-3 5:4-6 3:0-0");
    ls_tokenizer_free(t);
}

static void windows_know_their_text(void)
{
    ls_tokenizer *t = tokenizer_of(TINY);
    const char *texts[] = {"the", "the un the un the", "un"};
    ls_encoding *e = ls_tokenizer_encode_n(t, texts, NULL, 3, .max_length = 4, .overflow = true,
                                           .padding = LS_PAD_LONGEST, .pad_left = true);
    static const int64_t text[] = {0, 1, 1, 1, 2};
    CHECK(e->count == 5 && memcmp(e->text, text, sizeof text) == 0 && e->begin[5] == 20);
    CHECK_TEXT(shown(e, 0), "0:0-0 2:0-0 8:0-3 3:0-0");
    CHECK(ls_tokenizer_encode_n(t, texts, NULL, 0)->count == 0);
    ls_tokenizer_free(t);
}

static void many_threads_write_what_one_writes(void)
{
    ls_tokenizer *t = tokenizer_of(TINY);
    enum { COUNT = 300 };
    static char texts[COUNT][64];
    const char *list[COUNT];
    for (int i = 0; i < COUNT; i++) {
        snprintf(texts[i], sizeof texts[i], "%.*s", i % 60,
                 "the unaffable caf\xc3\xa9, tokyos the. unaffable the un the");
        list[i] = texts[i];
    }
    ls_parallel_set_width(1);
    ls_encoding *one = ls_tokenizer_encode_n(t, list, NULL, COUNT, .max_length = 9, .overflow = true);
    ls_parallel_set_width(4);
    ls_encoding *many = ls_tokenizer_encode_n(t, list, NULL, COUNT, .max_length = 9, .overflow = true);
    ls_parallel_set_width(0);
    CHECK(one->count == many->count && one->begin[one->count] == many->begin[many->count]);
    size_t tokens = (size_t)one->begin[one->count];
    CHECK(memcmp(one->id, many->id, tokens * 4) == 0 && memcmp(one->to, many->to, tokens * 4) == 0);
    CHECK(memcmp(one->text, many->text, (size_t)one->count * sizeof *one->text) == 0);
    ls_tokenizer_free(t);
}

static void decoding_leaves_no_traces(void)
{
    ls_tokenizer *t = tokenizer_of(TINY);
    static const int32_t ids[] = {2, 8, 5, 6, 7, 9, 11, 16, 99, 3, 0};
    CHECK_TEXT(ls_tokenizer_decode(t, ids, 11), "the unaffable.'s");
    CHECK_TEXT(ls_tokenizer_decode(t, ids, 11, .special_tokens = true), "[CLS] the unaffable.'s [SEP] [PAD]");
    CHECK_TEXT(ls_tokenizer_decode(t, ids, 6, .clean_up = false), "the unaffable .");
    CHECK_TEXT(ls_tokenizer_decode(t, ids, 0), "");
    ls_tokenizer_free(t);
}

static void tokens_have_names_and_numbers(void)
{
    ls_tokenizer *t = tokenizer_of(TINY);
    CHECK(ls_tokenizer_size(t) == 17 && ls_tokenizer_find(t, "##able") == 7 && ls_tokenizer_find(t, "able") == -1);
    CHECK_TEXT(ls_tokenizer_token(t, 15), "tokyo");
    CHECK_TEXT(ls_tokenizer_token(t, 17), "");
    CHECK(ls_tokenizer_size(NULL) == 0 && !ls_tokenizer_encode(NULL, "a", NULL));
    ls_tokenizer_free(t);
}

#define CHECK_REFUSED(call, words)                                                                                     \
    do {                                                                                                               \
        CHECK(!(call));                                                                                                \
        CHECK_MSG(strstr(ls_error_message(run), words), "%s", ls_error_message(run));                                  \
        ls_clear_error(run);                                                                                           \
    } while (0)

static void what_cannot_be_is_refused_with_the_reason(void)
{
    ls_tokenizer *t = tokenizer_of(TINY);
    const char *texts[] = {"the", "the un the un"};
    CHECK_REFUSED(ls_tokenizer_new(run, "nowhere/vocab.txt"), "nowhere/vocab.txt");
    CHECK_REFUSED(tokenizer_of("a\nb\n"), "no token [UNK]");
    CHECK_REFUSED(tokenizer_of("[UNK]\n\xff\n"), "line 2 is not UTF-8");
    CHECK_REFUSED(ls_tokenizer_encode(t, "the", NULL, .max_length = 2), "no room beside 2 special tokens");
    CHECK_REFUSED(ls_tokenizer_encode(t, "the the", NULL, .max_length = 3, .truncation = LS_TRUNCATE_SECOND), "second");
    CHECK_REFUSED(ls_tokenizer_encode(t, "the un the", "un", .max_length = 5, .truncation = LS_TRUNCATE_SECOND),
                  "cutting only the second text");
    CHECK_REFUSED(ls_tokenizer_encode_n(t, texts, NULL, 2, .max_length = 5, .stride = 3), "text 1: ");
    CHECK_REFUSED(ls_tokenizer_encode(t, "the", NULL, .padding = LS_PAD_MAX), "needs a .max_length");
    CHECK_REFUSED(ls_tokenizer_encode(tokenizer_of("[UNK]\n"), "the", NULL), "has no [CLS]");
    ls_tokenizer_free(t);
}

static void padding_beyond_all_memory_is_refused(void)
{
    ls_tokenizer *t = tokenizer_of(TINY);
    CHECK_REFUSED(ls_tokenizer_encode(t, "the", NULL, .max_length = 922337203685477581, .padding = LS_PAD_MAX),
                  ".max_length = 922337203685477581; padded windows have at most 16777216 tokens");
    CHECK_REFUSED(
        ls_tokenizer_encode(t, "the", NULL, .max_length = INT64_MAX, .padding = LS_PAD_MAX, .pad_multiple = 8),
        ".max_length = 9223372036854775807");
    CHECK_REFUSED(ls_tokenizer_encode(t, "the", NULL, .padding = LS_PAD_LONGEST, .pad_multiple = 922337203685477581),
                  ".pad_multiple = 922337203685477581");
    ls_encoding *e = ls_tokenizer_encode(t, "the", NULL, .max_length = INT64_MAX); /* a limit that nothing reaches */
    CHECK_TEXT(shown(e, 0), "2:0-0 8:0-3 3:0-0");
    ls_tokenizer_free(t);
}

static void windows_beyond_all_memory_are_counted_and_refused(void)
{
    enum { WORDS = 20000 };
    static char text[3 * WORDS + 1];
    for (int i = 0; i < WORDS; i++) memcpy(text + 3 * i, "un ", 3);
    ls_tokenizer *t = tokenizer_of(TINY);
    const char *texts[] = {"the", text}, *seconds[] = {"the", text};
    CHECK_REFUSED(ls_tokenizer_encode(t, text, text, .max_length = 5, .overflow = true),
                  "it makes 400000000 windows, 400000000 with those before it; one call makes at most 67108864");
    CHECK_REFUSED(ls_tokenizer_encode_n(t, texts, seconds, 2, .max_length = 5, .overflow = true),
                  "text 1: it makes 400000000 windows, 400000001 with those before it;");
    ls_tokenizer_free(t);
}

static void a_file_of_empty_lines_is_no_vocabulary(void)
{
    enum { LINES = (1 << 22) + 1 };
    static char text[LINES + 1];
    memset(text, '\n', LINES);
    CHECK_REFUSED(tokenizer_of(text), "more than 4194304 lines");
}

static void values_of_no_name_are_refused(void)
{
    ls_tokenizer *t = tokenizer_of(TINY);
    CHECK_REFUSED(ls_tokenizer_encode(t, "the", NULL, .truncation = (ls_truncation)3),
                  ".truncation = 3; must be LS_TRUNCATE_LONGEST, LS_TRUNCATE_FIRST or LS_TRUNCATE_SECOND");
    CHECK_REFUSED(ls_tokenizer_encode(t, "the", NULL, .padding = (ls_padding)-1),
                  ".padding = -1; must be LS_PAD_NONE, LS_PAD_LONGEST or LS_PAD_MAX");
    ls_tokenizer_free(t);
}

/* ---- files ---- */

/* A tokenizer.json of the tokens of TINY, and what replaces one text in it. */
static ls_tokenizer *json_tokenizer(const char *from, const char *to)
{
    static const char whole[] =
        "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\"added_tokens\":[{\"id\":2,\"content\":\"[CLS]\","
        "\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":false,\"special\":true},{\"id\":7,"
        "\"content\":\"Tokyo\",\"single_word\":false,\"lstrip\":true,\"rstrip\":false,\"normalized\":true,\"special\":"
        "false}],\"normalizer\":{\"type\":\"BertNormalizer\",\"clean_text\":true,\"handle_chinese_chars\":true,"
        "\"strip_accents\":null,\"lowercase\":true},\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},"
        "\"post_processor\":{\"type\":\"BertProcessing\",\"sep\":[\"[SEP]\",3],\"cls\":[\"[CLS]\",2]},\"decoder\":{"
        "\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true},\"model\":{\"type\":\"WordPiece\",\"unk_token\":"
        "\"[UNK]\",\"continuing_subword_prefix\":\"##\",\"max_input_chars_per_word\":100,\"vocab\":{\"[PAD]\":0,"
        "\"[UNK]\":1,\"[CLS]\":2,\"[SEP]\":3,\"the\":4,\"un\":5,\"##s\":6}}}";
    char text[4096];
    const char *at = strstr(whole, from);
    CHECK(at);
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - whole), whole, to, at + strlen(from));
    char path[] = "XXXXXX.json";
    int file = mkstemps(path, 5);
    CHECK(write(file, text, strlen(text)) == (ssize_t)strlen(text));
    close(file);
    ls_tokenizer *t = ls_tokenizer_new(run, path);
    unlink(path);
    return t;
}

static void a_tokenizer_json_says_it_all(void)
{
    ls_tokenizer *t = json_tokenizer("\"version\"", "\"version\"");
    CHECK(ls_tokenizer_size(t) == 8 && ls_tokenizer_find(t, "Tokyo") == 7);
    CHECK_TEXT(shown(ls_tokenizer_encode(t, "The t\xc3\x95kyos", NULL), 0), "2:0-0 4:0-3 7:3-10 1:10-11 3:0-0");
    CHECK_TEXT(shown(ls_tokenizer_encode(t, "The [CLS]", NULL, .special_tokens = false), 0), "4:0-3 2:4-9");
    ls_tokenizer_free(t);
    t = json_tokenizer("\"lowercase\":true", "\"lowercase\":false");
    CHECK_TEXT(shown(ls_tokenizer_encode(t, "The the", NULL), 0), "2:0-0 1:0-3 4:4-7 3:0-0");
    ls_tokenizer_free(t);
}

static void what_a_tokenizer_json_asks_for_is_refused_by_name(void)
{
    CHECK_REFUSED(json_tokenizer("\"version\"", "\"sampling\":1,\"version\""), "an unknown member \"sampling\"");
    CHECK_REFUSED(json_tokenizer("BertNormalizer", "NFKC"), "normalizer is NFKC; only BertNormalizer");
    CHECK_REFUSED(json_tokenizer("BertPreTokenizer", "ByteLevel"), "pre_tokenizer is ByteLevel");
    CHECK_REFUSED(json_tokenizer("BertProcessing", "RobertaProcessing"), "post_processor is RobertaProcessing");
    CHECK_REFUSED(json_tokenizer("\"type\":\"WordPiece\",\"unk_token\"", "\"type\":\"BPE\",\"unk_token\""),
                  "model is BPE");
    CHECK_REFUSED(json_tokenizer("\"single_word\":false", "\"single_word\":true"), "is a single_word");
    CHECK_REFUSED(json_tokenizer("\"id\":7", "\"id\":9"), "has the number 9; it should be 7");
    CHECK_REFUSED(json_tokenizer("\"un\":5", "\"un\":4"), "have the number 4");
    CHECK_REFUSED(json_tokenizer("\"un\":5", "\"un\":5000000"), "has the number 5000000");
    CHECK_REFUSED(json_tokenizer("[\"[SEP]\",3]", "[\"[SEP]\",4]"), "[SEP] with the number 4");
    CHECK_REFUSED(json_tokenizer("\"version\"", "version"), "line 1, column");
}

static void a_list_where_a_tokenizer_json_needs_an_object_is_refused(void)
{
    FILE *file = fopen("list.json", "w");
    fputs("[1]", file);
    fclose(file);
    CHECK_REFUSED(ls_tokenizer_new(run, "list.json"), "list.json: the file is not an object");
    remove("list.json");
    CHECK_REFUSED(json_tokenizer("\"added_tokens\":[", "\"added_tokens\":[[1],"), "an added token is not an object");
}

static void a_folder_has_the_model_s_rules(void)
{
    static const char folder[] = "model_folder", config[] = "model_folder/tokenizer_config.json";
    folder_fresh(folder);
    file_append("model_folder/vocab.txt", TINY);
    ls_tokenizer *t = ls_tokenizer_new(run, folder);
    CHECK_TEXT(shown(ls_tokenizer_encode(t, "The", NULL), 0), "2:0-0 8:0-3 3:0-0");
    file_append(config, "{\"do_lower_case\": false, \"cls_token\": {\"content\": \"[MASK]\"}, \"x\": 1}");
    t = ls_tokenizer_new(run, folder);
    CHECK_TEXT(shown(ls_tokenizer_encode(t, "The", NULL), 0), "4:0-0 1:0-3 3:0-0");
    t = ls_tokenizer_new(run, folder, .lower_case = true);
    CHECK_TEXT(shown(ls_tokenizer_encode(t, "The", NULL), 0), "4:0-0 8:0-3 3:0-0");
    remove(config);
    file_append(config, "{\"do_basic_tokenize\": false}");
    CHECK_REFUSED(ls_tokenizer_new(run, folder), "do_basic_tokenize");
    CHECK_REFUSED(ls_tokenizer_new(run, "."), "neither a tokenizer.json nor a vocab.txt");
    folder_remove(folder);
}

static void out_of_memory_is_an_error_and_nothing_else(void)
{
    for (uint64_t n = 1; n < 60; n++) {
        ls_sys_fail_at(n);
        ls_tokenizer *t = tokenizer_of(TINY);
        ls_encoding *e =
            ls_tokenizer_encode(t, "the unaffable caf\xc3\xa9", "the un", .max_length = 7, .overflow = true);
        ls_sys_fail_at(0);
        if (e) CHECK(e->id[0] == 2);
        CHECK((e != NULL) == (ls_error(run) == LS_OK));
        ls_clear_error(run);
        ls_tokenizer_free(t);
        if (e) return;
    }
    CHECK_MSG(false, "it never succeeds");
}

/* ---- the real vocabularies ---- */

static ls_json *fixture(const char *name)
{
    char path[200];
    snprintf(path, sizeof path, "bert_tokenizer/fixtures/%s", name);
    const char *there = check_data(path);
    if (!there) return NULL;
    ls_message why;
    size_t size = 0;
    char *text = ls_file_read(there, (size_t)64 << 20, &size, &why);
    ls_json *json = text ? ls_json_read(text, size, &why) : NULL;
    CHECK_MSG(json, "%s", why.text);
    ls_sys_free(text);
    return json;
}

static void questions_of_squad_have_the_known_tokens(void)
{
    const char *path = check_data("bert_tokenizer/bert-base-uncased-vocab.txt");
    ls_tokenizer *t = path ? ls_tokenizer_new(run, path) : NULL;
    ls_json *questions = t ? fixture("question_tokens.json") : NULL,
            *ids = t ? fixture("tokenized_questions.json") : NULL;
    int64_t count = 0;
    const ls_json *expected = ls_json_first(ids);
    for (const ls_json *q = ls_json_first(questions); q && expected; q = q->next, expected = expected->next, count++) {
        const char *text = ls_json_text(ls_json_get(q, "original"));
        ls_encoding *e = ls_tokenizer_encode(t, text, NULL, .special_tokens = false);
        int64_t at = 0;
        bool same = e && e->begin[1] == expected->count;
        for (const ls_json *id = ls_json_first(expected); same && id; id = id->next)
            same = ls_json_integer(id, -1) == e->id[at++];
        const ls_json *piece = ls_json_first(ls_json_get(q, "wordpiece"));
        for (at = 0; same && piece; piece = piece->next)
            same = strcmp(ls_json_text(piece), ls_tokenizer_token(t, e->id[at++])) == 0;
        CHECK_MSG(same, "\"%s\" is %s", text, shown(e, 0));
        ls_encoding_free(e);
    }
    CHECK(!ids || count == 10570);
    ls_json_free(questions);
    ls_json_free(ids);
    ls_tokenizer_free(t);
}

static void known_text(const char *vocabulary, const char *name, int lower_case)
{
    const char *path = check_data(vocabulary);
    ls_tokenizer *t = path ? ls_tokenizer_new(run, path, .lower_case = lower_case) : NULL;
    ls_json *known = t ? fixture(name) : NULL;
    if (known) {
        ls_encoding *e = ls_tokenizer_encode(t, ls_json_text(ls_json_get(known, "text")), NULL);
        int64_t at = 0;
        for (const ls_json *id = ls_json_first(ls_json_get(known, "token_ids")); id; id = id->next, at++)
            CHECK(at < e->begin[1] && ls_json_integer(id, -1) == e->id[at]);
        CHECK_TEXT(ls_tokenizer_decode(t, e->id, e->begin[1], .special_tokens = true),
                   ls_json_text(ls_json_get(known, "decoded_text")));
    }
    ls_json_free(known);
    ls_tokenizer_free(t);
}

static void a_french_text_has_the_known_tokens_uncased(void)
{
    known_text("bert_tokenizer/bert-base-uncased-vocab.txt", "bert_uncased_encoded.json", true);
}

static void a_french_text_has_the_known_tokens_multilingual(void)
{
    known_text("bert_tokenizer/bert-base-multilingual-cased-vocab.txt", "distilbert_cased_encoded.json", false);
}

int main(int argc, char **argv)
{
    check_filter = argc > 1 ? argv[1] : NULL;
    run = ls_init(NULL, NULL);
    CHECK_RUN(words_become_their_longest_pieces);
    CHECK_RUN(accents_go_and_chinese_stands_alone);
    CHECK_RUN(bytes_that_are_not_text_are_passed_over);
    CHECK_RUN(special_tokens_are_found_in_the_text);
    CHECK_RUN(a_pair_has_types_and_sequences);
    CHECK_RUN(what_does_not_fit_makes_windows);
    CHECK_RUN(windows_know_their_text);
    CHECK_RUN(many_threads_write_what_one_writes);
    CHECK_RUN(decoding_leaves_no_traces);
    CHECK_RUN(tokens_have_names_and_numbers);
    CHECK_RUN(what_cannot_be_is_refused_with_the_reason);
    CHECK_RUN(padding_beyond_all_memory_is_refused);
    CHECK_RUN(windows_beyond_all_memory_are_counted_and_refused);
    CHECK_RUN(a_file_of_empty_lines_is_no_vocabulary);
    CHECK_RUN(values_of_no_name_are_refused);
    CHECK_RUN(a_tokenizer_json_says_it_all);
    CHECK_RUN(what_a_tokenizer_json_asks_for_is_refused_by_name);
    CHECK_RUN(a_list_where_a_tokenizer_json_needs_an_object_is_refused);
    CHECK_RUN(a_folder_has_the_model_s_rules);
    CHECK_RUN(out_of_memory_is_an_error_and_nothing_else);
    CHECK_RUN(questions_of_squad_have_the_known_tokens);
    CHECK_RUN(a_french_text_has_the_known_tokens_uncased);
    CHECK_RUN(a_french_text_has_the_known_tokens_multilingual);
    ls_finish(run);
    return check_done();
}
