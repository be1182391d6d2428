/* page.h - the help page of a command, read line by line: manual pages and shell completion come from it. */
#ifndef LOCKSTEP_CLI_PAGE_H
#define LOCKSTEP_CLI_PAGE_H

#include "command.h"

#include <stdio.h>

/* What a line is, by its indentation: none for text, two blanks and a dash for an option, four blanks or more for an
 * example, or for the rest of an option's help. The page begins with lines of usage. */
typedef enum page_kind { PAGE_USAGE, PAGE_TEXT, PAGE_EXAMPLE, PAGE_OPTION, PAGE_MORE, PAGE_EMPTY } page_kind;

typedef struct page_line {
    page_kind kind;
    const char *text; /* without indentation, and without "usage: "; of an option: its names and argument */
    const char *help; /* of an option; else "" */
} page_line;

typedef struct page {
    char *text;
    char *next;     /* the line that is read next */
    page_kind last; /* the kind of the line before */
} page;

/* The page of a command, at its first line; freed by page_close. False after a message if memory runs out. */
bool page_open(page *to, const command *about);
void page_close(page *from);
/* The next line, valid until page_close; false at the end. */
bool page_next(page *from, page_line *line);

/* One name of an option's row: "--tee" and "STREAMS" of "-t, --tee STREAMS". */
typedef struct option_name {
    char name[48];
    char argument[48]; /* "": a switch */
} option_name;

enum { MOST_NAMES = 4 };

/* Split `text` of an option's line into its names; returns their number. Several names without a comma between them
 * ("--width N --height N") are options of their own; those with a comma share the argument. */
int page_names(const char *text, option_name names[MOST_NAMES]);

/* Print a command's page as a manual page (groff -man), or that of `lockstep` itself if `about` is NULL. */
int print_manual(const command *about);

#endif
