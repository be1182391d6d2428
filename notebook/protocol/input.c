/* input.c - lines that a cell reads from the user: scanf() and others ask Jupyter. */
#include <string.h>

#include "kernel.h"

void kernel_ask(kernel *k)
{
    if (!k->request || !ls_json_bool(ls_json_get(k->request->content, "allow_stdin"), false)) {
        static const char why[] = "this front end cannot ask for input: the cell reads the end of a file\n";
        kernel_stream(k, "stderr", why, strlen(why));
        link_input(&k->link, NULL);
        return;
    }
    ls_json_writer w = {0};
    ls_json_put_object(&w, NULL);
    ls_json_put_text(&w, "prompt", "");
    ls_json_put_bool(&w, "password", false);
    ls_json_put_end(&w);
    kernel_reply(k, k->channels.input, "input_request", &w);
}

void kernel_take_input(kernel *k)
{
    message reply;
    if (!channels_receive(&k->channels, k->channels.input, &reply)) return;
    const char *line = ls_json_text(ls_json_get(reply.content, "value"));
    bool waits = k->link.running && strcmp(reply.type, "input_reply") == 0; /* a late answer has no reader */
    if (waits) link_input(&k->link, line ? line : "");
    message_free(&reply);
}
