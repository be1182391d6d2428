/* http.c - the heads of HTTP requests. */
#include "watch/http.h"

#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    char *head = fuzz_copy(bytes, size);
    ls_http_request request;
    if (ls_http_parse(head, size, &request) == 200) {
        FUZZ_CHECK(request.path[0] == '/' && strlen(request.path) < size);
        FUZZ_CHECK(memmem(bytes, size, "127.0.0.1", 9) || memmem(bytes, size, "::1", 3) || size > strlen("localhost"));
    }
    free(head);
    return 0;
}
