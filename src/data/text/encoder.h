/* encoder.h - one thread's encoder: from bytes to tokens with their offsets.
 *
 * ASCII, which most text is, goes from byte to token directly: byte classes and lower case by table, tokens by the
 * trie. A segment with other characters, from a blank or punctuation to the next one, is prepared first (prepare.h). No
 * Unicode rule reaches across such a border, so both ways give the same result as preparing the whole text. */
#ifndef LOCKSTEP_DATA_TEXT_ENCODER_H
#define LOCKSTEP_DATA_TEXT_ENCODER_H

#include "data/text/prepare.h"
#include "data/text/tokenizer.h"

/* A token of a text: its offsets there, and its word. */
typedef struct ls_piece {
    int32_t id, from, to, word;
} ls_piece;

typedef struct ls_encoder {
    const ls_tokenizer *tokenizer;
    bool characters; /* offsets count characters */
    ls_piece *pieces;
    int64_t count, room;
    bool failed; /* out of memory */

    /* Of the current text. */
    const char *text;
    size_t shift; /* bytes minus offset units before the next byte */
    int32_t words;
    ls_preparation preparation;
    char *bytes; /* of a prepared word */
    size_t bytes_room;
} ls_encoder;

/* Append the tokens of a text. False if out of memory. At most INT32_MAX bytes. */
bool ls_encoder_add(ls_encoder *encoder, const char *text, size_t length);
void ls_encoder_free(ls_encoder *encoder);

#endif
