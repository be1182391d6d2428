/* describe.c - a module as a table. */
#include <string.h>

#include "nn/module.h"

typedef struct columns {
    int name, kind, output;
} columns;

static const char *shown_name(const ls_module *module, const char *name)
{
    return name ? name : module->kind;
}

enum { OUTPUTS_TEXT = LS_MAX_MODULE_OUTPUTS * LS_TEXT };

/* "[8,128,768] [8,768]" */
static void output_text(const ls_module *module, char text[OUTPUTS_TEXT])
{
    text[0] = '\0';
    for (int i = 0; i < module->output_count; i++) {
        char *end = text + strlen(text);
        if (i) *end++ = ' ';
        ls_shape_text(module->output[i], end);
    }
}

static void widen(int *width, size_t needed)
{
    if ((int)needed > *width) *width = (int)needed;
}

static void measure(const ls_module *module, const char *name, int depth, columns *widths)
{
    char output[OUTPUTS_TEXT];
    output_text(module, output);
    widen(&widths->name, 2 * (size_t)depth + strlen(shown_name(module, name)));
    widen(&widths->kind, strlen(module->kind));
    widen(&widths->output, strlen(output));
    for (int i = 0; i < module->child_count; i++)
        measure(module->children[i].module, module->children[i].name, depth + 1, widths);
}

/* 1234567 as "1,234,567" */
static char *with_commas(int64_t n, char text[32])
{
    char digits[32];
    int length = snprintf(digits, sizeof digits, "%lld", (long long)n);
    char *out = text;
    for (int i = 0; i < length; i++) {
        if (i && (length - i) % 3 == 0) *out++ = ',';
        *out++ = digits[i];
    }
    *out = '\0';
    return text;
}

static void print_rows(ls_module *module, const char *name, int depth, const columns *widths, FILE *to)
{
    char output[OUTPUTS_TEXT], count[32];
    output_text(module, output);
    int64_t parameters = ls_parameter_count(module), trained = ls_trainable_count(module);
    fprintf(to, "%*s%-*s  %-*s  %-*s  %14s%s\n", 2 * depth, "", widths->name - 2 * depth, shown_name(module, name),
            widths->kind, module->kind, widths->output, output, parameters ? with_commas(parameters, count) : "",
            parameters && !trained  ? "  frozen"
            : parameters != trained ? "  partly frozen"
                                    : "");
    for (int i = 0; i < module->child_count; i++)
        print_rows(module->children[i].module, module->children[i].name, depth + 1, widths, to);
}

void ls_describe(ls_module *module, FILE *to)
{
    if (!module || !to) return;
    columns widths = {.name = (int)strlen("layer"), .kind = (int)strlen("kind"), .output = (int)strlen("output")};
    measure(module, NULL, 0, &widths);
    fprintf(to, "%-*s  %-*s  %-*s  %14s\n", widths.name, "layer", widths.kind, "kind", widths.output, "output",
            "parameters");
    print_rows(module, NULL, 0, &widths, to);
    char total[32], trained[32];
    fprintf(to, "%s parameters, %s of them trained\n", with_commas(ls_parameter_count(module), total),
            with_commas(ls_trainable_count(module), trained));
}
