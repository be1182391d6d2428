/* text.h - tokenizers: from text to the token numbers that a language model reads, and back.
 *
 *     ls_tokenizer *bert = ls_tokenizer_new(run, "bert-base-uncased");
 *     ls_encoding *e = ls_tokenizer_encode(bert, question, context, .max_length = 384, .stride = 128,
 *                                          .truncation = LS_TRUNCATE_SECOND);
 *     for (int64_t w = 0; w < e->count; w++)
 *         for (int64_t t = e->begin[w]; t < e->begin[w + 1]; t++) use(e->id[t]);
 *
 * Tokenizers and encodings belong to the run and are freed with it. The results are those of Hugging Face's tokenizers,
 * token by token and offset by offset. */
#ifndef LOCKSTEP_TEXT_H
#define LOCKSTEP_TEXT_H

#include <lockstep/data.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Tokenizers ---- */

typedef struct ls_tokenizer ls_tokenizer;

/* How BERT prepares a text before it looks for tokens. LS_AUTO: as the model's files say, or true if they do not; for
 * strip_accents, the value of lower_case. */
typedef struct ls_tokenizer_opts {
    int lower_case LS_DEFAULT(LS_AUTO);
    int strip_accents LS_DEFAULT(LS_AUTO);
    int split_chinese LS_DEFAULT(LS_AUTO); /* each Chinese character is a word */
    int clean_text LS_DEFAULT(LS_AUTO);    /* remove control characters, turn white space into blanks */
    ls_options_end _ LS_DEFAULT({});
} ls_tokenizer_opts;
#define ls_tokenizer_opts_defaults                                                                                     \
    .lower_case = LS_AUTO, .strip_accents = LS_AUTO, .split_chinese = LS_AUTO, .clean_text = LS_AUTO

/* WordPiece, as in BERT and its relatives, from the folder of a model or its name in Hugging Face's cache
 * (ls_hub_find), a tokenizer.json, or a vocab.txt with a token on each line. A folder's tokenizer.json is preferred to
 * its vocab.txt; tokenizer_config.json is applied. NULL (and an error) if a file asks for what BERT does not have. */
#define ls_tokenizer_new(run, ...) LS_CALL_2(ls_tokenizer_new, ls_tokenizer_opts, run, __VA_ARGS__, )
LS_API ls_tokenizer *ls_tokenizer_new_sized(ls_run *run, const char *path, const ls_tokenizer_opts *opts,
                                            size_t opts_size);
LS_API void ls_tokenizer_free(ls_tokenizer *tokenizer);

/* Write vocab.txt and tokenizer_config.json, which Transformers opens, into a folder. One process is enough. */
LS_API bool ls_tokenizer_write(const ls_tokenizer *tokenizer, const char *folder);

/* Tokens have the numbers 0 .. size-1. */
LS_API int64_t ls_tokenizer_size(const ls_tokenizer *tokenizer);
/* The number of a token, -1 if there is none with this text: ls_tokenizer_find(bert, "[MASK]"). */
LS_API int32_t ls_tokenizer_find(const ls_tokenizer *tokenizer, const char *token);
/* The text of a token, "" if there is none; tokens that continue a word begin with "##". */
LS_API const char *ls_tokenizer_token(const ls_tokenizer *tokenizer, int64_t id);

/* ---- Encoding ---- */

typedef enum ls_truncation {
    LS_TRUNCATE_LONGEST, /* of a pair the longer text first, until both are equally long */
    LS_TRUNCATE_FIRST,   /* only the first text */
    LS_TRUNCATE_SECOND,  /* only the second text */
} ls_truncation;

typedef enum ls_padding {
    LS_PAD_NONE,
    LS_PAD_LONGEST, /* all windows of the call are as long as the longest */
    LS_PAD_MAX,     /* as long as .max_length, which must be given and at most 2^24 */
} ls_padding;

typedef struct ls_tokenizer_encode_opts {
    bool special_tokens LS_DEFAULT(true); /* [CLS] first [SEP] second [SEP] */
    /* Most tokens in a window, including special ones. LS_AUTO: no limit. */
    int64_t max_length LS_DEFAULT(LS_AUTO);
    ls_truncation truncation LS_DEFAULT(LS_TRUNCATE_LONGEST);
    /* The rest of a text that does not fit goes into further windows; .stride tokens of each window are repeated in the
     * next. */
    bool overflow LS_DEFAULT(false);
    int64_t stride LS_DEFAULT(0);
    ls_padding padding LS_DEFAULT(LS_PAD_NONE);
    int64_t pad_multiple LS_DEFAULT(1); /* padded lengths are multiples of this */
    bool pad_left LS_DEFAULT(false);
    /* Offsets count characters, as in Python; otherwise bytes, so that text + offset works in C. */
    bool characters LS_DEFAULT(false);
    /* (optional) Sizes of the texts in bytes, for those that hold zeros or are not zero-terminated. */
    const size_t *sizes LS_DEFAULT(NULL);
    const size_t *second_sizes LS_DEFAULT(NULL);
    ls_options_end _ LS_DEFAULT({});
} ls_tokenizer_encode_opts;
#define ls_tokenizer_encode_opts_defaults .special_tokens = true, .max_length = LS_AUTO, .pad_multiple = 1

/* Windows of tokens. Window w has the tokens begin[w] .. begin[w+1]-1 of the arrays below. The windows of a text are
 * consecutive: its beginning first, then, with .overflow, the rest. */
typedef struct ls_encoding {
    int64_t count;        /* windows */
    const int64_t *text;  /* [count] which of the call's texts a window belongs to */
    const int64_t *begin; /* [count + 1] */
    const int32_t *id;    /* [begin[count]], and so are those that follow */
    const int32_t *from;  /* where a token begins in its text, and where it ends; both 0 for special tokens */
    const int32_t *to;
    const int32_t *word;    /* which word of its text it belongs to, from 0; -1 for special tokens and padding */
    const int8_t *sequence; /* 0 for the first text, 1 for the second, -1 for special tokens and padding */
    const int8_t *type;     /* 0 up to the [SEP] of the first text, 1 after it, 0 for padding */
    const int8_t *special;  /* 1 for special tokens that were added, and for padding */
    const int8_t *mask;     /* 0 for padding, 1 otherwise */
} ls_encoding;

/* Encode a text, or a pair of texts if `second` is not NULL. Invalid UTF-8 becomes U+FFFD, as in Python's
 * decode(errors="replace"). NULL (and an error) if a text cannot be cut as asked, or makes more than 2^26 windows. */
#define ls_tokenizer_encode(tokenizer, text, ...)                                                                      \
    LS_CALL_3(ls_tokenizer_encode, ls_tokenizer_encode_opts, tokenizer, text, __VA_ARGS__, )
LS_API ls_encoding *ls_tokenizer_encode_sized(ls_tokenizer *tokenizer, const char *text, const char *second,
                                              const ls_tokenizer_encode_opts *opts, size_t opts_size);
/* The same for `count` texts, by all threads. `seconds` may be NULL; else it has an entry for each text. */
#define ls_tokenizer_encode_n(tokenizer, texts, seconds, ...)                                                          \
    LS_CALL_4(ls_tokenizer_encode_n, ls_tokenizer_encode_opts, tokenizer, texts, seconds, __VA_ARGS__, )
LS_API ls_encoding *ls_tokenizer_encode_n_sized(ls_tokenizer *tokenizer, const char *const *texts,
                                                const char *const *seconds, int64_t count,
                                                const ls_tokenizer_encode_opts *opts, size_t opts_size);
LS_API void ls_encoding_free(ls_encoding *encoding);

/* ---- Decoding ---- */

typedef struct ls_tokenizer_decode_opts {
    bool special_tokens LS_DEFAULT(false); /* leave them in */
    bool clean_up LS_DEFAULT(true);        /* no blank before . , ! ? and 's */
    ls_options_end _ LS_DEFAULT({});
} ls_tokenizer_decode_opts;
#define ls_tokenizer_decode_opts_defaults .clean_up = true
/* The text of `count` tokens, zero-terminated, valid until the next call for this tokenizer; "" after an error. Unknown
 * token numbers are left out. */
#define ls_tokenizer_decode(tokenizer, ids, ...)                                                                       \
    LS_CALL_3(ls_tokenizer_decode, ls_tokenizer_decode_opts, tokenizer, ids, __VA_ARGS__, )
LS_API const char *ls_tokenizer_decode_sized(ls_tokenizer *tokenizer, const int32_t *ids, int64_t count,
                                             const ls_tokenizer_decode_opts *opts, size_t opts_size);

/* ---- Datasets of text ---- */

/* Texts, or pairs of texts, in the columns of a .tsv, .csv or Arrow file, for models that classify them: fields
 * "input_ids" and "token_type_ids" (i64, as long as the text, padded in batches), "length" (i64, tokens before padding)
 * and "label" (i64, the class). In csv, quotes follow RFC 4180; in tsv they have no special meaning. Classes are the
 * labels in the file, sorted: numbers by value, words byte by byte. With .split, `path` is the name of a dataset that
 * load_dataset() has put into the cache of Hugging Face's `datasets`. */
typedef struct ls_text_dataset_opts {
    /* Columns: by the names in the first row, or by number ("0") where .header is false. */
    const char *text LS_DEFAULT(NULL);          /* must be given */
    const char *second LS_DEFAULT(NULL);        /* (optional) second texts */
    const char *label LS_DEFAULT(NULL);         /* (optional) without it there is no field "label" */
    int64_t max_length LS_DEFAULT(LS_AUTO);     /* tokens; longer texts are cut, of a pair the longer one first */
    bool header LS_DEFAULT(true);               /* the first row names the columns */
    char separator LS_DEFAULT(0);               /* 0: ',' for .csv, a tab otherwise */
    const ls_dataset *classes LS_DEFAULT(NULL); /* (optional) use the classes of this dataset: for evaluation */
    const char *split LS_DEFAULT(NULL);         /* "train", ...: a split of the dataset named by `path` */
    const char *config LS_DEFAULT(NULL);        /* its configuration, if the cache has several */
    ls_options_end _ LS_DEFAULT({});
} ls_text_dataset_opts;
#define ls_text_dataset_opts_defaults .max_length = LS_AUTO, .header = true
/* Belongs to the tokenizer's run and may outlive the tokenizer. NULL (and an error that names line or column) if the
 * file does not fit. */
#define ls_text_dataset_new(tokenizer, ...)                                                                            \
    LS_CALL_2(ls_text_dataset_new, ls_text_dataset_opts, tokenizer, __VA_ARGS__, )
LS_API ls_dataset *ls_text_dataset_new_sized(ls_tokenizer *tokenizer, const char *path,
                                             const ls_text_dataset_opts *opts, size_t opts_size);

#ifdef __cplusplus
}
#endif
#endif
