/* magic.c - lines in front of a cell that begin with %: orders to the kernel. */
#include <stdio.h>
#include <string.h>

#include "kernel.h"

static void obey_flags(kernel *k, const char *words)
{
    if (*words) compiler_set_flags(&k->compiler, strcmp(words, "none") == 0 ? "" : words);
    string told = {0};
    text_print(&told, "flags: %s\n", k->compiler.flags.length ? k->compiler.flags.bytes : "none");
    kernel_stream(k, "stdout", told.bytes, told.length);
    text_free(&told);
}

static void obey_reset(kernel *k)
{
    static const char told[] = "the session is empty\n";
    kernel_renew_session(k, false);
    kernel_stream(k, "stdout", told, strlen(told));
}

/* Variables and functions, as they were declared. */
static void obey_who(kernel *k)
{
    static const char *const kinds[] = {[DEFINITION_MACRO] = "macro",
                                        [DEFINITION_TYPE] = "type",
                                        [DEFINITION_VARIABLE] = "variable",
                                        [DEFINITION_FUNCTION] = "function"};
    string told = {0};
    for (size_t i = 0; i < k->known.count; i++) {
        const definition *one = &k->known.list[i];
        const char *name = one->names + 1;
        if (one->kind == DEFINITION_DIRECTIVE || !*name) continue;
        text_print(&told, "%-16.*s %-9s In[%d]  %s\n", (int)strcspn(name, ","), name, kinds[one->kind], one->cell,
                   one->kind >= DEFINITION_VARIABLE ? one->source : "");
    }
    if (!told.length) text_add(&told, "nothing is defined\n");
    kernel_stream(k, "stdout", told.bytes, told.length);
    text_free(&told);
}

/* What is known about a name goes to the pager of the front end. */
static bool obey_help(kernel *k, const char *name, magic *wanted, ls_message *why)
{
    kernel_describe(k, name, strlen(name), &wanted->page);
    if (!wanted->page.length)
        ls_message_set(why, "%%help: \"%s\" is neither defined by a cell nor in the headers of Lockstep", name);
    return wanted->page.length > 0;
}

static bool obey(kernel *k, const char *name, const char *words, magic *wanted, ls_message *why)
{
    if (strcmp(name, "flags") == 0) obey_flags(k, words);
    else if (strcmp(name, "reset") == 0) obey_reset(k);
    else if (strcmp(name, "who") == 0) obey_who(k);
    else if (strcmp(name, "time") == 0) wanted->time = true;
    else if (strcmp(name, "help") == 0) return obey_help(k, words, wanted, why);
    else {
        ls_message_set(why, "%%%s is unknown; there are %%flags, %%help, %%reset, %%time and %%who", name);
        return false;
    }
    return true;
}

bool magic_obey(kernel *k, char *code, magic *wanted, ls_message *why)
{
    for (char *line = code;;) {
        line += strspn(line, " \t\r\n");
        if (*line != '%') return true;
        size_t length = strcspn(line, "\r\n");
        char words[1024], name[32];
        snprintf(words, sizeof words, "%.*s", (int)length, line);
        size_t name_length = strcspn(words + 1, " \t");
        snprintf(name, sizeof name, "%.*s", (int)name_length, words + 1);
        const char *rest = words + 1 + name_length;
        if (!obey(k, name, rest + strspn(rest, " \t"), wanted, why)) return false;
        memset(line, ' ', length); /* lines keep their numbers */
    }
}
