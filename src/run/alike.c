/* alike.c - compare options and prepared objects of processes: different ones would silently train different models. */
#include "run/alike.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/config.h"
#include "base/denormals.h"
#include "base/hash.h"
#include "base/memory.h"
#include "run/across.h"
#include "run/checkpoint/checkpoint.h"
#include "tensor/exchange.h"

/* ---- options of the run ---- */

typedef enum showing { AS_NUMBER, AS_YES_NO, AS_TYPE, AS_POLICY } showing;

static const struct {
    const char *name;
    showing as;
} terms[LS_TERMS] = {
    {"seed", AS_NUMBER},
    {"mixed_precision", AS_TYPE},
    {"gradient_accumulation_steps", AS_NUMBER},
    {"accumulate_across_epochs", AS_YES_NO},
    {"schedule_policy", AS_POLICY},
    {"split_batches", AS_YES_NO},
    {"uneven_batches", AS_YES_NO},
    {"dispatch_batches", AS_YES_NO},
    {"shard_optimizer", AS_YES_NO},
    {"gradient_compression", AS_TYPE},
    {"bucket_cap_mb", AS_NUMBER},
    {"flush_denormals", AS_YES_NO},
    {"LOCKSTEP_WINOGRAD", AS_YES_NO},
    {"LOCKSTEP_CUDA_TF32", AS_YES_NO},
    {"resume_from_checkpoint", AS_YES_NO}, /* hosts may use different names for one folder */
    {"LOCKSTEP_PROFILE", AS_YES_NO},       /* likewise */
};

ls_terms ls_terms_of(const ls_run *run)
{
    const ls_session *session = run->session;
    const ls_begun *begun = &session->begun;
    return (ls_terms){{
        begun->seed,
        begun->precision == LS_F32 ? LS_DTYPE_NONE : begun->precision,
        (uint64_t)begun->accumulation,
        run->step->accumulation.across_epochs,
        run->step->schedule_policy,
        run->step->share.split_batches,
        run->step->share.uneven,
        run->step->share.dispatch,
        run->step->share.optimizer,
        begun->compression,
        (uint64_t)session->bucket_cap_mb,
        ls_denormals_flushed(),
        ls_config_switch(LS_SETTING_WINOGRAD),
        ls_config_switch(LS_SETTING_CUDA_TF32),
        session->resume != NULL,
        ls_config_text(LS_SETTING_PROFILE)[0] != '\0',
    }};
}

enum { TERM_TEXT = 32 };

static char *term_text(showing as, uint64_t value, char text[TERM_TEXT])
{
    static const char *const policies[] = {"per step", "per process", "per call"};
    if (as == AS_NUMBER) snprintf(text, TERM_TEXT, "%" PRIu64, value);
    else if (as == AS_YES_NO) snprintf(text, TERM_TEXT, "%s", value ? "yes" : "no");
    else if (as == AS_TYPE) snprintf(text, TERM_TEXT, "%s", value ? ls_dtype_name((ls_dtype)value) : "no");
    else snprintf(text, TERM_TEXT, "%s", value < 3 ? policies[value] : "unknown");
    return text;
}

bool ls_terms_agree(ls_run *run, const ls_terms *first, const ls_terms *other, int rank)
{
    int i = 0;
    while (i < LS_TERMS && first->value[i] == other->value[i]) i++;
    if (i == LS_TERMS) return true;
    bool seed = strcmp(terms[i].name, "seed") == 0;
    ls_fail(&run->errors, LS_ERR_VALUE,
            "ls_init: %s is %s in process 0, but %s in process %d: it must be the same in all processes of a job. Or "
            "do two jobs share one MASTER_PORT?%s",
            terms[i].name, term_text(terms[i].as, first->value[i], (char[TERM_TEXT]){0}),
            term_text(terms[i].as, other->value[i], (char[TERM_TEXT]){0}), rank,
            seed ? " (To seed each process by its rank, call ls_set_seed() afterwards.)" : "");
    return false;
}

/* ---- prepared objects ---- */

/* Report the first setting that differs in two descriptions. */
static void name_difference(ls_run *run, const ls_json *first, const ls_json *other, int rank)
{
    enum { SHOWN = 160 };
    const ls_json *a = ls_json_first(first), *b = ls_json_first(other);
    while (a && b && strcmp(a->key, b->key) == 0 && strcmp(ls_json_text(a), ls_json_text(b)) == 0)
        a = a->next, b = b->next;
    bool both = a && b && strcmp(a->key, b->key) == 0;
    const ls_json *named = a ? a : b;
    ls_fail(&run->errors, LS_ERR_VALUE,
            "ls_prepare: %.*s: %.*s in process 0, but %.*s in process %d: it must be the same in all", SHOWN,
            named ? named->key : "settings", SHOWN, a ? ls_json_text(a) : "missing", SHOWN,
            both || (b && !a) ? ls_json_text(b) : "missing", rank);
}

static void find_difference(ls_run *run, const char *text, size_t length)
{
    ls_message why;
    ls_gathered all = ls_gather_bytes(run, text, length, "ls_prepare");
    for (int r = 1; r < all.count && !ls_failed(run); r++) {
        if (all.size[r] == all.size[0] && memcmp(all.data[r], all.data[0], all.size[0]) == 0) continue;
        ls_json *first = ls_json_read(all.data[0], all.size[0], &why);
        ls_json *other = ls_json_read(all.data[r], all.size[r], &why);
        name_difference(run, first, other, r);
        ls_json_free(first);
        ls_json_free(other);
    }
}

/* Hashes are exchanged; the descriptions only if the hashes differ. */
bool ls_prepared_alike(ls_run *run, int position)
{
    ls_training training;
    int world = run->step->share.world;
    if (world <= 1) return true;
    ls_json_writer to = {0};
    size_t length = 0;
    void *lists = ls_session_training(run, position, &training);
    if (!lists) return false;
    ls_settings_describe(&training, &to);
    ls_sys_free(lists);
    char *text = ls_json_take(&to, &length);
    uint64_t *hashes = ls_sys_alloc((size_t)world * sizeof *hashes);
    if (!text || !hashes) {
        ls_fail(&run->errors, LS_ERR_MEMORY, "ls_prepare: no memory");
    } else {
        uint64_t mine = ls_hash_of(text, length);
        bool same = true, ok = ls_exchange_all(run, &mine, hashes, sizeof mine, "ls_prepare");
        for (int r = 1; ok && r < world; r++) same = same && hashes[r] == hashes[0];
        if (ok && !same) find_difference(run, text, length);
    }
    ls_sys_free(hashes);
    ls_sys_free(text);
    return !ls_failed(run);
}
