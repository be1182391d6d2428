/* config_file.c - the file with the defaults of `lockstep launch`, and accelerate's. */
#include <lockstep/launch.h>

#include "base/config.h"
#include "base/memory.h"
#include "base/nearest.h"
#include "base/yaml.h"
#include "launch/environment.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_NAME "default_config.yaml"

typedef enum kind { TEXT, COUNT, SWITCH } kind;

static const struct row {
    const char *name;
    kind kind;
    size_t place;
} rows[] = {
#define ROW_TEXT(key, fallback) {#key, TEXT, offsetof(ls_launch_config, key)},
#define ROW_COUNT(key, fallback) {#key, COUNT, offsetof(ls_launch_config, key)},
#define ROW_SWITCH(key, fallback) {#key, SWITCH, offsetof(ls_launch_config, key)},
    LS_LAUNCH_CONFIG_LIST(ROW_TEXT, ROW_COUNT, ROW_SWITCH)};
enum { ROWS = sizeof rows / sizeof *rows };

/* Rows with a common prefix are grouped under a key of that name. */
static const char *const groups[] = {"dynamo_config", "mpirun_config"};

static const char *group_of(const char *name)
{
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        if (strncmp(name, groups[i], strcspn(groups[i], "_") + 1) == 0) return groups[i];
    return "";
}

#define ON_EVERY_WORKER                                                                                                \
    "start lockstep launch on every worker of the cluster: gcloud compute tpus tpu-vm ssh NAME --worker=all "          \
    "--command='lockstep launch --tpu ...'"

/* Keys of accelerate without a counterpart: kept in the file; reported or refused if they ask for something. */
static const struct foreign {
    const char *name, *refusal; /* NULL: only reported */
} foreign_keys[] = {
    {"command_file", NULL},
    {"commands", NULL},
    {"deepspeed_config", "DeepSpeed is not supported"},
    {"fp16", NULL}, /* old versions' mixed_precision */
    {"fp8_config", "there is no fp8 recipe to set"},
    {"fsdp_config", "FSDP is not supported"},
    {"ipex_config", NULL}, /* old versions */
    {"main_training_function", NULL},
    {"megatron_lm_config", "Megatron-LM is not supported"},
    {"parallelism_config", "only data parallelism is supported"},
    {"tpu_env", NULL},
    {"tpu_name", NULL},
    {"tpu_use_cluster", ON_EVERY_WORKER},
    {"tpu_use_sudo", NULL},
    {"tpu_vm", NULL},
    {"tpu_zone", NULL},
};

void ls_launch_config_default(ls_launch_config *config)
{
    if (!config) return;
    memset(config, 0, sizeof *config);
#define SET_TEXT(key, fallback) snprintf(config->key, sizeof config->key, "%s", fallback);
#define SET_OTHER(key, fallback) config->key = fallback;
    LS_LAUNCH_CONFIG_LIST(SET_TEXT, SET_OTHER, SET_OTHER)
}

/* ---- Where ---------------------------------------------------------------------------------------------------- */

/* The user's cache folder, then `rest`. */
static void in_cache(char *path, size_t size, const char *rest)
{
    const char *const *environment = (const char *const *)environ;
    const char *cache = ls_environment_get(environment, "XDG_CACHE_HOME"),
               *home = ls_environment_get(environment, "HOME");
    if (cache && *cache) snprintf(path, size, "%s/%s", cache, rest);
    else snprintf(path, size, "%s/.cache/%s", home ? home : "", rest);
}

void ls_launch_config_place(char *path, size_t size)
{
    const char *home = ls_config_text(LS_SETTING_HOME);
    if (!path) return;
    if (*home) snprintf(path, size, "%s/" FILE_NAME, home);
    else in_cache(path, size, "lockstep/" FILE_NAME);
}

bool ls_launch_config_find(char *path, size_t size, bool *foreign)
{
    bool ignored;
    if (!foreign) foreign = &ignored;
    *foreign = false;
    ls_launch_config_place(path, size);
    if (!path || access(path, F_OK) == 0) return path;
    *foreign = true;
    const char *home = ls_environment_get((const char *const *)environ, "HF_HOME");
    if (home && *home) snprintf(path, size, "%s/accelerate/" FILE_NAME, home);
    else in_cache(path, size, "huggingface/accelerate/" FILE_NAME);
    return access(path, F_OK) == 0;
}

/* ---- Reading -------------------------------------------------------------------------------------------------- */

LS_PRINTF(4, 5) static ls_status fail(ls_status status, char *why, size_t size, const char *format, ...)
{
    if (!why) return status;
    va_list args;
    va_start(args, format);
    vsnprintf(why, size, format, args);
    ls_printable(why, size, why); /* it contains values of the file */
    va_end(args);
    return status;
}

static bool to_switch(const ls_json *value, bool *to)
{
    static const char *const words[] = {"n", "y", "no", "yes", "f", "t", "false", "true", "off", "on", "0", "1"};
    const char *text = ls_json_text(value);
    *to = ls_json_bool(value, false);
    for (size_t i = 0; text && i < sizeof words / sizeof *words; i++) {
        if (strcasecmp(text, words[i]) != 0) continue;
        *to = i % 2;
        return true;
    }
    return value->type == LS_JSON_BOOL;
}

static bool to_count(const ls_json *value, int *to)
{
    const char *text = ls_json_text(value);
    int64_t number = ls_json_integer(value, -1);
    char rest;
    if (text && sscanf(text, "%" SCNd64 "%c", &number, &rest) != 1) return false;
    *to = (int)number;
    return number >= 0 && number <= INT_MAX;
}

/* Numbers are texts too: gpu_ids: 0. YAML 1.1 reads mixed_precision: no as a boolean, but the word is meant. */
static bool to_text(const ls_json *value, char *to, size_t size)
{
    const char *text = ls_json_text(value);
    if (value->type == LS_JSON_BOOL) text = value->boolean ? "yes" : "no";
    if (text) return snprintf(to, size, "%s", text) < (int)size;
    if (value->type == LS_JSON_INTEGER) return snprintf(to, size, "%lld", (long long)value->integer) < (int)size;
    return false;
}

static ls_status take(ls_launch_config *config, const struct row *row, const ls_json *value, char *why, size_t size)
{
    static const char *const wanted[] = {
        [TEXT] = "a text", [COUNT] = "a whole number, not negative", [SWITCH] = "true or false"};
    void *place = (char *)config + row->place;
    bool good = row->kind == TEXT    ? to_text(value, place, sizeof config->mixed_precision)
                : row->kind == COUNT ? to_count(value, place)
                                     : to_switch(value, place);
    if (!good) return fail(LS_ERR_VALUE, why, size, "%s must be %s", row->name, wanted[row->kind]);
    if (place == &config->gradient_accumulation_steps && config->gradient_accumulation_steps == 0)
        return fail(LS_ERR_VALUE, why, size, "gradient_accumulation_steps must be at least 1");
    return LS_OK;
}

/* null, false, "no", 0, {} and []: the key asks for nothing. */
static bool says_nothing(const ls_json *value)
{
    bool on = true;
    if (value->type == LS_JSON_NULL) return true;
    if (value->type == LS_JSON_OBJECT || value->type == LS_JSON_ARRAY) return value->count == 0;
    if (value->type == LS_JSON_INTEGER) return value->integer == 0;
    return (to_switch(value, &on) && !on) || (ls_json_text(value) && !*ls_json_text(value));
}

/* accelerate writes main_training_function: main, which is for TPUs, into every file. */
static bool asks(const ls_json *member)
{
    const char *text = ls_json_text(member);
    bool usual = text && strcmp(member->key, "main_training_function") == 0 && strcmp(text, "main") == 0;
    return !usual && !says_nothing(member);
}

static void add_name(char names[512], const char *name)
{
    size_t used = strlen(names);
    snprintf(names + used, 512 - used, "%s%s", used ? ", " : "", name);
}

static const struct foreign *find_foreign(const char *name)
{
    for (size_t i = 0; i < sizeof foreign_keys / sizeof *foreign_keys; i++)
        if (strcmp(foreign_keys[i].name, name) == 0) return &foreign_keys[i];
    return NULL;
}

/* Adds the closest known key, if there is one. */
static void add_unknown(char names[512], const char *name)
{
    ls_nearest nearest = ls_nearest_to(name, strlen(name));
    char text[200];
    for (int i = 0; i < ROWS; i++) ls_nearest_try(&nearest, rows[i].name);
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) ls_nearest_try(&nearest, groups[i]);
    for (size_t i = 0; i < sizeof foreign_keys / sizeof *foreign_keys; i++)
        ls_nearest_try(&nearest, foreign_keys[i].name);
    snprintf(text, sizeof text, nearest.name ? "%.80s (did you mean %s?)" : "%.80s", name, nearest.name);
    add_name(names, text);
}

/* Collected beside the values: names of unknown keys, and keys to keep. */
typedef struct leftovers {
    char unknown[512];
    ls_json_writer kept;
} leftovers;

static ls_status read_keys(const ls_json *root, ls_launch_config *config, leftovers *rest, char *why, size_t size)
{
    for (const ls_json *member = ls_json_members(root); member; member = member->next) {
        const struct foreign *foreign = find_foreign(member->key);
        int i = 0;
        while (i < ROWS && strcmp(rows[i].name, member->key) != 0) i++;
        if (strcmp(member->key, group_of(member->key)) == 0) {
            ls_status status = read_keys(member, config, rest, why, size);
            if (status) return status;
        } else if (i == ROWS && !foreign) {
            add_unknown(rest->unknown, member->key);
        } else if (foreign && foreign->refusal && !says_nothing(member)) {
            return fail(LS_ERR_UNSUPPORTED, why, size, "%s cannot be used: %s", member->key, foreign->refusal);
        } else if (strcmp(member->key, "fp16") == 0) {
            if (!says_nothing(member)) strcpy(config->mixed_precision, "fp16");
        } else if (foreign) {
            ls_json_put_value(&rest->kept, member->key, member);
            if (asks(member)) add_name(config->ineffective, member->key);
        } else if (i < ROWS && member->type != LS_JSON_NULL) {
            ls_status status = take(config, &rows[i], member, why, size);
            if (status) return status;
        }
    }
    return LS_OK;
}

static bool is_one_of(const char *text, const char *const *words)
{
    while (*words && strcasecmp(text, *words) != 0) words++;
    return *words;
}

/* Files for SageMaker describe another kind of job, with other keys. */
static bool is_for_sagemaker(const ls_json *root)
{
    const char *environment = ls_json_text(ls_json_get(root, "compute_environment"));
    return environment && strcasecmp(environment, "AMAZON_SAGEMAKER") == 0;
}

static ls_status check(ls_launch_config *config, char *why, size_t size)
{
    static const char *const types[] = {"NO", "MULTI_CPU", "MULTI_GPU", "TPU", "XLA", NULL};
    static const char *const precisions[] = {"no", "fp16", "bf16", "fp8", NULL};
    if (strcmp(config->compute_environment, "LOCAL_MACHINE") != 0)
        return fail(LS_ERR_UNSUPPORTED, why, size, "compute_environment %s: only LOCAL_MACHINE is supported",
                    config->compute_environment);
    if (!is_one_of(config->distributed_type, types))
        return fail(LS_ERR_UNSUPPORTED, why, size,
                    "distributed_type %s: only NO, MULTI_CPU, MULTI_GPU, TPU and XLA are supported",
                    config->distributed_type);
    if (!is_one_of(config->mixed_precision, precisions))
        return fail(LS_ERR_VALUE, why, size, "mixed_precision %s: must be no, fp16, bf16 or fp8",
                    config->mixed_precision);
    if (config->num_machines > 1 && config->machine_rank >= config->num_machines)
        return fail(LS_ERR_VALUE, why, size, "machine_rank %d: there are %d machines", config->machine_rank,
                    config->num_machines);
    if (strcasecmp(config->distributed_type, "NO") == 0) config->num_processes = 1;
    return LS_OK;
}

ls_status ls_launch_config_read(const char *path, ls_launch_config *config, char *why, size_t size)
{
    enum { MOST = 1 << 20 };
    if (!path || !config)
        return fail(LS_ERR_VALUE, why, size, "ls_launch_config_read: the %s is NULL", path ? "configuration" : "path");
    ls_launch_config_default(config);
    FILE *file = fopen(path, "r");
    char *text = file ? ls_sys_alloc(MOST) : NULL;
    leftovers rest = {.unknown = ""};
    size_t length = text ? fread(text, 1, MOST, file) : 0;
    int error = errno;
    if (text && ferror(file)) { /* a folder, for instance */
        ls_sys_free(text);
        text = NULL;
    }
    if (file) fclose(file);
    if (!text) return fail(LS_ERR_IO, why, size, "%s: %s", path, strerror(error));
    ls_message reason = {""};
    char detail[700];
    size_t mark =
        length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0; /* a byte order mark, written by some editors */
    ls_json *root = length < MOST ? ls_yaml_read(text + mark, length - mark, &reason) : NULL;
    ls_status status = LS_ERR_VALUE;
    if (!root) snprintf(detail, sizeof detail, "%s", length < MOST ? reason.text : "too large");
    else if (root->type != LS_JSON_OBJECT) snprintf(detail, sizeof detail, "no keys in the file");
    else if (is_for_sagemaker(root))
        status = fail(LS_ERR_UNSUPPORTED, detail, sizeof detail,
                      "SageMaker is not supported: the file describes a job for it (compute_environment: "
                      "AMAZON_SAGEMAKER); `lockstep config` writes one for your own machines");
    else if (!ls_json_get(root, "distributed_type"))
        snprintf(detail, sizeof detail, "a `distributed_type` must be specified");
    else {
        ls_json_put_object(&rest.kept, NULL);
        status = read_keys(root, config, &rest, detail, sizeof detail);
        ls_json_put_end(&rest.kept);
    }
    char *kept = ls_json_take(&rest.kept, NULL);
    if (!status && *rest.unknown)
        status = fail(LS_ERR_VALUE, detail, sizeof detail, "unknown keys: %s; correct or remove them", rest.unknown);
    if (!status && (!kept || snprintf(config->kept, sizeof config->kept, "%s", kept) >= (int)sizeof config->kept))
        status = fail(LS_ERR_MEMORY, detail, sizeof detail, "it has too many keys without effect");
    ls_sys_free(kept);
    if (!status) status = check(config, detail, sizeof detail);
    ls_json_free(root);
    ls_sys_free(text);
    return status ? fail(status, why, size, "%s: %s", path, detail) : LS_OK;
}

/* ---- Writing -------------------------------------------------------------------------------------------------- */

static bool make_folder_of(const char *path)
{
    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%s", path);
    for (char *slash = strchr(folder + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(folder, 0777) != 0 && errno != EEXIST) return false;
        *slash = '/';
    }
    return true;
}

/* Is there anything to write? Switches are written even if false, except those that only some versions know, or that
 * are about TPUs. */
static bool is_told(const ls_launch_config *config, const struct row *row)
{
    const void *place = (const char *)config + row->place;
    if (row->kind == TEXT) return *(const char *)place;
    if (row->kind == COUNT) return *(const int *)place || strcmp(row->name, "machine_rank") == 0;
    return *(const bool *)place || (!*group_of(row->name) && place != &config->downcast_bf16);
}

static void put_json(ls_json_writer *to, const ls_launch_config *config, const struct row *row)
{
    const void *place = (const char *)config + row->place;
    if (row->kind == TEXT) ls_json_put_text(to, row->name, place);
    if (row->kind == COUNT) ls_json_put_integer(to, row->name, *(const int *)place);
    if (row->kind == SWITCH) ls_json_put_bool(to, row->name, *(const bool *)place);
}

/* Quoted, as accelerate does, unless every reader takes it for a word: "no" and "0,1" stay texts. */
static void put_text(FILE *to, const char *text)
{
    static const char *const words[] = {"no", "n", "yes", "y", "on", "off", "true", "false", "null", NULL};
    size_t plain = 0;
    while (isalnum((unsigned char)text[plain]) || (text[plain] && strchr("_./-", text[plain]))) plain++;
    bool quoted = text[plain] || !(isalpha((unsigned char)text[0]) || text[0] == '/') || is_one_of(text, words);
    if (quoted) fputc('\'', to);
    for (const char *c = text; *c; c++) fputs(*c == '\'' ? "''" : (char[]){*c, 0}, to);
    if (quoted) fputc('\'', to);
}

static void put_yaml(FILE *to, const ls_launch_config *config, const struct row *row)
{
    const void *place = (const char *)config + row->place;
    fprintf(to, "%s%s: ", *group_of(row->name) ? "  " : "", row->name);
    if (row->kind == TEXT) put_text(to, place);
    if (row->kind == COUNT) fprintf(to, "%d", *(const int *)place);
    if (row->kind == SWITCH) fputs(*(const bool *)place ? "true" : "false", to);
    fputc('\n', to);
}

/* In YAML, values other than texts may be written as JSON. */
static void put_kept_yaml(FILE *to, const ls_json *member)
{
    ls_json_writer w = {0};
    fprintf(to, "%s: ", member->key);
    if (ls_json_text(member)) put_text(to, ls_json_text(member));
    else ls_json_put_value(&w, NULL, member);
    char *text = ls_json_take(&w, NULL);
    fprintf(to, "%s\n", text ? text : "");
    ls_sys_free(text);
}

/* False: out of memory. */
static bool put_rows(FILE *to, const ls_launch_config *config, bool json)
{
    ls_json_writer w = {.indent = 2};
    ls_message why;
    ls_json *kept = *config->kept ? ls_json_read(config->kept, strlen(config->kept), &why) : NULL;
    const char *group = "";
    ls_json_put_object(&w, NULL);
    for (int i = 0; i < ROWS; i++) {
        if (!is_told(config, &rows[i])) continue;
        const char *next = group_of(rows[i].name);
        if (strcmp(group, next) != 0) {
            if (*group) ls_json_put_end(&w);
            if (*next) ls_json_put_object(&w, next);
            if (*next && !json) fprintf(to, "%s:\n", next);
            group = next;
        }
        if (json) put_json(&w, config, &rows[i]);
        else put_yaml(to, config, &rows[i]);
    }
    if (*group) ls_json_put_end(&w);
    for (const ls_json *member = ls_json_members(kept); member; member = member->next) {
        if (json) ls_json_put_value(&w, member->key, member);
        else put_kept_yaml(to, member);
    }
    ls_json_put_end(&w);
    char *text = ls_json_take(&w, NULL);
    bool good = text != NULL && (kept || !*config->kept);
    ls_json_free(kept);
    if (json && good) fprintf(to, "%s\n", text);
    ls_sys_free(text);
    return good;
}

ls_status ls_launch_config_write(const char *path, const ls_launch_config *config, char *why, size_t size)
{
    if (!path || !config)
        return fail(LS_ERR_VALUE, why, size, "ls_launch_config_write: the %s is NULL", path ? "configuration" : "path");
    char temporary[PATH_MAX];
    size_t length = strlen(path);
    bool json = length > 5 && strcmp(path + length - 5, ".json") == 0, good;
    if (snprintf(temporary, sizeof temporary, "%s.%d", path, (int)getpid()) >= (int)sizeof temporary ||
        !make_folder_of(path))
        return fail(LS_ERR_IO, why, size, "%s: %s", path, strerror(errno));
    FILE *file = fopen(temporary, "w");
    if (!file) return fail(LS_ERR_IO, why, size, "%s: %s", temporary, strerror(errno));
    good = put_rows(file, config, json) && fflush(file) == 0 && fsync(fileno(file)) == 0;
    good = fclose(file) == 0 && good;
    if (good && rename(temporary, path) == 0) return LS_OK;
    ls_status status = fail(LS_ERR_IO, why, size, "%s: %s", path, strerror(errno));
    unlink(temporary);
    return status;
}

ls_status ls_launch_config_write_basic(const char *path, const char *mixed_precision, char *why, size_t size)
{
    static const char *const precisions[] = {"no", "fp16", "bf16", NULL};
    char place[PATH_MAX];
    ls_launch_config config;
    ls_launch_config_default(&config);
    ls_launch_config_place(place, sizeof place);
    if (!path) path = place;
    if (!mixed_precision) mixed_precision = "no";
    if (!is_one_of(mixed_precision, precisions))
        return fail(LS_ERR_VALUE, why, size, "`mixed_precision` should be one of 'no', 'fp16' or 'bf16'. Received %s",
                    mixed_precision);
    if (access(path, F_OK) == 0)
        return fail(LS_ERR_STATE, why, size,
                    "Configuration already exists at %s, will not override. Run `lockstep config` manually or pass a "
                    "different `--config_file`.",
                    path);
    int gpus = ls_launch_gpus();
    config.use_cpu = gpus == 0;
    if (gpus > 1) strcpy(config.distributed_type, "MULTI_GPU");
    if (gpus > 1) config.num_processes = gpus;
    int tpus = ls_launch_tpus();
    if (tpus) {
        config.use_cpu = false;
        config.num_processes = tpus;
        strcpy(config.distributed_type, "TPU");
    }
    for (int i = 0; mixed_precision[i]; i++)
        config.mixed_precision[i] = (char)tolower((unsigned char)mixed_precision[i]);
    return ls_launch_config_write(path, &config, why, size);
}
