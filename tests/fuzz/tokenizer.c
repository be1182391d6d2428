/* tokenizer.c - a tokenizer's file and a text: the first byte says which form the file has, and how the text is cut; up
 * to the first byte 0xfe is the file, the rest is the text. */
#include <lockstep.h>

#include "fuzz/fuzz.h"

/* Places are inside of the text and in order; numbers are tokens. */
static void check_encoding(const ls_tokenizer *t, const ls_encoding *e, size_t size)
{
    for (int64_t w = 0; w < e->count; w++) {
        int32_t before = 0;
        for (int64_t i = e->begin[w]; i < e->begin[w + 1]; i++) {
            FUZZ_CHECK(e->id[i] >= 0 && e->id[i] < ls_tokenizer_size(t));
            FUZZ_CHECK(e->from[i] >= 0 && e->from[i] <= e->to[i] && (size_t)e->to[i] <= size);
            if (e->sequence[i] < 0) continue;
            FUZZ_CHECK(e->from[i] >= before);
            before = e->from[i];
        }
    }
}

static void encode(ls_run *run, ls_tokenizer *t, const uint8_t *bytes, size_t size, uint8_t choice)
{
    char *text = fuzz_copy(bytes, size);
    ls_tokenizer_encode_opts o = LS_OPTIONS(ls_tokenizer_encode_opts, .overflow = true, .sizes = &size);
    o.characters = choice & 2;
    o.special_tokens = !(choice & 4);
    if (choice & 8) o.max_length = 8;
    if (choice & 16) o.stride = 1;
    o.pad_multiple = choice & 32 ? 8 : 1;
    ls_encoding *e = ls_tokenizer_encode_sized(t, text, NULL, &o, LS_OPTS_SIZE(ls_tokenizer_encode_opts));
    FUZZ_CHECK((e != NULL) == (ls_error(run) == LS_OK));
    if (e) {
        check_encoding(t, e, size);
        ls_tokenizer_decode(t, e->id, e->begin[e->count], .special_tokens = choice & 64);
    }
    ls_encoding_free(e);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static ls_run *run;
    if (!run) run = ls_init(NULL, NULL);
    if (size < 1) return 0;
    const uint8_t *end = memchr(bytes + 1, 0xfe, size - 1);
    size_t file = end ? (size_t)(end - bytes) - 1 : size - 1;
    char path[300];
    const char *name = bytes[0] & 1 ? "tokenizer.json" : "vocab.txt";
    snprintf(path, sizeof path, "%s/%s", fuzz_folder_with(name, bytes + 1, file), name);
    ls_tokenizer *t = ls_tokenizer_new(run, path);
    FUZZ_CHECK((t != NULL) == (ls_error(run) == LS_OK));
    if (t) encode(run, t, end ? end + 1 : bytes, end ? size - file - 2 : 0, bytes[0]);
    ls_tokenizer_free(t);
    ls_clear_error(run);
    return 0;
}
