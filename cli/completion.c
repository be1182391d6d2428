/* completion.c - lockstep completion: a script that lets a shell complete commands, options and their values, written
 * from the help pages. */
#include "page.h"

#include <ctype.h>
#include <string.h>

enum { WORDS = 256 };
#define LITERAL "abcdefghijklmnopqrstuvwxyz0123456789"

/* What a shell has to know of one option, or of the words that may follow a command, as in `config default`. */
typedef struct entry {
    const command *of;
    option_name option; /* a name of "" for words */
    const char *help;
    char words[WORDS]; /* the choices, separated by blanks; "" for none */
} entry;

static void add_word(char words[WORDS], const char *word, size_t length)
{
    size_t used = strlen(words);
    snprintf(words + used, WORDS - used, "%s%.*s", used ? " " : "", (int)length, word);
}

/* Add the parts of "N|auto|gpu" that are meant literally: those in small letters. */
static void add_literals(char words[WORDS], const char *argument)
{
    for (size_t length; *argument; argument += length, argument += *argument == '|') {
        length = strcspn(argument, "|");
        if (length > 0 && islower((unsigned char)*argument) && strspn(argument, LITERAL) == length)
            add_word(words, argument, length);
    }
}

/* The words that may follow the command: of "lockstep config default [...]", default. */
static void add_words(char words[WORDS], const char *usage)
{
    char word[48] = "";
    if (sscanf(usage, "lockstep %*s %47s", word) == 1) add_literals(words, word);
}

/* Call `put` for each option of a command, and last for its words, if it has some. */
static bool each_entry(const command *of, void (*put)(const entry *))
{
    page from;
    page_line line;
    entry words = {.of = of, .help = ""};
    if (!page_open(&from, of)) return false;
    for (size_t i = 0; of == &command_help && commands[i]; i++)
        add_word(words.words, commands[i]->name, strlen(commands[i]->name));
    while (page_next(&from, &line)) {
        option_name names[MOST_NAMES];
        int count = line.kind == PAGE_OPTION ? page_names(line.text, names) : 0;
        for (int i = 0; i < count; i++) {
            entry one = {.of = of, .option = names[i], .help = line.help};
            add_literals(one.words, names[i].argument);
            put(&one);
        }
        if (line.kind == PAGE_USAGE) add_words(words.words, line.text);
    }
    if (*words.words) put(&words);
    page_close(&from);
    return true;
}

static bool takes_file(const entry *e)
{
    const char *argument = e->option.argument;
    return strcmp(argument, "FILE") == 0 || strcmp(argument, "FOLDER") == 0 || strcmp(argument, "DIR") == 0;
}

/* Text between single quotes. `special`: characters that get a backslash; a quote is written as `quote`. */
static void put_quoted(const char *text, const char *special, const char *quote)
{
    for (; *text; text++) {
        if (*text == '\'') fputs(quote, stdout);
        else printf("%s%c", strchr(special, *text) ? "\\" : "", *text);
    }
}

/* ---- bash ---------------------------------------------------------------------------------------------------- */

static void bash_choices(const entry *e)
{
    if (*e->option.argument) printf("    %s:%s) words=\"%s\" ;;\n", e->of->name, e->option.name, e->words);
}

static void bash_words(const entry *e)
{
    printf(" %s", *e->option.name ? e->option.name : e->words);
}

static bool bash(void)
{
    bool ok = true;
    puts("# Completion of lockstep for bash: source it, or put it into share/bash-completion/completions/lockstep.\n"
         "_lockstep()\n{\n    local current=$2 words=\n    COMPREPLY=()\n"
         "    case ${COMP_WORDS[1]}:$3 in");
    for (size_t i = 0; commands[i]; i++) ok &= each_entry(commands[i], bash_choices);
    puts("    *)\n        case $COMP_CWORD:${COMP_WORDS[1]} in");
    fputs("        1:*) words=\"", stdout);
    for (size_t i = 0; commands[i]; i++) printf("%s%s", i ? " " : "", commands[i]->name);
    puts("\" ;;");
    for (size_t i = 0; commands[i]; i++) {
        printf("        *:%s) words=\"", commands[i]->name);
        ok &= each_entry(commands[i], bash_words);
        puts("\" ;;");
    }
    puts("        esac\n        ;;\n    esac\n"
         "    COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
         "}\n"
         "complete -o default -F _lockstep lockstep");
    return ok;
}

/* ---- zsh ---------------------------------------------------------------------------------------------------- */

static void zsh_entry(const entry *e)
{
    if (!*e->option.name) {
        printf(" \\\n            '1:word:(%s)'", e->words);
        return;
    }
    printf(" \\\n            '%s[", e->option.name);
    put_quoted(e->help, "[]:", "'\\''");
    putchar(']');
    if (*e->option.argument) fputs(":", stdout), put_quoted(e->option.argument, "[]:", "");
    if (*e->words) printf(":(%s)", e->words);
    else if (*e->option.argument) fputs(takes_file(e) ? ":_files" : ": ", stdout);
    putchar('\'');
}

static bool zsh(void)
{
    bool ok = true;
    puts("#compdef lockstep\n# Completion of lockstep for zsh: put it into a folder of $fpath, under the name "
         "_lockstep.\n"
         "_lockstep()\n{\n    local -a commands\n    commands=(");
    for (size_t i = 0; commands[i]; i++) {
        printf("        '%s:", commands[i]->name);
        put_quoted(commands[i]->summary, "", "'\\''");
        puts("'");
    }
    puts("    )\n    if ((CURRENT == 2)); then\n        _describe command commands\n        return\n    fi\n"
         "    shift words\n    ((CURRENT--))\n    case $words[1] in");
    for (size_t i = 0; commands[i]; i++) {
        printf("    %s)\n        _arguments", commands[i]->name);
        ok &= each_entry(commands[i], zsh_entry);
        puts(" \\\n            '*:file:_files' ;;");
    }
    puts("    esac\n}\n_lockstep \"$@\"");
    return ok;
}

/* ---- fish ---------------------------------------------------------------------------------------------------- */

static void fish_entry(const entry *e)
{
    const char *name = e->option.name;
    printf("complete -c lockstep -n '__fish_seen_subcommand_from %s'", e->of->name);
    if (*name) printf(" -%c %s", name[1] == '-' ? 'l' : 's', name + 1 + (name[1] == '-'));
    if (*e->option.argument) fputs(takes_file(e) ? " -r -F" : " -x", stdout);
    if (*e->words) printf(" -a '%s'", e->words);
    fputs(" -d '", stdout);
    put_quoted(e->help, "\\", "\\'");
    puts("'");
}

static bool fish(void)
{
    bool ok = true;
    puts("# Completion of lockstep for fish: put it into ~/.config/fish/completions/lockstep.fish.");
    for (size_t i = 0; commands[i]; i++) {
        printf("complete -c lockstep -n __fish_use_subcommand -f -a %s -d '", commands[i]->name);
        put_quoted(commands[i]->summary, "\\", "\\'");
        puts("'");
    }
    for (size_t i = 0; commands[i]; i++) ok &= each_entry(commands[i], fish_entry);
    return ok;
}

static int run(int argc, char **argv)
{
    static const struct shell {
        const char *name;
        bool (*write)(void);
    } shells[] = {{"bash", bash}, {"zsh", zsh}, {"fish", fish}};
    const char *wanted = argc == 2 ? argv[1] : "";
    for (size_t i = 0; i < sizeof shells / sizeof *shells; i++)
        if (strcmp(wanted, shells[i].name) == 0) return shells[i].write() ? 0 : 1;
    if (*wanted == '-') return no_such_option(&command_completion, wanted);
    fprintf(stderr, "lockstep completion: give one shell: bash, zsh or fish\n");
    return EXIT_USAGE;
}

const command command_completion = {
    .name = "completion",
    .summary = "print a script that lets a shell complete the command line",
    .usage = "usage: lockstep completion bash|zsh|fish\n"
             "\n"
             "    source <(lockstep completion bash)\n"
             "    lockstep completion zsh > ~/.zfunc/_lockstep\n"
             "    lockstep completion fish > ~/.config/fish/completions/lockstep.fish\n"
             "\n"
             "Prints a script for the shell that completes commands, options and their values. The Debian packages\n"
             "install it.\n",
    .run = run,
};
