/* crc.c - the check values of both polynomials; many bytes at once give what few at a time give. */
#include "base/crc.h"

#include <stdint.h>

#include "check.h"

static void check_values_are_right(void)
{
    CHECK(ls_crc32(0, "123456789", 9) == 0xcbf43926);
    CHECK(ls_crc32c(0, "123456789", 9) == 0xe3069283);
    CHECK(ls_crc32(0, "", 0) == 0 && ls_crc32c(0, "", 0) == 0);
}

static void pieces_give_what_the_whole_gives(void)
{
    enum { SIZE = 200003 };
    unsigned char *bytes = malloc(SIZE);
    for (int i = 0; i < SIZE; i++) bytes[i] = (unsigned char)((uint32_t)i * 2654435761u >> 13);
    for (int begin = 0; begin < 9; begin++) {
        uint32_t a = 0, c = 0;
        for (int i = begin; i < SIZE; i += 997) {
            size_t n = (size_t)(SIZE - i < 997 ? SIZE - i : 997);
            a = ls_crc32(a, bytes + i, n);
            c = ls_crc32c(c, bytes + i, n);
        }
        CHECK(ls_crc32(0, bytes + begin, (size_t)(SIZE - begin)) == a);
        CHECK(ls_crc32c(0, bytes + begin, (size_t)(SIZE - begin)) == c);
    }
    free(bytes);
}

int main(void)
{
    CHECK_RUN(check_values_are_right);
    CHECK_RUN(pieces_give_what_the_whole_gives);
    return check_done();
}
