/* page.c - read a help page line by line. */
#include "page.h"

#include <stdlib.h>
#include <string.h>

bool page_open(page *to, const command *about)
{
    size_t size;
    *to = (page){.last = PAGE_USAGE};
    FILE *stream = open_memstream(&to->text, &size);
    if (stream) {
        write_page(about, stream);
        if (fclose(stream) != 0) page_close(to);
    }
    to->next = to->text;
    if (!to->text) fputs("lockstep: out of memory\n", stderr);
    return to->text != NULL;
}

void page_close(page *from)
{
    free(from->text);
    *from = (page){0};
}

static page_kind kind_of(page_kind last, const char *line, size_t indent)
{
    if (!line[indent]) return PAGE_EMPTY;
    if (strncmp(line, "usage: ", 7) == 0 || (last == PAGE_USAGE && indent >= 7)) return PAGE_USAGE;
    if (indent == 0) return PAGE_TEXT;
    if (indent == 2 && line[indent] == '-') return PAGE_OPTION;
    return last == PAGE_OPTION || last == PAGE_MORE ? PAGE_MORE : PAGE_EXAMPLE;
}

bool page_next(page *from, page_line *line)
{
    char *text = from->next;
    if (!*text) return false;
    size_t length = strcspn(text, "\n"), indent = strspn(text, " ");
    from->next = text + length + (text[length] == '\n');
    text[length] = '\0';
    *line = (page_line){.kind = kind_of(from->last, text, indent), .text = text + indent, .help = ""};
    from->last = line->kind;
    if (line->kind == PAGE_USAGE && indent == 0) line->text += strlen("usage: ");
    char *gap = line->kind == PAGE_OPTION ? strstr(text + indent, "  ") : NULL;
    if (gap) {
        *gap = '\0';
        line->help = gap + 1 + strspn(gap + 1, " ");
    }
    return true;
}

static void keep(char to[48], const char *word, size_t length)
{
    snprintf(to, 48, "%.*s", (int)length, word);
}

int page_names(const char *text, option_name names[MOST_NAMES])
{
    int count = 0, first = 0; /* names[first] and those after it share the next argument */
    bool joined = false;
    for (size_t length; *text; text += length, text += strspn(text, " ")) {
        length = strcspn(text, " ");
        bool comma = text[length - 1] == ',';
        if (text[0] != '-') {
            for (int i = first; i < count; i++) keep(names[i].argument, text, length);
        } else if (count < MOST_NAMES) {
            if (!joined) first = count;
            names[count] = (option_name){0};
            keep(names[count++].name, text, length - comma);
            joined = comma;
        }
    }
    return count;
}
