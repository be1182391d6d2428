/* packing.c - pack the words of padded sequences into rows, and unpack them. */
#include "nn/packing.h"

#include "base/memory.h"
#include "ops/op.h"

/* The lengths in host memory, to be freed, with their sum added to *words. NULL after a failure. */
static int64_t *read_lengths(ls_tensor *lengths, int64_t length, int64_t *words)
{
    ls_run *run = lengths->run;
    int64_t count = ls_numel(lengths);
    size_t bytes = (size_t)count * sizeof(int64_t);
    int64_t *values = ls_sys_alloc(bytes);
    if (!values) return ls_fail(&run->errors, LS_ERR_MEMORY, "no memory for %lld lengths", (long long)count), NULL;
    if (ls_read(ls_cast(lengths, LS_I64), values, bytes)) {
        for (int64_t b = 0; b < count; *words += values[b++]) {
            if (values[b] >= 0 && values[b] <= length) continue;
            ls_fail(&run->errors, LS_ERR_VALUE, "length %lld of sequence %lld is not between 0 and %lld",
                    (long long)values[b], (long long)b, (long long)length);
            break;
        }
    }
    if (!ls_failed(run)) return values;
    ls_sys_free(values);
    return NULL;
}

static ls_packing pack_rows(ls_tensor *lengths, const int64_t *values, int64_t length, int64_t words)
{
    ls_run *run = lengths->run;
    int64_t count = ls_numel(lengths), all = count * length, word = 0;
    int64_t *rows = ls_sys_alloc((size_t)(2 * words + all) * sizeof *rows), *positions = rows + words;
    int64_t *slots = positions + words;
    if (!rows) return ls_fail(&run->errors, LS_ERR_MEMORY, "no memory for a packed batch"), (ls_packing){0};
    for (int64_t b = 0; b < count; b++) {
        for (int64_t s = 0; s < length; s++) {
            bool is_word = s < values[b];
            slots[b * length + s] = is_word ? word : (b * length + s) % words; /* spread: no row is read by all */
            if (!is_word) continue;
            rows[word] = b * length + s;
            positions[word++] = s;
        }
    }
    ls_packing packing = {.rows = ls_from(run, LS_I64, LS_SHAPE(words), rows),
                          .slots = ls_from(run, LS_I64, LS_SHAPE(count, length), slots),
                          .positions = ls_from(run, LS_I64, LS_SHAPE(words), positions)};
    ls_sys_free(rows);
    return packing;
}

ls_packing ls_packing_of(ls_tensor *lengths, int64_t length)
{
    ls_packing packing = {0};
    int64_t words = 0;
    if (ls_device_records(lengths->storage->device)) return packing;
    int64_t *values = read_lengths(lengths, length, &words);
    if (values && words > 0 && words < ls_numel(lengths) * length) packing = pack_rows(lengths, values, length, words);
    ls_sys_free(values);
    return packing;
}

/* Words at the beginning of a row; 0 where others follow padding. */
static int64_t words_of_row(const bool *row, int64_t length)
{
    int64_t words = 0, end = length;
    while (words < length && row[words]) words++;
    while (end > words && !row[end - 1]) end--;
    return words == end ? words : 0;
}

ls_tensor *ls_lengths_of_mask(ls_tensor *mask)
{
    ls_run *run = mask->run;
    int64_t count = ls_dim(mask, 0), length = ls_dim(mask, 1);
    if (!ls_device_is_host(mask->storage->device)) return mask;
    ls_tensor *words = ls_dtype_of(mask) == LS_BOOL ? mask : ls_ne(mask, ls_full_shape(run, LS_I32, 0, LS_SCALAR));
    size_t bytes = (size_t)(count * length);
    int64_t *lengths = ls_sys_alloc((size_t)count * sizeof *lengths + bytes + 1), known = 0;
    bool *rows = (bool *)(lengths + count);
    if (!lengths) return ls_fail(&run->errors, LS_ERR_MEMORY, "no memory for a mask %s", OP_TEXT(mask)), mask;
    if (ls_read(words, rows, bytes))
        while (known < count && (lengths[known] = words_of_row(rows + known * length, length)) > 0) known++;
    ls_tensor *result = known == count && count > 0 ? ls_from(run, LS_I64, LS_SHAPE(count), lengths) : mask;
    ls_sys_free(lengths);
    return result;
}

ls_tensor *ls_pack(ls_tensor *x, const ls_packing *packing)
{
    ls_tensor *all = ls_flatten(x, 0, 1);
    return ls_ndim(all) == 2 ? ls_move_rows(all, packing->rows, packing->slots)
                             : ls_index_select(all, 0, packing->rows);
}

ls_tensor *ls_unpack(ls_tensor *x, const ls_packing *packing)
{
    return ls_move_rows(x, packing->slots, packing->rows);
}

ls_tensor *ls_unpack_clean(ls_tensor *x, const ls_packing *packing, ls_tensor *lengths)
{
    ls_run *run = x->run;
    ls_tensor *positions = ls_arange(run, LS_I64, ls_dim(packing->slots, 1), 0, 1);
    ls_tensor *is_word = ls_unsqueeze(ls_lt(positions, ls_unsqueeze(lengths, 1)), 2);
    return ls_where(is_word, ls_unpack(x, packing), ls_full_shape(run, ls_dtype_of(x), 0, LS_SCALAR));
}
