/* tokenize.c - lockstep tokenize: tokenize lines of text. */
#include <lockstep.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"

typedef struct options {
    const char *path;
    bool cased, pair, offsets, json, tokens;
} options;

/* ---- lines ---- */

typedef struct line {
    char *text;
    size_t room;
    ssize_t size; /* without the line break; -1: end of input */
} line;

static bool read_line(line *l)
{
    l->size = getline(&l->text, &l->room, stdin);
    if (l->size > 0 && l->text[l->size - 1] == '\n') l->size--;
    if (l->size > 0 && l->text[l->size - 1] == '\r') l->size--;
    if (l->size >= 0) l->text[l->size] = '\0';
    return l->size >= 0;
}

/* ---- output ---- */

static void print_plain(const ls_tokenizer *t, const ls_encoding *e, const options *o)
{
    for (int64_t i = 0; i < e->begin[1]; i++) {
        if (i) putchar(' ');
        if (o->tokens) fputs(ls_tokenizer_token(t, e->id[i]), stdout);
        else printf("%d", e->id[i]);
        if (o->offsets) printf(":%d-%d", e->from[i], e->to[i]);
    }
    putchar('\n');
}

static void print_list(const char *name, const int32_t *numbers, const int8_t *small, int64_t count)
{
    printf("\"%s\":[", name);
    for (int64_t i = 0; i < count; i++) printf(i ? ",%d" : "%d", numbers ? numbers[i] : small[i]);
    putchar(']');
}

/* Field names as in transformers. */
static void print_json(const ls_encoding *e, const options *o)
{
    int64_t count = e->begin[1];
    putchar('{');
    print_list("input_ids", e->id, NULL, count);
    putchar(',');
    print_list("token_type_ids", NULL, e->type, count);
    putchar(',');
    print_list("attention_mask", NULL, e->mask, count);
    if (o->offsets) {
        fputs(",\"offset_mapping\":[", stdout);
        for (int64_t i = 0; i < count; i++) printf(i ? ",[%d,%d]" : "[%d,%d]", e->from[i], e->to[i]);
        putchar(']');
    }
    puts("}");
}

/* ---- the command ---- */

/* Read lines of standard input, each a text, or two texts separated by a tab. Returns the exit code. */
static int tokenize_lines(ls_run *run, const options *o)
{
    ls_tokenizer *t = o->cased ? ls_tokenizer_new(run, o->path, .lower_case = false) : ls_tokenizer_new(run, o->path);
    line l = {0};
    for (long number = 1; ls_error(run) == LS_OK && read_line(&l); number++) {
        char *tab = o->pair ? memchr(l.text, '\t', (size_t)l.size) : NULL;
        if (o->pair && !tab) {
            ls_set_error(run, LS_ERR_VALUE, "line %ld has no tab; --pair expects one between two texts", number);
            break;
        }
        size_t size = tab ? (size_t)(tab - l.text) : (size_t)l.size, rest = (size_t)l.size - size - (tab != NULL);
        ls_encoding *e = ls_tokenizer_encode(t, l.text, tab ? tab + 1 : NULL, .characters = true, .sizes = &size,
                                             .second_sizes = &rest);
        if (!e) break;
        if (o->json) print_json(e, o);
        else print_plain(t, e, o);
        ls_encoding_free(e);
    }
    free(l.text);
    return ls_finish(run);
}

static int usage_error(const char *what)
{
    fprintf(stderr, "lockstep tokenize: %s; see lockstep help tokenize\n", what);
    return EXIT_USAGE;
}

static int run_tokenize(int argc, char **argv)
{
    options o = {0};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--cased") == 0) o.cased = true;
        else if (strcmp(argv[i], "--pair") == 0) o.pair = true;
        else if (strcmp(argv[i], "--offsets") == 0) o.offsets = true;
        else if (strcmp(argv[i], "--tokens") == 0) o.tokens = true;
        else if (strcmp(argv[i], "--json") == 0) o.json = true;
        else if (argv[i][0] == '-') return no_such_option(&command_tokenize, argv[i]);
        else if (!o.path) o.path = argv[i];
        else return usage_error("give only one vocabulary; lines of text come from standard input");
    }
    if (!o.path) return usage_error("give a vocab.txt, a tokenizer.json or the folder of a model");
    if (o.tokens && o.json) return usage_error("--tokens and --json cannot be used together");
    return tokenize_lines(ls_init(NULL, NULL, .device = "cpu"), &o);
}

const command command_tokenize = {
    .name = "tokenize",
    .summary = "tokenize lines of text for BERT",
    .usage =
        "usage: lockstep tokenize VOCAB|FOLDER [--cased] [--pair] [--offsets] [--tokens | --json]\n"
        "\n"
        "Reads lines of text and prints a line of token numbers for each, with the special tokens around them.\n"
        "VOCAB is a vocab.txt or a tokenizer.json, FOLDER a model's folder with one of them, or the name of a model\n"
        "in Hugging Face's cache.\n"
        "\n"
        "  --cased     keep upper case and accents, if a vocab.txt does not say\n"
        "  --pair      each line has two texts, separated by a tab\n"
        "  --offsets   the position of each token in its text, in characters: 7592:0-5\n"
        "  --tokens    print tokens as text instead of numbers\n"
        "  --json      print input_ids, token_type_ids and attention_mask; with --offsets also offset_mapping\n",
    .run = run_tokenize,
};
