/* peer.c - our tokenizer beside Hugging Face's, on texts of all kinds. peer_cases.py asks the other one
 * and writes down what it says; here everything is compared, token by token. */
#include <lockstep.h>

#include <stdint.h>
#include <sys/stat.h>

#include "check.h"
#include "data/text/unicode.h"

#define FOLDER "tokenizer_peer"

/* ---- the file of cases ---- */

static const char *at; /* what is read next */

static int32_t number(void)
{
    int32_t value;
    memcpy(&value, at, sizeof value);
    at += sizeof value;
    return value;
}

static const char *bytes(size_t *size)
{
    *size = (size_t)number();
    const char *text = at;
    at += (*size + 3) / 4 * 4;
    return text;
}

static char *read_cases(size_t *size)
{
    FILE *file = fopen(FOLDER "/cases", "rb");
    struct stat about;
    if (!file || fstat(fileno(file), &about)) return NULL;
    *size = (size_t)about.st_size;
    char *cases = malloc(*size + 1);
    if (fread(cases, 1, *size, file) != *size) *size = 0;
    fclose(file);
    return cases;
}

/* ---- one case ---- */

static int differences;

static void tell(const char *what, const char *text, size_t size, int64_t token, long ours, long theirs)
{
    if (differences++ >= 10) return;
    fprintf(stderr, "%s of token %lld: %ld, the peer says %ld; in a text of %zu bytes:", what, (long long)token, ours,
            theirs, size);
    for (size_t i = 0; i < size && i < 300; i++) fprintf(stderr, " %02x", (unsigned char)text[i]);
    fputc('\n', stderr);
}

/* Places in bytes belong to the places in characters: both count the same text. */
static void compare_bytes(const ls_encoding *in_bytes, const ls_encoding *in_chars, const char *const *texts[2],
                          const size_t *const sizes[2])
{
    int64_t t = 0;
    CHECK(in_bytes->count == in_chars->count && in_bytes->begin[in_bytes->count] == in_chars->begin[in_chars->count]);
    for (int64_t w = 0; w < in_chars->count; w++) {
        int64_t i = in_chars->text[w], chars = 0;
        size_t place = 0;
        int sequence = -1;
        for (t = in_chars->begin[w]; t < in_chars->begin[w + 1]; t++) {
            if (in_chars->sequence[t] < 0) continue;
            if (in_chars->sequence[t] != sequence) chars = 0, place = 0;
            sequence = in_chars->sequence[t];
            const char *text = texts[sequence][i];
            size_t size = sizes[sequence][i];
            uint32_t code;
            for (; chars < in_chars->from[t]; chars++) place += ls_char_read(text + place, size - place, &code);
            if (chars == in_chars->from[t] && (int64_t)place != in_bytes->from[t])
                tell("first byte", text, size, t, in_bytes->from[t], (long)place);
            for (; chars < in_chars->to[t]; chars++) place += ls_char_read(text + place, size - place, &code);
            if (chars == in_chars->to[t] && (int64_t)place != in_bytes->to[t])
                tell("last byte", text, size, t, in_bytes->to[t], (long)place);
        }
    }
}

static void compare_windows(const ls_encoding *e, const char *const *texts, const size_t *sizes)
{
    int32_t windows = number();
    CHECK_MSG(e->count == windows, "%lld windows, the peer has %d", (long long)e->count, windows);
    for (int32_t w = 0; w < windows; w++) {
        int32_t text = number(), length = number();
        const int32_t *theirs = (const int32_t *)(const void *)at;
        at += (size_t)length * 8 * sizeof *theirs;
        if (w >= e->count) continue;
        int64_t begin = e->begin[w], ours = e->begin[w + 1] - begin;
        if (e->text[w] != text || ours != length) {
            tell(e->text[w] != text ? "text" : "length", texts[text], sizes[text], w, (long)ours, length);
            continue;
        }
        for (int64_t i = 0; i < length; i++) {
            const struct {
                const char *what;
                int32_t ours;
            } fields[] = {
                {"number", e->id[begin + i]},       {"begin", e->from[begin + i]},        {"end", e->to[begin + i]},
                {"word", e->word[begin + i]},       {"sequence", e->sequence[begin + i]}, {"type", e->type[begin + i]},
                {"special", e->special[begin + i]}, {"mask", e->mask[begin + i]},
            };
            for (int f = 0; f < 8; f++)
                if (fields[f].ours != theirs[f * length + i])
                    tell(fields[f].what, texts[text], sizes[text], i, fields[f].ours, theirs[f * length + i]);
        }
    }
}

static void compare_decoded(ls_tokenizer *t, const ls_encoding *e, bool special)
{
    size_t size;
    const char *theirs = bytes(&size);
    const char *ours = ls_tokenizer_decode(t, e->id, e->begin[1], .special_tokens = special);
    if (strlen(ours) != size || memcmp(ours, theirs, size) != 0)
        tell("decoded text", theirs, size, special, (long)strlen(ours), (long)size);
}

/* Tokenizers by file and rules: each is loaded once. */
static ls_tokenizer *tokenizer_for(ls_run *run, const char *path, size_t size, const int32_t rules[4])
{
    static struct {
        char path[1024];
        int32_t rules[4];
        ls_tokenizer *tokenizer;
    } known[160];
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        bool empty = !known[i].tokenizer;
        if (empty) {
            snprintf(known[i].path, sizeof known[i].path, "%.*s", (int)size, path);
            memcpy(known[i].rules, rules, sizeof known[i].rules);
            known[i].tokenizer = ls_tokenizer_new(run, known[i].path, .lower_case = rules[0], .strip_accents = rules[1],
                                                  .split_chinese = rules[2], .clean_text = rules[3]);
        }
        if (strlen(known[i].path) == size && memcmp(known[i].path, path, size) == 0 &&
            memcmp(known[i].rules, rules, sizeof known[i].rules) == 0)
            return known[i].tokenizer;
    }
    return NULL;
}

static void compare_case(ls_run *run)
{
    size_t path_size;
    const char *path = bytes(&path_size);
    int32_t rules[4];
    for (int i = 0; i < 4; i++) {
        rules[i] = number();
        if (rules[i] < 0) rules[i] = LS_AUTO; /* as the file says */
    }
    ls_tokenizer *t = tokenizer_for(run, path, path_size, rules);
    ls_tokenizer_encode_opts o = LS_OPTIONS(ls_tokenizer_encode_opts, .overflow = true, .characters = true);
    o.special_tokens = number();
    int32_t limit = number();
    if (limit > 0) o.max_length = limit;
    o.truncation = (ls_truncation)number();
    o.stride = number();
    o.padding = (ls_padding)number();
    o.pad_multiple = number();
    o.pad_left = number();
    int64_t count = number();
    bool pair = number();
    const char **texts[2];
    size_t *sizes[2];
    for (int s = 0; s < 2; s++) {
        texts[s] = calloc((size_t)count, sizeof *texts[s]);
        sizes[s] = calloc((size_t)count, sizeof *sizes[s]);
    }
    for (int64_t i = 0; i < count; i++)
        for (int s = 0; s < 1 + pair; s++) texts[s][i] = bytes(&sizes[s][i]);
    o.sizes = sizes[0];
    o.second_sizes = sizes[1];
    ls_encoding *e = ls_tokenizer_encode_n_sized(t, texts[0], pair ? texts[1] : NULL, count, &o,
                                                 LS_OPTS_SIZE(ls_tokenizer_encode_opts));
    CHECK_MSG(e, "%s", ls_error_message(run));
    if (e) compare_windows(e, texts[0], sizes[0]);
    o.characters = false;
    ls_encoding *in_bytes = ls_tokenizer_encode_n_sized(t, texts[0], pair ? texts[1] : NULL, count, &o,
                                                        LS_OPTS_SIZE(ls_tokenizer_encode_opts));
    if (e) compare_bytes(in_bytes, e, (const char *const **)texts, (const size_t *const *)sizes);
    for (int special = 0; e && special < 2; special++) compare_decoded(t, e, special);
    ls_encoding_free(in_bytes);
    ls_encoding_free(e);
    for (int s = 0; s < 2; s++) free(texts[s]), free(sizes[s]);
}

static void tokens_and_places_are_those_of_hugging_face(void)
{
    const char *python = getenv("PYTHON_TOKENIZERS"), *data = getenv("LOCKSTEP_TEST_DATA");
    char command[4096];
    /* Versions differ in their windows: the one of tools/hf_tokenizers.sh. */
    const char *import = "PYTHONPATH=" PEER_FOLDER ":$PYTHONPATH %s -c "
                         "'import tokenizers; assert tokenizers.__version__ == \"0.23.3\"' 2>/dev/null";
    snprintf(command, sizeof command, import, python ? python : "python3");
    if (system(command) != 0)
        CHECK_SKIP(
            "python3 has no tokenizers 0.23.3 (pip install tokenizers==0.23.3 brings it, PYTHON_TOKENIZERS names "
            "another python3)");
    mkdir(FOLDER, 0777);
    snprintf(command, sizeof command,
             "PYTHONPATH=" PEER_FOLDER ":$PYTHONPATH TOKENIZERS_PARALLELISM=false %s %s/peer_cases.py " FOLDER
             " %s >" FOLDER "/missing",
             python ? python : "python3", SOURCE_FOLDER, data ? data : CHECK_DATA_DIR);
    CHECK(system(command) == 0);
    size_t size = 0;
    char *cases = read_cases(&size);
    CHECK(cases && size);
    ls_run *run = ls_init(NULL, NULL);
    int64_t count = 0;
    for (at = cases; cases && at < cases + size && ls_error(run) == LS_OK; count++) compare_case(run);
    CHECK_MSG(differences == 0, "%d differences", differences);
    CHECK_MSG(count > 200, "only %lld cases", (long long)count);
    CHECK(ls_finish(run) == 0);
    free(cases);
    remove(FOLDER "/cases");
}

int main(int argc, char **argv)
{
    check_filter = argc > 1 ? argv[1] : NULL;
    CHECK_RUN_SLOW(tokens_and_places_are_those_of_hugging_face);
    return check_done();
}
