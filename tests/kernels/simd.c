/* simd.c - the vector vocabulary: mathematics against libm in double over all magnitudes, conversions and random words
 * against their scalar forms bit for bit. */
#include "base/half.h"
#include "base/rng.h"
#include "check.h"
#include "kernels/kernels.h"
#include "kernels/simd_math.h"
#include "kernels/simd_philox.h"
#include "kernels/simd_softmax.h"

#include <float.h>

static float float_of(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* ---- mathematics ------------------------------------------------------------------------------------------------- */

static double phi(double x)
{
    return exp(-0.5 * x * x) * 0.39894228040143268;
}

static double normal_cdf(double x)
{
    return 0.5 * erfc(-x * 0.70710678118654752);
}

static double gelu(double x)
{
    return x * normal_cdf(x);
}

static double gelu_slope(double x)
{
    return normal_cdf(x) + (fabs(x) > 40 ? 0 : x * phi(x));
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static double gelu_tanh(double x)
{
    return x * sigmoid(2 * 0.79788456080286536 * (x + 0.044715 * x * x * x));
}

static double gelu_tanh_slope(double x)
{
    double s = sigmoid(2 * 0.79788456080286536 * (x + 0.044715 * x * x * x));
    return s + (fabs(x) > 30 ? 0 : x * s * (1 - s) * 2 * 0.79788456080286536 * (1 + 3 * 0.044715 * x * x));
}

static double silu(double x)
{
    return x * sigmoid(x); /* NaN at -infinity, as elsewhere */
}

static double silu_slope(double x)
{
    double s = sigmoid(x);
    return fabs(x) > 800 ? s : s * (1 + x * (1 - s));
}

/* LS_CASE(name, truth, relative error allowed, absolute error allowed as a fraction of max(1, |x|)). The absolute part
 * is for functions that are small differences of larger numbers. */
#define LS_CASE_LIST(LS_CASE)                                                                                          \
    LS_CASE(exp, exp, 1.2e-7, 0)                                                                                       \
    LS_CASE(expm1, expm1, 2e-7, 0)                                                                                     \
    LS_CASE(log, log, 1.2e-7, 0)                                                                                       \
    LS_CASE(log1p, log1p, 2.4e-7, 0)                                                                                   \
    LS_CASE(erf, erf, 2.5e-7, 0)                                                                                       \
    LS_CASE(normal_cdf, normal_cdf, 1.2e-7, 1e-7)                                                                      \
    LS_CASE(gelu, gelu, 2e-7, 1.5e-7)                                                                                  \
    LS_CASE(gelu_slope, gelu_slope, 2e-7, 2e-7)                                                                        \
    LS_CASE(sigmoid, sigmoid, 2.4e-7, 1e-38)                                                                           \
    LS_CASE(tanh, tanh, 2.4e-7, 0)                                                                                     \
    LS_CASE(gelu_tanh, gelu_tanh, 2.4e-7, 1.2e-7)                                                                      \
    LS_CASE(gelu_tanh_slope, gelu_tanh_slope, 4e-7, 2e-7)                                                              \
    LS_CASE(silu, silu, 2.4e-7, 1e-30)                                                                                 \
    LS_CASE(silu_slope, silu_slope, 2.4e-7, 2.4e-7)

typedef struct worst {
    double error;
    float at, got;
} worst;

/* Smallest error that counts: half the spacing of subnormal numbers. */
static void note(worst *w, float x, float got, double want, double absolute)
{
    if (isnan(want) ? isnan(got) : got == (float)want) return;
    double error = fabs((double)got - want) - fmax(0x1p-149, absolute * fmax(1, fabs((double)x)));
    if (isinf(want) || isnan(want) || isnan(got) || isinf(got)) error = INFINITY;
    else error /= fmax(fabs(want), FLT_MIN);
    if (error > w->error) *w = (worst){error, x, got};
}

static const float special[] = {0.0f,     -0.0f,    INFINITY,  -INFINITY,  NAN,   FLT_MIN, -FLT_MIN,
                                FLT_MAX,  -FLT_MAX, 0x1p-149f, -0x1p-149f, 1.0f,  -1.0f,   88.7228394f,
                                -103.97f, 5.4f,     -5.4f,     5.6f,       -5.6f, 3.84f};

#define LS_CASE(name, truth, relative, absolute)                                                                       \
    static void name##_is_accurate(void)                                                                               \
    {                                                                                                                  \
        worst w = {0};                                                                                                 \
        const uint64_t step = 7919; /* prime: all magnitudes, many mantissas */                                        \
        for (uint64_t bits = 0; bits < UINT32_MAX; bits += step * LS_VF_LANES) {                                       \
            ls_vf x = {0};                                                                                             \
            for (int i = 0; i < LS_VF_LANES; i++) x[i] = float_of((uint32_t)(bits + step * (uint64_t)i));              \
            ls_vf y = ls_vf_##name(x);                                                                                 \
            for (int i = 0; i < LS_VF_LANES; i++) note(&w, x[i], y[i], truth((double)x[i]), absolute);                 \
        }                                                                                                              \
        for (size_t i = 0; i < sizeof special / sizeof *special; i++)                                                  \
            note(&w, special[i], ls_vf_##name(ls_vf_set(special[i]))[LS_VF_LANES - 1], truth((double)special[i]),      \
                 absolute);                                                                                            \
        if (check_filter) printf("%-16s worst %.3g at %.9g\n", #name, w.error, (double)w.at);                          \
        CHECK_MSG(w.error <= (relative), #name "(%.9g) = %.9g: relative error %.3g", (double)w.at, (double)w.got,      \
                  w.error);                                                                                            \
    }
LS_CASE_LIST(LS_CASE)
#undef LS_CASE

static void exp_negative_is_accurate(void)
{
    worst w = {0};
    for (float x = 0; x > -87.3f; x -= 0.00137f) note(&w, x, ls_vf_exp_negative(ls_vf_set(x))[0], exp((double)x), 0);
    CHECK_MSG(w.error <= 1.2e-7, "exp_negative(%.9g): relative error %.3g", (double)w.at, w.error);
    CHECK(ls_vf_exp_negative(ls_vf_set(-INFINITY))[0] == 0 && ls_vf_exp_negative(ls_vf_set(-1e4f))[0] == 0);
    CHECK(isnan(ls_vf_exp_negative(ls_vf_set(NAN))[0]));
}

static float exp2_fast(float t)
{
    ls_vf v[4] = {ls_vf_set(0), ls_vf_set(1), ls_vf_set(t), ls_vf_set(-t)};
    ls_vf_exp2_fast4(v, 4);
    return v[2][LS_VF_LANES - 1];
}

static void exp2_fast_is_accurate(void)
{
    worst w = {0};
    for (float t = -126; t < 126.9f; t += 0.00137f) note(&w, t, exp2_fast(t), exp2((double)t), 0);
    CHECK_MSG(w.error <= 2.5e-7, "exp2(%.9g): relative error %.3g", (double)w.at, w.error);
    for (float t = -126; t <= 126; t++) CHECK(exp2_fast(t) == exp2f(t));
    for (float t = -127; t > -400; t -= 0.37f) CHECK(exp2_fast(t) == 0);
    for (float t = -126; t > -127; t -= 0.01f) CHECK(exp2_fast(t) >= 0 && exp2_fast(t) <= FLT_MIN);
    CHECK(exp2_fast(-INFINITY) == 0 && exp2_fast(-FLT_MAX) == 0 && exp2_fast(-0.0f) == 1 && isnan(exp2_fast(NAN)));
}

static void exp2_half_is_accurate_for_bf16(void)
{
    worst w = {0};
    for (float t = -125.9f; t < 126.9f; t += 0.00137f) {
        ls_vf v = ls_vf_set(t);
        ls_vf_exp2_half4(&v, 1);
        note(&w, t, v[0], exp2((double)t), 0);
    }
    CHECK_MSG(w.error <= 8e-5, "exp2(%.9g): relative error %.3g", (double)w.at, w.error);
    ls_vf least[3] = {ls_vf_set(-INFINITY), ls_vf_set(-FLT_MAX), ls_vf_set(NAN)};
    ls_vf_exp2_half4(least, 3);
    CHECK(least[0][0] == 0 && least[1][0] == 0 && isnan(least[2][0]));
}

/* ---- conversions and bits ------------------------------------------------------------------------------------------
 */

static void halves_convert_like_scalars(void)
{
    for (uint32_t h = 0; h < 65536; h += LS_VF_LANES) {
        uint16_t in[LS_VF_LANES];
        for (uint32_t i = 0; i < LS_VF_LANES; i++) in[i] = (uint16_t)(h + i);
        ls_vf b = ls_vf_load_bf16(in), f = ls_vf_load_f16(in);
        for (int i = 0; i < LS_VF_LANES; i++) {
            float want_b = ls_bf16_to_f32(in[i]), want_f = ls_f16_to_f32(in[i]);
            CHECK(b[i] == want_b || (isnan(b[i]) && isnan(want_b)));
            CHECK(f[i] == want_f || (isnan(f[i]) && isnan(want_f)));
        }
    }
    for (uint64_t bits = 0; bits < UINT32_MAX; bits += 3917 * LS_VF_LANES) {
        ls_vf x = {0};
        uint16_t b[LS_VF_LANES], f[LS_VF_LANES];
        for (int i = 0; i < LS_VF_LANES; i++) x[i] = float_of((uint32_t)(bits + 3917u * (uint32_t)i));
        ls_vf_store_bf16(b, x);
        ls_vf_store_f16(f, x);
        for (int i = 0; i < LS_VF_LANES; i++) {
            CHECK_MSG(b[i] == ls_bf16_from_f32(x[i]), "bf16 of %a: %04x", (double)x[i], b[i]);
            CHECK_MSG(isnan(x[i]) ? isnan(ls_f16_to_f32(f[i])) : f[i] == ls_f16_from_f32(x[i]), "f16 of %a: %04x",
                      (double)x[i], f[i]);
        }
    }
}

/* One subnormal number among others must not change how these are rounded, nor be lost itself. */
static void pairs_round_like_single_vectors(void)
{
    _Alignas(LS_SIMD_BYTES) uint16_t stored[2 * LS_VF_LANES], streamed[2 * LS_VF_LANES], joined[2 * LS_VF_LANES],
        flushed[2 * LS_VF_LANES], paired[2 * LS_VF_LANES], some[2 * LS_VF_LANES], some_paired[2 * LS_VF_LANES];
    const uint32_t some_bits = 0xa5c3962du;
    for (uint64_t bits = 0; bits < UINT32_MAX; bits += 39119 * LS_VF_LANES) {
        for (int subnormal = -1; subnormal < 2 * LS_VF_LANES; subnormal += LS_VF_LANES - 1) {
            ls_vf x[2];
            for (int i = 0; i < 2 * LS_VF_LANES; i++)
                x[i / LS_VF_LANES][i % LS_VF_LANES] =
                    float_of(i == subnormal ? 0x18001u : (uint32_t)(bits + 39119u * (uint32_t)i));
            ls_vf_store2_bf16(stored, x);
            ls_vf_stream2_bf16(streamed, x);
            ls_stream_end();
            ls_vf_flush2_bf16(flushed, x);
            ls_vf_flush_pairs_bf16(paired, x[0], x[1]);
            ls_vf_flush2_bits_bf16(some, x, some_bits);
            ls_vf_flush_pairs_bits_bf16(some_paired, x[0], x[1], some_bits);
            ls_vf back[2];
            ls_vu pair = ls_vf_join_bf16(x);
            ls_vf_split_bf16(pair, back);
            ls_vf_store2_bf16(joined, back);
            for (int i = 0; i < 2 * LS_VF_LANES; i++) {
                uint16_t want = ls_bf16_from_f32(x[i / LS_VF_LANES][i % LS_VF_LANES]);
                CHECK_MSG(stored[i] == want && streamed[i] == want && joined[i] == want, "%04x: %04x %04x %04x", want,
                          stored[i], streamed[i], joined[i]);
                bool tiny = fpclassify(x[i / LS_VF_LANES][i % LS_VF_LANES]) == FP_SUBNORMAL;
                CHECK_MSG(flushed[i] == want || (tiny && !(flushed[i] & 0x7fff)), "%04x: %04x", want, flushed[i]);
                int at = i % LS_VF_LANES * 2 + i / LS_VF_LANES;
                bool kept = some_bits >> i & 1;
                CHECK(some[i] == (kept ? flushed[i] : 0) && some_paired[at] == (kept ? paired[at] : 0));
                uint16_t pair_of = paired[at];
                CHECK_MSG(pair_of == want || (tiny && !(pair_of & 0x7fff)), "%04x: %04x", want, pair_of);
            }
        }
    }
}

static void parts_touch_only_their_lanes(void)
{
    float from[LS_VF_LANES], to[LS_VF_LANES];
    for (int n = 0; n <= LS_VF_LANES; n++) {
        for (int i = 0; i < LS_VF_LANES; i++) from[i] = (float)(i + 1), to[i] = -1;
        ls_vf v = ls_vf_load_part(from, n);
        ls_vf_store_part(to, v + 1.0f, n);
        for (int i = 0; i < LS_VF_LANES; i++)
            CHECK(v[i] == (i < n ? from[i] : 0) && to[i] == (i < n ? from[i] + 1 : -1));
    }
}

static void lanes_reduce(void)
{
    ls_vf x = {0};
    for (int i = 0; i < LS_VF_LANES; i++) x[i] = (float)((i * 7) % LS_VF_LANES) - 3;
    CHECK(ls_vf_sum(x) == (float)(LS_VF_LANES * (LS_VF_LANES - 1) / 2 - 3 * LS_VF_LANES));
    CHECK(ls_vf_hmax(x) == LS_VF_LANES - 4);
    CHECK(ls_vf_round(ls_vf_set(2.5f))[0] == 2 && ls_vf_floor(ls_vf_set(-0.5f))[0] == -1 &&
          ls_vf_ceil(ls_vf_set(0.5f))[0] == 1 && ls_vf_sqrt(ls_vf_set(9))[0] == 3);
    CHECK(isnan(ls_vf_max(ls_vf_set(1), ls_vf_set(NAN))[0]) && isnan(ls_vf_min(ls_vf_set(1), ls_vf_set(NAN))[0]));
}

/* A bit per lane, the first one lowest, whether vectors come one by one or four at once. */
static void masks_are_bits(void)
{
    for (uint32_t pattern = 1; pattern; pattern = pattern * 2) {
        uint32_t words = pattern * 0x9E3779B9u;
        ls_vi mask[4], back[4];
        uint8_t one[4 * LS_VF_LANES / 8], four[4 * LS_VF_LANES / 8];
        for (int i = 0; i < 4 * LS_VF_LANES; i++) mask[i / LS_VF_LANES][i % LS_VF_LANES] = words >> i % 32 & 1 ? -1 : 0;
        for (int v = 0; v < 4; v++) ls_vi_store_bits(one, v, mask[v]);
        ls_vf some = ls_vf_keep_bits(words, ls_vf_set(NAN));
        uint32_t least = ls_vu_least_bits((ls_vu)mask[0] | 5, UINT32_MAX);
        for (int i = 0; i < LS_VF_LANES; i++)
            CHECK((words >> i & 1 ? isnan(some[i]) : some[i] == 0) && (least >> i & 1) == (words >> i & 1));
        ls_vi_store_bits4(four, mask);
        ls_vi_load_bits4(four, back);
        for (int i = 0; i < 4 * LS_VF_LANES; i++) {
            int32_t set = mask[i / LS_VF_LANES][i % LS_VF_LANES];
            CHECK((four[i / 8] >> i % 8 & 1) == -set && one[i / 8] == four[i / 8]);
            CHECK(back[i / LS_VF_LANES][i % LS_VF_LANES] == set);
            CHECK(ls_vi_load_bits(four, i / LS_VF_LANES)[i % LS_VF_LANES] == set);
        }
    }
}

static void random_words_are_philox(void)
{
    const uint64_t seeds[] = {0, 42, 0x0123456789abcdefu},
                   counters[] = {0, 7, 0xfffffffau, 0x1fffffffeu, 0x1200000007u, UINT64_MAX - 1};
    for (int s = 0; s < 3; s++)
        for (int c = 0; c < 6; c++) {
            const ls_philox_keys keys = ls_philox_keys_of(seeds[s]);
            const uint32_t least = 0x30000000;
            uint8_t bits[LS_PHILOX_WORDS / 8];
            ls_vphilox r = ls_vu_philox(&keys, counters[c]);
            ls_philox_bits(&keys, counters[c], least, bits);
            for (int i = 0; i < LS_PHILOX_WORDS; i++) {
                uint32_t want = ls_philox(seeds[s], counters[c] + (uint64_t)i / 4).lane[i % 4];
                uint32_t got = r.word[i / LS_VF_LANES][i % LS_VF_LANES];
                CHECK_MSG(got == want, "word %d at counter %llx", i, (unsigned long long)counters[c]);
                CHECK_MSG((bits[i / 8] >> i % 8 & 1) == (want >= least), "bit %d at counter %llx", i,
                          (unsigned long long)counters[c]);
                CHECK(ls_vu_uniform(ls_vu_set(want))[0] == ls_uniform_from_bits(want));
            }
        }
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
#if defined(__AVX512BF16__)
    if (!ls_isa_usable(LS_ISA_AVX512_BF16)) strcpy(check_skip_all, "the CPU lacks AVX-512 BF16");
#elif defined(__x86_64__)
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) strcpy(check_skip_all, "the CPU lacks AVX2");
#endif
#define LS_CASE(name, truth, relative, absolute) CHECK_RUN(name##_is_accurate);
    LS_CASE_LIST(LS_CASE)
    CHECK_RUN(exp_negative_is_accurate);
    CHECK_RUN(exp2_fast_is_accurate);
    CHECK_RUN(exp2_half_is_accurate_for_bf16);
    CHECK_RUN(halves_convert_like_scalars);
    CHECK_RUN(pairs_round_like_single_vectors);
    CHECK_RUN(parts_touch_only_their_lanes);
    CHECK_RUN(lanes_reduce);
    CHECK_RUN(masks_are_bits);
    CHECK_RUN(random_words_are_philox);
    return check_done();
}
