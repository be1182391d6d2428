/* message.c - why something failed, in words that are handed up. */
#include "base/message.h"

#include "check.h"

static void a_reason_comes_with_its_status(void)
{
    ls_message why = {"what was there before"};
    CHECK(ls_explain(&why, LS_ERR_IO, "%s: %d bytes", "a.png", 7) == LS_ERR_IO);
    CHECK_TEXT(why.text, "a.png: 7 bytes");
    ls_message_set(&why, "rank %d", 3);
    CHECK_TEXT(why.text, "rank 3");
}

static void nobody_has_to_listen(void)
{
    ls_message_set(NULL, "unheard");
    CHECK(ls_explain(NULL, LS_ERR_PEER, "unheard") == LS_ERR_PEER);
}

static void long_reasons_are_cut(void)
{
    ls_message why;
    ls_message_set(&why, "%5000d", 1);
    CHECK(strlen(why.text) == sizeof why.text - 1);
}

int main(void)
{
    CHECK_RUN(a_reason_comes_with_its_status);
    CHECK_RUN(nobody_has_to_listen);
    CHECK_RUN(long_reasons_are_cut);
    return check_done();
}
