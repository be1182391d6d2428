/* cell.c - cells of a notebook: parts cover the tokens in order, and a second cell finds what the first defined. */
#include "base/memory.h"
#include "cell/split.h"
#include "cell/unit.h"
#include "fuzz/fuzz.h"

static void check_parts(const char *code, size_t size)
{
    token_list tokens = tokens_read(code, size);
    part_list parts = split(&tokens, NULL, NULL);
    size_t at = 0;
    for (size_t i = 0; i < parts.count; i++) {
        for (; at < parts.parts[i].begin; at++) FUZZ_CHECK(token_is(&tokens.tokens[at], ";"));
        FUZZ_CHECK(parts.parts[i].begin == at && parts.parts[i].end > at && parts.parts[i].end <= tokens.count);
        at = parts.parts[i].end;
    }
    parts_free(&parts);
    tokens_free(&tokens);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    char *copy = fuzz_copy(bytes, size), *code = fuzz_text(bytes, size);
    check_parts(copy, size);
    definitions known = {0};
    string unit = {0}, removed = {0};
    ls_message why;
    for (int cell = 1; cell <= 2; cell++) {
        unit_request request = {.code = code, .number = cell, .shown_as = cell, .shows = cell == 1};
        unit_write(&unit, &known, &request, &removed, &why);
    }
    FUZZ_CHECK(unit.length > 0);
    definitions_free(&known);
    text_free(&unit);
    text_free(&removed);
    free(copy);
    free(code);
    return 0;
}
