/* env.c - `lockstep env`: machine, settings, the launcher's file, transports, GPUs, TPUs, kernels. Text and JSON come
 * from one walk. */
#include <lockstep/env.h>
#include <lockstep/launch.h>
#include <lockstep/version.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/config.h"
#include "base/cpus.h"
#include "base/denormals.h"
#include "base/json.h"
#include "base/library.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "comm/hosts/transport.h"
#include "device/gpus.h"
#include "device/tpus.h"
#include "kernels/kernels.h"
#include "launch/bootstrap/identity.h"

/* ---- one writer, two forms ---- */

typedef struct writer {
    FILE *to;
    ls_json_writer *json; /* NULL: text */
} writer;

static void begin(const writer *w, const char *name)
{
    if (w->json) ls_json_put_object(w->json, name);
    else fprintf(w->to, "\n%s\n", name);
}

static void end(const writer *w)
{
    if (w->json) ls_json_put_end(w->json);
}

/* A value and its source (NULL: obvious). */
static void entry_from(const writer *w, const char *name, const char *value, const char *source)
{
    char other[96];
    snprintf(other, sizeof other, "%s from", name);
    if (w->json) ls_json_put_text(w->json, name, value);
    if (w->json && source) ls_json_put_text(w->json, other, source);
    if (!w->json) fprintf(w->to, "  %-34s %s%s%s\n", name, value, source ? ", from " : "", source ? source : "");
}

static void entry(const writer *w, const char *name, const char *value)
{
    entry_from(w, name, value, NULL);
}

/* ---- sections ---- */

/* A process that a launcher started with others will share the CPUs with them. (ls_init decides which process gets
 * which.) */
static void share_cpus(void)
{
    ls_identity who;
    ls_message why;
    if (ls_identity_read((const char *const *)environ, &who, &why) || who.local_world < 2) return;
    int cpus = ls_cpus_allowed(NULL, 0), share = cpus / who.local_world;
    ls_parallel_share(share ? share : 1, who.local_world);
}

static void machine(const writer *w)
{
    struct utsname name;
    char text[256];
    begin(w, "machine");
    if (uname(&name) == 0) {
        snprintf(text, sizeof text, "%.64s %.64s %.64s", name.sysname, name.release, name.machine);
        entry(w, "system", text);
    }
    snprintf(text, sizeof text, "%d", ls_cpus_allowed(NULL, 0));
    entry(w, "CPUs allowed", text);
    int quota = ls_cpus_quota("");
    snprintf(text, sizeof text, quota ? "%d" : "none", quota);
    entry(w, "CPU quota", text);
    snprintf(text, sizeof text, "%.2f GB", (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE) / (1 << 30));
    entry(w, "memory", text);
    share_cpus();
    snprintf(text, sizeof text, "%d", ls_parallel_width());
    entry_from(w, "threads", text, ls_parallel_width_source());
    bool flushes = ls_denormals_flushed() || ls_config_switch(LS_SETTING_FLUSH_DENORMALS);
    entry(w, "denormals", flushes ? "treated as zero" : "kept");
    text[0] = 0;
    for (int isa = 0; isa < LS_ISA_COUNT; isa++) {
        size_t used = strlen(text);
        if (ls_isa_usable((ls_isa)isa))
            snprintf(text + used, sizeof text - used, "%s%s", used ? ", " : "", ls_isa_name((ls_isa)isa));
    }
    entry(w, "instruction sets usable", text);
    entry(w, "instruction set in use", ls_isa_name(ls_isa_in_use()));
    end(w);
}

static void settings(const writer *w)
{
    begin(w, "settings");
    for (int i = 0; i < LS_SETTING_COUNT_OF; i++) {
        const char *name = ls_config_row((ls_setting)i)->name, *source = ls_config_source((ls_setting)i);
        const char *text = ls_config_text((ls_setting)i);
        bool secret = *text && (i == LS_SETTING_JOB_TOKEN || i == LS_SETTING_COMM_TOKEN); /* shown in bug reports */
        entry_from(w, name, secret ? "(set)" : text, source && strcmp(source, name) != 0 ? source : NULL);
    }
    end(w);
}

static void number(const writer *w, const char *name, int value)
{
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    entry(w, name, text);
}

/* The file that `lockstep launch` takes defaults from. */
static void configuration(const writer *w, const char *given)
{
    char path[4096], why[1024];
    bool foreign;
    ls_launch_config config;
    begin(w, "configuration of the launcher");
    if (given) snprintf(path, sizeof path, "%s", given);
    bool found = given || ls_launch_config_find(path, sizeof path, &foreign);
    entry(w, "file", found ? path : "none");
    if (found && ls_launch_config_read(path, &config, why, sizeof why)) entry(w, "not used", why);
    else if (found) {
#define ENTRY_TEXT(key, fallback) entry(w, #key, config.key);
#define ENTRY_NUMBER(key, fallback) number(w, #key, config.key);
#define ENTRY_SWITCH(key, fallback) entry(w, #key, config.key ? "true" : "false");
        LS_LAUNCH_CONFIG_LIST(ENTRY_TEXT, ENTRY_NUMBER, ENTRY_SWITCH)
        if (*config.ineffective) entry(w, "without effect", config.ineffective);
    }
    end(w);
}

/* Which of them can be loaded here, and the library behind each. */
static void transports(const writer *w)
{
    static const char *const names[] = {"ucx", "openmpi", "mpich"};
    begin(w, "transports between hosts");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        ls_message why = {{0}};
        const ls_transport *transport = ls_transport_load(names[i], &why);
        entry(w, names[i], transport ? transport->version : why.text);
    }
    end(w);
}

/* Why there is none. The plug-in is loaded without a driver too, so that a library it lacks is named. */
static void no_gpus(const writer *w)
{
    ls_message why = {{0}};
    const char *visible = getenv("CUDA_VISIBLE_DEVICES"), *reason = why.text;
    if (!ls_library_installed(LS_GPU_PLUGIN)) reason = "the plug-in is not installed (make cuda builds it)";
    else if (ls_device_count(LS_GPU_PLUGIN, &why) < 0) reason = why.text;
    else if (!ls_driver_is_there(ls_config_text(LS_SETTING_GPU_FILES)))
        reason = "the plug-in is installed, but no driver: none of its files exists (LOCKSTEP_GPU_FILES)";
    else
        ls_message_set(&why, "the plug-in is installed and finds no GPU%s%.100s",
                       visible ? ", with CUDA_VISIBLE_DEVICES=" : "", visible ? visible : "");
    entry(w, LS_GPU_PLUGIN, reason);
}

/* Without starting them. */
static void gpus(const writer *w)
{
    ls_message why = {{0}};
    int count = ls_gpus_count(&why);
    begin(w, "GPUs");
    if (count < 0) entry(w, LS_GPU_PLUGIN, why.text);
    else number(w, "usable", count);
    if (count == 0) no_gpus(w);
    for (int i = 0; i < count; i++) {
        char name[32], text[256];
        snprintf(name, sizeof name, LS_GPU_PLUGIN ":%d", i);
        ls_device_describe(LS_GPU_PLUGIN, i, text, sizeof text);
        entry(w, name, text);
    }
    end(w);
}

/* Without opening them. What the plug-in says of the first is the library through which all of them are reached. */
static void tpus(const writer *w)
{
    const char *kind;
    char text[512];
    int count = ls_tpus_count(&kind);
    begin(w, "TPUs");
    number(w, "chips", count);
    if (count) entry(w, "kind", kind);
    if (ls_library_installed(LS_TPU_PLUGIN)) {
        ls_device_describe(LS_TPU_PLUGIN, 0, text, sizeof text);
        entry(w, LS_TPU_PLUGIN, text);
    } else {
        entry(w, LS_TPU_PLUGIN, "the plug-in is not installed");
    }
    end(w);
}

/* "neon-bf16 2, neon 7": which ISA provides how many pointers of a table's member; types if there is one pointer per
 * type. */
static void chosen(const writer *w, ls_family *family, const ls_family_field *field)
{
    char name[96], text[256] = "";
    for (int isa = (int)ls_isa_in_use(); isa >= 0; isa--) {
        char mine[160] = "";
        int count = 0;
        for (size_t p = 0; p < field->pointers; p++) {
            if (ls_family_source(family, field, p) != (ls_isa)isa) continue;
            count++;
            size_t used = strlen(mine);
            if (field->pointers == LS_DTYPE_COUNT)
                snprintf(mine + used, sizeof mine - used, " %s", ls_dtype_name((ls_dtype)p));
        }
        if (field->pointers > 1 && field->pointers != LS_DTYPE_COUNT) snprintf(mine, sizeof mine, " %d", count);
        size_t used = strlen(text);
        if (count)
            snprintf(text + used, sizeof text - used, "%s%s%s", used ? ", " : "", ls_isa_name((ls_isa)isa), mine);
    }
    snprintf(name, sizeof name, "%s.%s", family->name, field->name);
    if (*text) entry(w, name, text);
}

static void kernels(const writer *w)
{
    static ls_family *const families[] = {
#define LS_FAMILY(name) &ls_family_##name,
        LS_FAMILY_LIST(LS_FAMILY)
#undef LS_FAMILY
    };
    begin(w, "kernels");
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        for (int f = 0; f < families[i]->field_count; f++) chosen(w, families[i], &families[i]->fields[f]);
    end(w);
}

void ls_env_print(FILE *to, bool json, const char *config_file)
{
    if (!to) return;
    ls_json_writer text = {.indent = 2};
    writer w = {.to = to, .json = json ? &text : NULL};
    if (!json) fprintf(to, "lockstep %s\n", ls_version());
    else begin(&w, NULL), entry(&w, "lockstep", ls_version());
    machine(&w);
    settings(&w);
    configuration(&w, config_file);
    transports(&w);
    gpus(&w);
    tpus(&w);
    kernels(&w);
    if (!json) return;
    end(&w);
    char *whole = ls_json_take(&text, NULL);
    if (whole) fprintf(to, "%s\n", whole);
    ls_sys_free(whole);
}
