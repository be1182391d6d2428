/* pmix.c - the answers of a PMIx server, as its library hands them on. */
#include "fuzz/fuzz.h"
#include "launch/bootstrap/pmix_library.h"

static const uint8_t *at, *end;

static uint32_t next(int bytes)
{
    uint32_t number = 0;
    for (; bytes > 0 && at < end; bytes--) number = number << 8 | *at++;
    return number;
}

static int code(void)
{
    return next(1) % 8 == 7 ? -1 : 0;
}

static int init(ls_pmix_process *me, ls_pmix_info *with, size_t count)
{
    (void)with, (void)count;
    *me = (ls_pmix_process){.space = "job", .rank = next(4)};
    return code();
}

static int finalize(const ls_pmix_info *with, size_t count)
{
    (void)with, (void)count;
    return 0;
}

static int put(uint8_t scope, const char *key, ls_pmix_value *what)
{
    (void)scope, (void)key, (void)what;
    return code();
}

static int commit(void)
{
    return code();
}

static int fence(const ls_pmix_process *who, size_t whos, const ls_pmix_info *with, size_t count, ls_pmix_done *done,
                 void *user)
{
    (void)who, (void)whos, (void)with, (void)count;
    int result = next(1) % 4 == 0 ? LS_PMIX_DONE_ALREADY : code();
    if (!result) done(code(), user);
    return result;
}

/* A value of the type that the bytes name, with that many bytes; sometimes nothing though all is well. */
static int get(const ls_pmix_process *whose, const char *key, const ls_pmix_info *with, size_t count,
               ls_pmix_value **what)
{
    (void)whose, (void)key, (void)with, (void)count;
    int result = code();
    if (result || next(1) == 255) return result;
    ls_pmix_value *value = *what = calloc(1, sizeof *value);
    FUZZ_CHECK(value);
    value->type = (uint16_t)next(1);
    if (value->type == LS_PMIX_BYTES) {
        value->data.bytes.size = next(1);
        value->data.bytes.start = calloc(1, value->data.bytes.size + 1);
    } else value->data.uint32 = next(4);
    return result;
}

static const char *error_string(int status)
{
    return status ? "an error" : "none";
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    enum { MOST = 16 };
    const ls_pmix_library library = {init, finalize, put, commit, fence, get, error_string};
    at = bytes, end = bytes + size;
    ls_pmix *pmix;
    ls_message why;
    int rank, world;
    char mine[8] = {1}, all[MOST * sizeof mine];
    if (ls_pmix_open_with(&pmix, &library, &rank, &world, &why)) return 0;
    FUZZ_CHECK(rank >= 0 && rank < world);
    for (int round = 0; round < 2 && world <= MOST; round++)
        ls_pmix_all_gather(pmix, mine, sizeof mine, all, 0.01, &why);
    ls_pmix_close(pmix);
    return 0;
}
