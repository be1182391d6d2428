/* encoder.h - one thread's way through texts: from bytes to tokens with their places.
 *
 * Plain ASCII, which most text is, goes from byte to token directly: kinds of bytes by table, lower case by table,
 * tokens by the trie. A stretch with other characters, from a blank or punctuation to the next one, is prepared first
 * (prepare.h). No rule of Unicode reaches across such a border, so that both ways give what preparing the whole text
 * gives. */
#ifndef LOCKSTEP_DATA_TEXT_ENCODER_H
#define LOCKSTEP_DATA_TEXT_ENCODER_H

#include "data/text/prepare.h"
#include "data/text/tokenizer.h"

/* A token of a text: where it stands there, and in which word. */
typedef struct ls_piece {
    int32_t id, from, to, word;
} ls_piece;

typedef struct ls_encoder {
    const ls_tokenizer *tokenizer;
    bool characters; /* places count characters */
    ls_piece *pieces;
    int64_t count, room;
    bool failed; /* memory was out */

    /* Of the text in progress. */
    const char *text;
    size_t shift; /* bytes minus places before what comes next */
    int32_t words;
    ls_preparation preparation;
    char *bytes; /* of a prepared word */
    size_t bytes_room;
} ls_encoder;

/* Append the tokens of a text. False when memory is out. At most INT32_MAX bytes. */
bool ls_encoder_add(ls_encoder *encoder, const char *text, size_t length);
void ls_encoder_free(ls_encoder *encoder);

#endif
