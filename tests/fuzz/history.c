/* history.c - recorded values read back: JSON lines, tables, events of TensorBoard. */
#include <lockstep.h>

#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static ls_run *run;
    if (!run) run = ls_init(NULL, NULL);
    ls_history *history = ls_history_read(run, fuzz_file(bytes, size));
    FUZZ_CHECK((history != NULL) == (ls_error(run) == LS_OK));
    for (int i = 0; i < ls_history_count(history); i++) {
        ls_curve curve = ls_history_at(history, i), found = ls_history_find(history, curve.name);
        FUZZ_CHECK(found.x == curve.x && found.count == curve.count);
        for (int64_t k = 1; k < curve.count; k++) FUZZ_CHECK(curve.x[k] > curve.x[k - 1]);
    }
    ls_history_free(history);
    ls_clear_error(run);
    return 0;
}
