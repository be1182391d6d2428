/* composed.c - datasets made of others: a subset, a random split, a concatenation, side by side, changed. */
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "data/datasets/sample.h"
#include "data/random.h"

/* The sources of such a dataset: `count` bases; sample i is sample map[i] of the only base or, without a map, of the
 * base whose range contains i. */
typedef struct part {
    int64_t *map;
    int64_t count;
    int64_t *ends; /* of the bases' ranges */
    ls_change_fn *change;
    void *user; /* of change */
    ls_dataset *bases[];
} part;

static const ls_dataset *base_of(const part *p, int64_t *index)
{
    if (p->map) return *index = p->map[*index], p->bases[0];
    int64_t low = 0, high = p->count - 1;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (*index < p->ends[middle]) high = middle;
        else low = middle + 1;
    }
    *index -= low ? p->ends[low - 1] : 0;
    return p->bases[low];
}

static bool get(int64_t index, ls_sample *sample, void *user)
{
    const ls_dataset *base = base_of(user, &index);
    return base->get(index, sample, base->user);
}

static const char *path_of(int64_t index, void *user)
{
    const ls_dataset *base = base_of(user, &index);
    return ls_dataset_path(base, index);
}

static int64_t class_of(int64_t index, void *user)
{
    const ls_dataset *base = base_of(user, &index);
    return ls_dataset_class(base, index);
}

static int64_t length_of(int64_t index, void *user)
{
    const ls_dataset *base = base_of(user, &index);
    return ls_dataset_sample_length(base, index);
}

static void release(void *user)
{
    part *p = user;
    ls_sys_free(p->map);
    ls_sys_free(p->ends);
    ls_sys_free(p);
}

/* A dataset over these bases with these fields; the caller fills map or ends. */
static ls_dataset *part_new(const char *kind, ls_dataset *const *bases, int64_t count, const ls_field *fields,
                            part **of)
{
    ls_run *run = bases[0]->object.run;
    for (int64_t i = 0; i < count; i++)
        if (ls_dataset_is_stream(bases[i]))
            return ls_fail(&run->errors, LS_ERR_VALUE, "%s: a stream has no numbered samples to choose from", kind),
                   NULL;
    ls_dataset *set = ls_dataset_begin(run, kind, fields);
    part *p = set ? ls_sys_alloc(sizeof *p + (size_t)count * sizeof *p->bases) : NULL;
    if (set && !p) ls_fail(&run->errors, LS_ERR_MEMORY, "%s: out of memory", kind);
    if (!p) return ls_object_free(set), NULL;
    p->count = (int)count;
    memcpy(p->bases, bases, (size_t)count * sizeof *bases);
    set->user = p;
    set->release = release;
    set->get = get;
    set->class_of = class_of;
    set->path_of = path_of;
    set->length_of = length_of;
    set->on_bad = bases[0]->on_bad;
    set->in_memory = true;
    set->bases = p->bases;
    set->base_count = (int)count;
    for (int i = 0; i < count; i++) {
        set->in_memory = set->in_memory && bases[i]->in_memory;
        ls_dataset_hold(bases[i]);
    }
    *of = p;
    return set;
}

ls_dataset *ls_subset_new(ls_dataset *base, const int64_t *indices, int64_t count)
{
    if (!base || ls_failed(base->object.run)) return NULL;
    ls_run *run = base->object.run;
    if (count < 0 || (count && !indices))
        return ls_fail(&run->errors, LS_ERR_VALUE, "ls_subset_new: %lld samples%s", (long long)count,
                       indices ? "" : " of NULL"),
               NULL;
    for (int64_t i = 0; i < count && !ls_dataset_is_stream(base); i++) {
        if (indices[i] >= 0 && indices[i] < base->count) continue;
        ls_fail(&run->errors, LS_ERR_VALUE, "ls_subset_new: sample %lld (at [%lld]) is not in the dataset of %lld",
                (long long)indices[i], (long long)i, (long long)base->count);
        return NULL;
    }
    part *p;
    ls_dataset *set = part_new("subset", &base, 1, base->fields, &p);
    if (!set) return NULL;
    p->map = ls_sys_alloc((size_t)(count ? count : 1) * sizeof *p->map);
    if (!p->map)
        return ls_fail(&run->errors, LS_ERR_MEMORY, "ls_subset_new: no memory for %lld numbers", (long long)count),
               ls_object_free(set), NULL;
    if (count) memcpy(p->map, indices, (size_t)count * sizeof *p->map);
    set->count = count;
    ls_hash hash;
    ls_hash_begin(&hash);
    ls_hash_add(&hash, &base->choice, sizeof base->choice);
    ls_hash_add(&hash, p->map, (size_t)count * sizeof *p->map);
    set->choice = ls_hash_end(&hash);
    return set;
}

void ls_random_split(ls_dataset *set, double fraction, ls_dataset **first, ls_dataset **second)
{
    if (first) *first = NULL;
    if (second) *second = NULL;
    if (!set || ls_failed(set->object.run)) return;
    ls_run *run = set->object.run;
    if (ls_dataset_is_stream(set)) {
        ls_fail(&run->errors, LS_ERR_VALUE, "ls_random_split: a stream has no numbered samples to choose from");
        return;
    }
    if (!(fraction >= 0 && fraction <= 1)) {
        ls_fail(&run->errors, LS_ERR_VALUE, "ls_random_split: fraction %g; it must be from 0 to 1", fraction);
        return;
    }
    int64_t *order = ls_sys_alloc((size_t)(set->count + 1) * sizeof *order);
    if (!order) {
        ls_fail(&run->errors, LS_ERR_MEMORY, "ls_random_split: no memory for %lld numbers", (long long)set->count);
        return;
    }
    for (int64_t i = 0; i < set->count; i++) order[i] = i;
    ls_random_shuffle(ls_random_key(run->random.seed, 0, LS_RANDOM_SPLIT), set->count, order);
    int64_t cut = (int64_t)(fraction * (double)set->count);
    if (first) *first = ls_subset_new(set, order, cut);
    if (second) *second = ls_subset_new(set, order + cut, set->count - cut);
    ls_sys_free(order);
}

static bool same_fields(const ls_dataset *a, const ls_dataset *b)
{
    if (a->field_count != b->field_count) return false;
    for (int i = 0; i < a->field_count; i++) {
        const ls_field *x = &a->fields[i], *y = &b->fields[i];
        if (strcmp(x->name, y->name) != 0 || x->dtype != y->dtype || x->image != y->image ||
            memcmp(x->shape, y->shape, sizeof x->shape) != 0)
            return false;
    }
    return true;
}

static bool all_exist(ls_dataset *const *sets, int64_t count)
{
    for (int64_t i = 0; sets && i < count; i++)
        if (!sets[i]) return false;
    return sets && count > 0;
}

ls_dataset *ls_concat_dataset_new_n(ls_dataset *const *sets, int64_t count)
{
    if (!all_exist(sets, count) || ls_failed(sets[0]->object.run)) return NULL;
    ls_run *run = sets[0]->object.run;
    for (int64_t i = 1; i < count; i++) {
        if (same_fields(sets[0], sets[i])) continue;
        return ls_fail(
                   &run->errors, LS_ERR_SHAPE,
                   "ls_concat_dataset_new: the fields of dataset %d differ from the first: names, types and sizes must "
                   "agree",
                   (int)i),
               NULL;
    }
    part *p;
    ls_dataset *set = part_new("concatenation", sets, count, sets[0]->fields, &p);
    if (!set) return NULL;
    p->ends = ls_sys_alloc((size_t)count * sizeof *p->ends);
    if (!p->ends)
        return ls_fail(&run->errors, LS_ERR_MEMORY, "ls_concat_dataset_new: out of memory"), ls_object_free(set), NULL;
    ls_hash hash;
    ls_hash_begin(&hash);
    for (int64_t i = 0; i < count; i++) {
        p->ends[i] = set->count += sets[i]->count;
        ls_hash_add(&hash, &p->ends[i], sizeof p->ends[i]);
        ls_hash_add(&hash, &sets[i]->choice, sizeof sets[i]->choice);
    }
    set->choice = ls_hash_end(&hash);
    return set;
}

/* ---- side by side ---- */

/* Let a base write its fields, which begin with field `first` of the sample. */
static bool get_fields(const ls_dataset *base, int64_t index, ls_sample *sample, int first)
{
    ls_reading reading = *sample->reading;
    ls_sample own = *sample;
    own.reading = &reading;
    reading.fields += first;
    reading.declared += first;
    reading.field_count = base->field_count;
    for (int i = 0; i < base->field_count; i++) {
        reading.bytes[i] = sample->reading->bytes[first + i];
        reading.as_bytes[i] = sample->reading->as_bytes[first + i];
        own.fixed[i] = sample->fixed[first + i];
        own.cells[i] = sample->cells[first + i];
    }
    bool ok = base->get(index, &own, base->user);
    sample->draws = own.draws;
    sample->status = own.status;
    sample->why = own.why;
    sample->scratch = own.scratch;
    sample->scratch_bytes = own.scratch_bytes;
    return ok;
}

static bool get_zipped(int64_t index, ls_sample *sample, void *user)
{
    const part *p = user;
    bool ok = true;
    for (int64_t i = 0, first = 0; ok && i < p->count; first += p->bases[i++]->field_count)
        ok = get_fields(p->bases[i], index, sample, (int)first);
    return ok;
}

/* The fields of all datasets; false, with an error, if they do not go together. */
static bool join_fields(ls_dataset *const *sets, int64_t count, ls_field fields[LS_MAX_FIELDS])
{
    ls_errors *errors = &sets[0]->object.run->errors;
    int total = 0;
    for (int64_t i = 0; i < count; i++) {
        if (sets[i]->count != sets[0]->count)
            return ls_fail(errors, LS_ERR_SHAPE,
                           "ls_zip_dataset_new: dataset %lld has %lld samples, the first has %lld", (long long)i,
                           (long long)sets[i]->count, (long long)sets[0]->count),
                   false;
        for (int f = 0; f < sets[i]->field_count; f++) {
            const ls_field *field = &sets[i]->fields[f];
            for (int k = 0; k < total; k++)
                if (strcmp(fields[k].name, field->name) == 0)
                    return ls_fail(errors, LS_ERR_VALUE,
                                   "ls_zip_dataset_new: two fields are named \"%s\"; ls_set_name() "
                                   "names the tensors of a dataset",
                                   field->name),
                           false;
            if (total == LS_MAX_FIELDS)
                return ls_fail(errors, LS_ERR_VALUE, "ls_zip_dataset_new: more than %d fields", LS_MAX_FIELDS), false;
            fields[total++] = *field;
        }
    }
    return true;
}

/* A hash of what its samples are chosen from. */
static uint64_t choice_of(const char *kind, ls_dataset *const *sets, int64_t count)
{
    ls_hash hash;
    ls_hash_begin(&hash);
    ls_hash_add(&hash, kind, strlen(kind));
    for (int64_t i = 0; i < count; i++) ls_hash_add(&hash, &sets[i]->choice, sizeof sets[i]->choice);
    return ls_hash_end(&hash);
}

ls_dataset *ls_zip_dataset_new_n(ls_dataset *const *sets, int64_t count)
{
    if (!all_exist(sets, count) || ls_failed(sets[0]->object.run)) return NULL;
    ls_field fields[LS_MAX_FIELDS] = {{0}};
    part *p;
    if (!join_fields(sets, count, fields)) return NULL;
    ls_dataset *set = part_new("zip", sets, count, fields, &p);
    if (!set) return NULL;
    /* Paths, classes and lengths are those of the first. */
    p->ends = ls_sys_alloc((size_t)count * sizeof *p->ends);
    if (!p->ends)
        return ls_fail(&set->object.run->errors, LS_ERR_MEMORY, "ls_zip_dataset_new: out of memory"),
               ls_object_free(set), NULL;
    for (int64_t i = 0; i < count; i++) p->ends[i] = sets[0]->count;
    set->get = get_zipped;
    set->count = sets[0]->count;
    set->choice = choice_of("zip", sets, count);
    return set;
}

/* ---- changed ---- */

static bool get_changed(int64_t index, ls_sample *sample, void *user)
{
    const part *p = user;
    const ls_dataset *base = p->bases[0];
    return base->get(index, sample, base->user) && p->change(sample, p->user);
}

ls_dataset *ls_map_dataset_new(ls_dataset *base, ls_change_fn *change, void *user)
{
    if (!base || ls_failed(base->object.run)) return NULL;
    ls_run *run = base->object.run;
    if (!change) return ls_fail(&run->errors, LS_ERR_VALUE, "ls_map_dataset_new: the function is NULL"), NULL;
    part *p;
    ls_dataset *set = part_new("map", &base, 1, base->fields, &p);
    if (!set) return NULL;
    p->ends = ls_sys_alloc(sizeof *p->ends);
    if (!p->ends)
        return ls_fail(&run->errors, LS_ERR_MEMORY, "ls_map_dataset_new: out of memory"), ls_object_free(set), NULL;
    p->ends[0] = base->count;
    p->change = change;
    p->user = user;
    set->get = get_changed;
    set->count = base->count;
    set->in_memory = false; /* the function may take its time */
    set->choice = choice_of("map", &base, 1);
    return set;
}
