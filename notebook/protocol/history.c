/* history.c - code of earlier cells. */
#include <fnmatch.h>
#include <string.h>

#include "base/memory.h"
#include "kernel.h"

void kernel_remember(kernel *k, const char *code)
{
    k->history = must_grow(k->history, k->history_count, sizeof *k->history);
    k->history[k->history_count++] = copy_text(code);
}

/* Is an entry in the range, or does it match the pattern, that was asked for? */
static bool matches(const kernel *k, const char *how, size_t i)
{
    const ls_json *asked = k->request->content;
    int64_t number = (int64_t)i + 1;
    if (strcmp(how, "range") == 0)
        return number >= ls_json_integer(ls_json_get(asked, "start"), 0) &&
               number < ls_json_integer(ls_json_get(asked, "stop"), INT64_MAX);
    const char *pattern = ls_json_text(ls_json_get(asked, "pattern"));
    return strcmp(how, "search") != 0 || !pattern || fnmatch(pattern, k->history[i], 0) == 0;
}

static bool comes_again(const kernel *k, const bool *chosen, size_t i)
{
    for (size_t later = i + 1; later < k->history_count; later++)
        if (chosen[later] && strcmp(k->history[i], k->history[later]) == 0) return true;
    return false;
}

/* Mark the entries that were asked for, the newest first: at most n, and equal ones once if that is wanted. */
static void choose(const kernel *k, bool *chosen)
{
    const ls_json *asked = k->request->content;
    const char *how = ls_json_text(ls_json_get(asked, "hist_access_type"));
    bool unique = ls_json_bool(ls_json_get(asked, "unique"), false);
    int64_t left = ls_json_integer(ls_json_get(asked, "n"), INT64_MAX);
    for (size_t i = k->history_count; i-- > 0 && left > 0;) {
        chosen[i] = matches(k, how ? how : "tail", i) && !(unique && comes_again(k, chosen, i));
        left -= chosen[i];
    }
}

void kernel_history(kernel *k, void *socket)
{
    bool output = ls_json_bool(ls_json_get(k->request->content, "output"), false);
    bool *chosen = must_alloc(k->history_count);
    choose(k, chosen);
    ls_json_writer w = {0};
    ls_json_put_object(&w, NULL);
    ls_json_put_text(&w, "status", "ok");
    ls_json_put_array(&w, "history");
    for (size_t i = 0; i < k->history_count; i++) {
        if (!chosen[i]) continue;
        ls_json_put_array(&w, NULL); /* [session, number, code], with [code, output] if that was asked for */
        ls_json_put_integer(&w, NULL, 0);
        ls_json_put_integer(&w, NULL, (int64_t)i + 1);
        if (output) ls_json_put_array(&w, NULL);
        ls_json_put_text(&w, NULL, k->history[i]);
        if (output) {
            ls_json_put_null(&w, NULL);
            ls_json_put_end(&w);
        }
        ls_json_put_end(&w);
    }
    ls_json_put_end(&w);
    ls_json_put_end(&w);
    kernel_reply(k, socket, "history_reply", &w);
    ls_sys_free(chosen);
}
