/* windows.h - the tokens of a text in windows: truncation, overflow, special tokens. */
#ifndef LOCKSTEP_DATA_TEXT_WINDOWS_H
#define LOCKSTEP_DATA_TEXT_WINDOWS_H

#include "data/text/encoder.h"

/* Tokens of the first text of a pair, or of the second. */
typedef struct ls_piece_list {
    const ls_piece *pieces;
    int64_t count;
} ls_piece_list;

/* How a text or pair is cut. Part k of a list begins at token k * step and has at most `keep` tokens. */
typedef struct ls_cut {
    bool pair;
    struct ls_cut_list {
        int64_t count; /* tokens */
        int64_t keep, step;
        int64_t parts; /* 1 without overflow */
    } list[2];
    int special;     /* additional tokens of every window */
    int64_t windows; /* every combination of a part of one list with one of the other */
} ls_cut;

/* Decide how to cut lists of these lengths. */
ls_status ls_cut_plan(ls_cut *cut, const ls_tokenizer_encode_opts *opts, const int64_t counts[2], bool pair,
                      ls_message *why);
/* The number of tokens of window k, including special ones. */
int64_t ls_cut_length(const ls_cut *cut, int64_t k);

/* The destination of a window's tokens: [length] each. */
typedef struct ls_token_window {
    int32_t *id, *from, *to, *word;
    int8_t *sequence, *type, *special, *mask;
} ls_token_window;

/* Write window k, padded to `length` tokens. */
void ls_cut_write(const ls_cut *cut, const ls_tokenizer *tokenizer, const ls_piece_list lists[2], int64_t k,
                  const ls_token_window *window, int64_t length, bool pad_left);

#endif
