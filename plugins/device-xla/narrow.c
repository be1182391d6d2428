/* narrow.c - the types that the environment asks for, and conversion to and from them on the host. */
#include "narrow.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static bool is_set(const char *variable, const char *value)
{
    const char *text = getenv(variable);
    return text && strcmp(text, value) == 0;
}

/* What f32 and f64 are stored as, for the whole process. */
static struct {
    pthread_once_t once;
    ls_dtype f32, f64;
} stored = {PTHREAD_ONCE_INIT, LS_F32, LS_F64};

/* The last variable is what `downcast_bf16: yes` in a configuration becomes. */
static void read_environment(void)
{
    bool all = is_set("XLA_USE_BF16", "1");
    bool downcast = is_set("XLA_DOWNCAST_BF16", "1") || is_set("ACCELERATE_DOWNCAST_BF16", "true");
    if (all || downcast) stored.f32 = LS_BF16;
    if (all) stored.f64 = LS_BF16;
    else if (downcast) stored.f64 = LS_F32;
}

ls_dtype xla_narrowed(ls_dtype dtype)
{
    pthread_once(&stored.once, read_environment);
    return dtype == LS_F32 ? stored.f32 : dtype == LS_F64 ? stored.f64 : dtype;
}

/* To the nearest, to even between two. */
static uint16_t to_bf16(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (isnan(x)) return (uint16_t)(bits >> 16 | 64);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static float from_bf16(uint16_t half)
{
    uint32_t bits = (uint32_t)half << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

void xla_narrow(ls_dtype dtype, const void *from, void *to, size_t count)
{
    bool half = xla_narrowed(dtype) == LS_BF16;
    for (size_t i = 0; i < count; i++) {
        float x = dtype == LS_F64 ? (float)((const double *)from)[i] : ((const float *)from)[i];
        if (half) ((uint16_t *)to)[i] = to_bf16(x);
        else ((float *)to)[i] = x;
    }
}

void xla_widen(ls_dtype dtype, const void *from, void *to, size_t count)
{
    bool half = xla_narrowed(dtype) == LS_BF16;
    for (size_t i = 0; i < count; i++) {
        float x = half ? from_bf16(((const uint16_t *)from)[i]) : ((const float *)from)[i];
        if (dtype == LS_F64) ((double *)to)[i] = (double)x;
        else ((float *)to)[i] = x;
    }
}
