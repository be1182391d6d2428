/* attention.c - the attention kernels of this CPU, and the code they share. */
#include "kernels/attention.h"

#include "base/half.h"
#include "kernels/kernels.h"

#include <math.h>
#include <string.h>

/* Read n mask elements, `step` apart, through a conversion: the loop of one type. */
#define READ_MASK(type, convert)                                                                                       \
    do {                                                                                                               \
        const type *from = (const type *)mask->data + at;                                                              \
        for (int64_t j = 0; j < count; j++) {                                                                          \
            type x = from[j * mask->step];                                                                             \
            bias[j] = convert;                                                                                         \
        }                                                                                                              \
    } while (0)

#define DEFINE_BIAS(name, real, most)                                                                                  \
    void name(const ls_attention_task *problem, int64_t head, int64_t query, int64_t begin, int64_t count, real *bias) \
    {                                                                                                                  \
        const ls_attention_mask *mask = &problem->mask;                                                                \
        int64_t at = head * mask->head + query * mask->row + begin * mask->step;                                       \
        if (!mask->data) memset(bias, 0, (size_t)count * sizeof *bias);                                                \
        else if (mask->dtype == LS_BOOL) READ_MASK(uint8_t, x ? 0 : -(real)INFINITY);                                  \
        else if (mask->dtype == LS_F16) READ_MASK(ls_f16, (real)ls_f16_to_f32(x));                                     \
        else if (mask->dtype == LS_BF16) READ_MASK(ls_bf16, (real)ls_bf16_to_f32(x));                                  \
        else if (mask->dtype == LS_F32) READ_MASK(float, (real)x);                                                     \
        else READ_MASK(double, (real)x);                                                                               \
        for (int64_t j = 0; mask->data && mask->dtype != LS_BOOL && j < count; j++)                                    \
            if (fabs(bias[j]) > (most) && fabs(bias[j]) < INFINITY) bias[j] = bias[j] < 0 ? -(most) : (most);          \
        int64_t seen = query + 1 - begin;                                                                              \
        if (problem->causal)                                                                                           \
            for (int64_t j = seen > 0 ? seen : 0; j < count; j++) bias[j] = -(real)INFINITY;                           \
    }

DEFINE_BIAS(ls_attention_bias, float, LS_ATTENTION_MOST_BIAS)
DEFINE_BIAS(ls_attention_bias_f64, double, INFINITY)

static ls_attention_table tables[LS_ISA_COUNT];
static const ls_family_field fields[] = {LS_FAMILY_FIELD(ls_attention_table, f32),
                                         LS_FAMILY_FIELD(ls_attention_table, f64),
                                         LS_FAMILY_FIELD(ls_attention_table, bf16)};
ls_family ls_family_attention = {
    .name = "attention",
    .fields = fields,
    .field_count = (int)(sizeof fields / sizeof *fields),
    .bytes = sizeof *tables,
    .tables = tables,
    .offers =
        {
            [LS_ISA_REF] = &ls_attention_ref,
#if defined(__aarch64__)
            [LS_ISA_NEON] = &ls_attention_neon,
            [LS_ISA_NEON_BF16] = &ls_attention_neon_bf16,
#elif defined(__x86_64__)
            [LS_ISA_AVX2] = &ls_attention_avx2,
            [LS_ISA_AVX512] = &ls_attention_avx512,
            [LS_ISA_AVX512_BF16] = &ls_attention_avx512_bf16,
            [LS_ISA_AMX] = &ls_attention_amx,
#endif
        },
};

const ls_attention_table *ls_attention_kernels(void)
{
    return ls_family_table(&ls_family_attention);
}
