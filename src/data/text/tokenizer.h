/* tokenizer.h - the internals of a tokenizer. It never changes after loading, so any number of threads may encode with
 * it; what they write belongs to them (encoder.h). */
#ifndef LOCKSTEP_DATA_TEXT_TOKENIZER_H
#define LOCKSTEP_DATA_TEXT_TOKENIZER_H

#include <lockstep/text.h>

#include "base/hash.h"
#include "base/json.h"
#include "data/text/vocabulary.h"
#include "tensor/context.h"

/* A token that is found in the text as it is, before anything is split: [CLS] and the like. */
typedef struct ls_added_token {
    const char *text;
    size_t length;
    int32_t id;
    bool normalized;              /* searched in the prepared text, after preparing it too; otherwise in the raw text */
    bool strip_left, strip_right; /* it absorbs adjacent white space */
    bool special;                 /* omitted by decoding */
    ls_token_text searched;       /* its search text; set when the tokenizer is closed */
} ls_added_token;

/* Tokens that are searched in one form of the text. Values of the trie are indices of added tokens. */
typedef struct ls_added_set {
    int64_t count;
    ls_trie trie;
    bool begins[256];    /* some token begins with this byte */
    unsigned char first; /* if all begin with the same: that one */
    bool same_first;
} ls_added_set;

/* The class of an ASCII byte for the fast path. */
typedef enum ls_byte_kind {
    LS_BYTE_WORD,
    LS_BYTE_BLANK,
    LS_BYTE_PUNCT,
    LS_BYTE_OTHER, /* not ASCII, or removed by cleaning: needs full preparation */
} ls_byte_kind;

typedef struct ls_text_rules {
    bool lower_case, strip_accents, split_chinese, clean_text;
} ls_text_rules;

/* BERT's special tokens, by name. */
typedef enum ls_special_token {
    LS_TOKEN_UNK,
    LS_TOKEN_SEP,
    LS_TOKEN_PAD,
    LS_TOKEN_CLS,
    LS_TOKEN_MASK
} ls_special_token;
enum { LS_SPECIAL_TOKENS = LS_TOKEN_MASK + 1 };

struct ls_tokenizer {
    ls_object object;
    ls_vocabulary vocabulary;
    ls_text_rules rules;
    bool accents_follow_case;             /* strip_accents not set: accents are stripped if letters are lower-cased */
    int64_t max_word;                     /* characters; longer words are unknown */
    const char *prefix;                   /* of tokens that continue a word: "##" */
    const char *names[LS_SPECIAL_TOKENS]; /* "[UNK]", ... */
    int32_t unknown, cls, sep, pad;       /* cls, sep and pad: -1 if not in the vocabulary */
    uint32_t continuation;                /* the trie node after the prefix; LS_TRIE_NONE: no token continues a word */
    ls_added_token *added;
    int64_t added_count, added_room;
    ls_added_set raw, prepared;
    uint8_t kinds[256];  /* ls_byte_kind of each byte */
    uint8_t folded[256]; /* ASCII bytes, lower-cased if enabled */
    char *decoded;       /* the last result of ls_tokenizer_decode() */
    size_t decoded_room;
};

/* Add the tokens of all windows to a hash. */
void ls_encoding_hash(ls_hash *hash, const ls_encoding *encoding);

/* Building: fill in the vocabulary and rules, then add tokens, then close. */

/* Add a token to find in texts; its number is that of its text in the vocabulary, or the next free one. */
ls_status ls_tokenizer_add(ls_tokenizer *tokenizer, ls_added_token token, ls_message *why);
/* Look up what encoding needs. */
ls_status ls_tokenizer_close(ls_tokenizer *tokenizer, ls_message *why);
/* Free everything but the object itself. */
void ls_tokenizer_clear(void *tokenizer);

/* Fill in a tokenizer from the lines of a vocab.txt. */
ls_status ls_tokenizer_read_lines(ls_tokenizer *tokenizer, const char *text, size_t size, ls_message *why);
/* The same from a tokenizer.json; unsupported features are refused by name. */
ls_status ls_tokenizer_read_json(ls_tokenizer *tokenizer, const ls_json *root, ls_message *why);
/* Apply the rules and names in a tokenizer_config.json. */
ls_status ls_tokenizer_read_config(ls_tokenizer *tokenizer, const ls_json *root, ls_message *why);
/* One of these, by the kind of path: a file of either format, or a model folder. */
ls_status ls_tokenizer_load(ls_tokenizer *tokenizer, const char *path, ls_message *why);

#endif
