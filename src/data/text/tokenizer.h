/* tokenizer.h - the inside of a tokenizer. After it is loaded nothing of it changes, so that any number of threads may
 * encode with it; what they write is theirs (encoder.h). */
#ifndef LOCKSTEP_DATA_TEXT_TOKENIZER_H
#define LOCKSTEP_DATA_TEXT_TOKENIZER_H

#include <lockstep/text.h>

#include "data/text/vocabulary.h"
#include "tensor/context.h"

/* A token that is found in the text as it stands, before anything is split: [CLS] and the like. */
typedef struct ls_added_token {
    const char *text;
    size_t length;
    int32_t id;
    bool normalized;              /* is looked for in the prepared text, prepared itself; otherwise in the raw one */
    bool strip_left, strip_right; /* white space beside it belongs to it */
    bool special;                 /* decoding leaves it out */
} ls_added_token;

/* Tokens that are looked for in one form of the text. Values of the trie are indices of added tokens. */
typedef struct ls_added_set {
    int64_t count;
    ls_trie trie;
    bool begins[256];    /* some token begins with this byte */
    unsigned char first; /* if all begin with the same: that one */
    bool same_first;
} ls_added_set;

/* What a byte of plain ASCII is to the quick way through a text. */
typedef enum ls_byte_kind {
    LS_BYTE_WORD,
    LS_BYTE_BLANK,
    LS_BYTE_PUNCT,
    LS_BYTE_OTHER, /* not ASCII, or removed by cleaning: the slow way */
} ls_byte_kind;

typedef struct ls_text_rules {
    bool lower_case, strip_accents, split_chinese, clean_text;
} ls_text_rules;

struct ls_tokenizer {
    ls_object object;
    ls_vocabulary vocabulary;
    ls_text_rules rules;
    int64_t max_word;               /* characters; longer words are unknown */
    const char *prefix;             /* of tokens that continue a word: "##" */
    const char *unknown_text;       /* "[UNK]" */
    int32_t unknown, cls, sep, pad; /* cls, sep and pad are -1 where the vocabulary has none */
    uint32_t continuation;          /* the trie's node behind the prefix; LS_TRIE_NONE: no token continues a word */
    ls_added_token *added;
    int64_t added_count, added_room;
    ls_added_set raw, prepared;
    uint8_t kinds[256];  /* ls_byte_kind of each byte */
    uint8_t folded[256]; /* ASCII in lower case, where that is wanted */
    char *decoded;       /* what ls_tokenizer_decode() returned last */
    size_t decoded_room;
};

/* Steps of making one: the vocabulary and rules are filled in, then tokens are added, then it is closed. */

/* A token to find in texts; its number is that of its text in the vocabulary, or the next one. */
ls_status ls_tokenizer_add(ls_tokenizer *tokenizer, ls_added_token token, ls_message *why);
/* Look up what encoding needs. */
ls_status ls_tokenizer_close(ls_tokenizer *tokenizer, ls_message *why);
/* Everything of it but the object itself. */
void ls_tokenizer_clear(void *tokenizer);

/* Fill in a tokenizer from a file, and add its tokens. */
ls_status ls_tokenizer_read_vocabulary(ls_tokenizer *tokenizer, const char *path, ls_message *why);

#endif
