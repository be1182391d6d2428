/* jupyter.c - messages of Jupyter: frames, separated by newlines, of which none is signed with the key. */
#include "protocol/message.h"

#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    enum { MOST = 32 };
    frame frames[MOST];
    size_t count = 0;
    char *copy = fuzz_copy(bytes, size);
    for (size_t begin = 0, i = 0; i <= size && count < MOST; i++) {
        if (i < size && copy[i] != '\n') continue;
        frames[count++] = (frame){copy + begin, i - begin};
        begin = i + 1;
    }
    message m;
    ls_message why;
    FUZZ_CHECK(!message_read(&m, frames, count, "a key that the input does not have", &why));
    if (message_read(&m, frames, count, "", &why)) {
        FUZZ_CHECK(m.type && (m.content || m.fault.text[0]) && m.identity_count <= MOST_IDENTITIES);
        message_free(&m);
    }
    free(copy);
    return 0;
}
