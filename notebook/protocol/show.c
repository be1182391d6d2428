/* show.c - what the session shows: forms of data, as Jupyter's bundles of MIME types. */
#include <string.h>

#include "base/memory.h"
#include "kernel.h"

static void put_base64(string *to, const char *bytes, size_t size)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *b = (const unsigned char *)bytes;
    for (size_t i = 0; i < size; i += 3) {
        uint32_t three =
            (uint32_t)b[i] << 16 | (i + 1 < size ? (uint32_t)b[i + 1] << 8 : 0) | (i + 2 < size ? b[i + 2] : 0u);
        char four[4] = {digits[three >> 18], digits[three >> 12 & 63], i + 1 < size ? digits[three >> 6 & 63] : '=',
                        i + 2 < size ? digits[three & 63] : '='};
        text_put(to, four, 4);
    }
}

static bool is_picture(const char *type)
{
    return strncmp(type, "image/", 6) == 0;
}

static bool is_binary(const char *type)
{
    return is_picture(type) && strcmp(type, "image/svg+xml") != 0;
}

/* Put all forms. The session wrote them, but a cell may have damaged its memory: sizes are checked. */
static void put_forms(ls_json_writer *w, const string *payload)
{
    size_t at = 0;
    bool plain = false;
    string words = {0};
    for (display_form form; payload->length - at >= sizeof form; at += form.data_size) {
        memcpy(&form, payload->bytes + at, sizeof form);
        at += sizeof form;
        size_t left = payload->length - at;
        if (form.type_size > left || form.data_size > left - form.type_size) break;
        char *type = copy_bytes(payload->bytes + at, form.type_size);
        at += form.type_size;
        string data = {0};
        if (is_binary(type)) put_base64(&data, payload->bytes + at, form.data_size);
        else text_put(&data, payload->bytes + at, form.data_size);
        ls_json_put_text(w, type, text_view(&data));
        plain |= strcmp(type, "text/plain") == 0;
        if (!is_picture(type) && !words.length) text_add(&words, text_view(&data));
        text_free(&data);
        ls_sys_free(type);
    }
    if (!plain) ls_json_put_text(w, "text/plain", words.length ? words.bytes : "(a picture)"); /* for any front end */
    text_free(&words);
}

/* Does the running cell show something in this place already? It may have been another process of it: a launched worker
 * that was restarted goes on where the first one began. */
static bool place_is_taken(kernel *k, const char *name)
{
    string line = {0};
    text_print(&line, "\n%s\n", name);
    bool taken = strstr(text_view(&k->places), line.bytes);
    if (!taken) text_add(&k->places, line.bytes);
    text_free(&line);
    return taken;
}

void kernel_show(kernel *k, const session_message *event, const string *payload)
{
    bool result = event->event == SESSION_RESULT;
    if (result && ls_json_bool(ls_json_get(k->request ? k->request->content : NULL, "silent"), false)) return;
    bool update = !result && event->name[0] && place_is_taken(k, event->name);
    ls_json_writer w = {0};
    ls_json_put_object(&w, NULL);
    ls_json_put_object(&w, "data");
    put_forms(&w, payload);
    ls_json_put_end(&w);
    ls_json_put_object(&w, "metadata");
    ls_json_put_end(&w);
    if (result) {
        ls_json_put_integer(&w, "execution_count", (int64_t)k->history_count);
    } else {
        ls_json_put_object(&w, "transient");
        if (event->name[0]) ls_json_put_text(&w, "display_id", event->name);
        ls_json_put_end(&w);
    }
    ls_json_put_end(&w);
    kernel_publish(k, result ? "execute_result" : update ? "update_display_data" : "display_data", &w);
}

void kernel_clear(kernel *k)
{
    text_clear(&k->places);
    ls_json_writer w = {0};
    ls_json_put_object(&w, NULL);
    ls_json_put_bool(&w, "wait", true);
    ls_json_put_end(&w);
    kernel_publish(k, "clear_output", &w);
}
