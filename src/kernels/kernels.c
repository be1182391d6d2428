/* kernels.c - the ISA in use, and the tables built for it. */
#include "kernels/kernels.h"

#include "base/config.h"
#include "base/log.h"
#include "kernels/detect.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

static const char *const names[LS_ISA_COUNT] = {
#define LS_ISA(symbol, name) [symbol] = name,
    LS_ISA_LIST(LS_ISA)
#undef LS_ISA
};

static bool usable[LS_ISA_COUNT];
static atomic_int in_use = -1; /* not detected yet */

static ls_isa best_up_to(ls_isa cap)
{
    int isa = (int)cap;
    while (isa > LS_ISA_REF && !usable[isa]) isa--;
    return (ls_isa)isa;
}

/* The cap set by LOCKSTEP_ISA. Values unknown on this architecture are reported and ignored. */
static ls_isa cap_in_environment(void)
{
    const char *name = ls_config_text(LS_SETTING_ISA);
    if (!*name) return LS_ISA_COUNT - 1;
    char valid[128] = "";
    for (int isa = 0; isa < LS_ISA_COUNT; isa++) {
        if (!ls_isa_is_native((ls_isa)isa)) continue;
        if (strcmp(name, names[isa]) == 0) return (ls_isa)isa;
        size_t length = strlen(valid);
        snprintf(valid + length, sizeof valid - length, "%s%s", length ? ", " : "", names[isa]);
    }
    ls_log_of_job(LS_LOG_WARN, "%s=%s is ignored: valid on this architecture are %s",
                  ls_config_row(LS_SETTING_ISA)->name, name, valid);
    ls_config_refuse(LS_SETTING_ISA);
    return LS_ISA_COUNT - 1;
}

static void detect(void)
{
    ls_isa_detect(usable);
    atomic_store(&in_use, (int)best_up_to(cap_in_environment()));
}

static void ensure_detected(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, detect);
}

const char *ls_isa_name(ls_isa isa)
{
    return (unsigned)isa < LS_ISA_COUNT ? names[isa] : "?";
}

bool ls_isa_usable(ls_isa isa)
{
    ensure_detected();
    return (unsigned)isa < LS_ISA_COUNT && usable[isa];
}

ls_isa ls_isa_in_use(void)
{
    int isa = atomic_load_explicit(&in_use, memory_order_acquire); /* the fast path of every call */
    if (isa >= 0) return (ls_isa)isa;
    ensure_detected();
    return (ls_isa)atomic_load(&in_use);
}

void ls_isa_cap(ls_isa isa)
{
    ensure_detected();
    atomic_store(&in_use, (int)best_up_to(isa));
}

/* Non-NULL entries of `offer` replace those of `table`. Function pointers are copied as bytes, since they may not be
 * accessed as object pointers. */
static void overlay(char *table, const char *offer, size_t bytes)
{
    static const char none[sizeof(void (*)(void))];
    for (size_t at = 0; at < bytes; at += sizeof none) {
        if (memcmp(offer + at, none, sizeof none) != 0) memcpy(table + at, offer + at, sizeof none);
    }
}

const void *ls_family_table(ls_family *family)
{
    static pthread_mutex_t building = PTHREAD_MUTEX_INITIALIZER;
    ls_isa isa = ls_isa_in_use();
    char *table = (char *)family->tables + (size_t)isa * family->bytes;
    if (atomic_load_explicit(&family->ready[isa], memory_order_acquire)) return table;
    pthread_mutex_lock(&building);
    if (!atomic_load(&family->ready[isa])) {
        memset(table, 0, family->bytes); /* what a test offered before may have had more */
        for (int lower = 0; lower <= (int)isa; lower++) {
            if (usable[lower] && family->offers[lower]) overlay(table, family->offers[lower], family->bytes);
        }
        atomic_store_explicit(&family->ready[isa], true, memory_order_release);
    }
    pthread_mutex_unlock(&building);
    return table;
}

ls_isa ls_family_source(ls_family *family, const ls_family_field *field, size_t pointer)
{
    size_t at = field->offset + pointer * sizeof(void *);
    for (int isa = (int)ls_isa_in_use(); isa >= 0; isa--) {
        void *entry = NULL;
        if (!family->offers[isa] || !ls_isa_usable((ls_isa)isa)) continue;
        memcpy(&entry, (const char *)family->offers[isa] + at, sizeof entry);
        if (entry) return (ls_isa)isa;
    }
    return LS_ISA_COUNT;
}
