/* manual.c - help pages as manual pages, in the man macros of groff. */
#include "page.h"

#include <lockstep/version.h>

#include <ctype.h>

/* Text of one line: a dash is a dash, not a hyphen, a backslash is itself, and no line is a request. */
static void put_text(const char *text)
{
    if (*text == '.' || *text == '\'') fputs("\\&", stdout);
    for (; *text; text++) {
        if (*text == '-') fputs("\\-", stdout);
        else if (*text == '\\') fputs("\\e", stdout);
        else putchar(*text);
    }
    putchar('\n');
}

static void put_title(const char *name, const char *summary)
{
    fputs(".TH LOCKSTEP", stdout);
    for (const char *c = name ? name : ""; *c; c++) printf("%s%c", c == name ? "\\-" : "", toupper((unsigned char)*c));
    printf(" 1 \"\" \"Lockstep %s\" \"User Commands\"\n.SH NAME\n", ls_version());
    printf("lockstep%s%s \\- ", name ? "\\-" : "", name ? name : "");
    put_text(summary);
    puts(".SH SYNOPSIS");
}

/* A line of examples or of usage keeps its layout; `inside` says whether such lines are under way. */
static bool put_fixed(bool wanted, bool inside)
{
    if (wanted != inside) puts(wanted ? ".RS 4\n.nf" : ".fi\n.RE");
    return wanted;
}

typedef struct writer {
    bool fixed;       /* in lines that keep their layout */
    bool described;   /* below DESCRIPTION */
    bool in_options;  /* below OPTIONS */
    bool after_empty; /* the line before was empty */
} writer;

static void put_line(writer *w, const page_line *line)
{
    bool text = line->kind == PAGE_TEXT || line->kind == PAGE_EXAMPLE;
    bool new_paragraph = w->after_empty && line->kind == PAGE_TEXT && w->described;
    w->after_empty = line->kind == PAGE_EMPTY;
    if (line->kind == PAGE_EMPTY) return;
    w->fixed = put_fixed(line->kind == PAGE_EXAMPLE, w->fixed);
    if (new_paragraph) puts(".PP");
    if (text && !w->described) puts(".SH DESCRIPTION");
    if (line->kind == PAGE_OPTION && !w->in_options) puts(".SH OPTIONS");
    w->described |= text;
    w->in_options |= line->kind == PAGE_OPTION;
    if (line->kind == PAGE_USAGE) puts(".nf");
    if (line->kind == PAGE_OPTION) fputs(".TP\n.B ", stdout);
    put_text(line->text);
    if (line->kind == PAGE_OPTION) put_text(line->help);
    if (line->kind == PAGE_USAGE) puts(".fi");
}

static void put_others(const command *about)
{
    puts(".SH SEE ALSO\n.nh");
    const char *comma = "";
    if (about) fputs(".BR lockstep (1)", stdout), comma = ",\n";
    for (size_t i = 0; commands[i]; i++) {
        if (commands[i] == about) continue;
        printf("%s.BR lockstep\\-%s (1)", comma, commands[i]->name);
        comma = ",\n";
    }
    puts("");
}

static void put_commands(void)
{
    puts(
        ".nf\nlockstep <command> [options]\n.fi\n.SH DESCRIPTION\n"
        "Trains neural networks written in C: starts their processes, on one host or several, watches them, and looks\n"
        "into what they leave behind.\n.SH COMMANDS");
    for (size_t i = 0; commands[i]; i++) {
        printf(".TP\n.BR lockstep\\-%s (1)\n", commands[i]->name);
        put_text(commands[i]->summary);
    }
}

int print_manual(const command *about)
{
    page from;
    page_line line;
    writer w = {0};
    if (about && !page_open(&from, about)) return 1;
    put_title(about ? about->name : NULL, about ? about->summary : "train neural networks from C");
    while (about && page_next(&from, &line)) put_line(&w, &line);
    if (about) {
        put_fixed(false, w.fixed);
        page_close(&from);
    } else {
        put_commands();
    }
    put_others(about);
    return 0;
}
