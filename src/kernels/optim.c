/* optim.c - dispatch of the optimiser kernels, and their coefficients. */
#include "kernels/optim.h"

#include "kernels/kernels.h"

#include <math.h>

static ls_optim_kernels tables[LS_ISA_COUNT];
static const ls_family_field fields[] = {
    LS_FAMILY_FIELD(ls_optim_kernels, adam),    LS_FAMILY_FIELD(ls_optim_kernels, sgd),
    LS_FAMILY_FIELD(ls_optim_kernels, rmsprop), LS_FAMILY_FIELD(ls_optim_kernels, adagrad),
    LS_FAMILY_FIELD(ls_optim_kernels, squares), LS_FAMILY_FIELD(ls_optim_kernels, unscale)};
ls_family ls_family_optim = {
    .name = "optim",
    .fields = fields,
    .field_count = (int)(sizeof fields / sizeof *fields),
    .bytes = sizeof *tables,
    .tables = tables,
    .offers =
        {
            [LS_ISA_REF] = &ls_optim_ref,
#if defined(__aarch64__)
            [LS_ISA_NEON] = &ls_optim_neon,
            [LS_ISA_NEON_BF16] = &ls_optim_neon_bf16,
#elif defined(__x86_64__)
            [LS_ISA_AVX2] = &ls_optim_avx2,
            [LS_ISA_AVX512] = &ls_optim_avx512,
            [LS_ISA_AVX512_BF16] = &ls_optim_avx512_bf16,
#endif
        },
};

const ls_optim_kernels *ls_optim_kernels_in_use(void)
{
    return ls_family_table(&ls_family_optim);
}

ls_adam ls_adam_of(const ls_attrs *attrs)
{
    double lr = attrs->adam.lr, decay = attrs->adam.weight_decay;
    return (ls_adam){.gradient_sign = attrs->adam.maximize ? -1 : 1,
                     .l2_decay = attrs->adam.decoupled ? 0 : decay,
                     .keep = attrs->adam.decoupled ? 1 - lr * decay : 1,
                     .blend1 = 1 - attrs->adam.beta1,
                     .beta2 = attrs->adam.beta2,
                     .blend2 = 1 - attrs->adam.beta2,
                     .unbias2 = 1 / sqrt(attrs->adam.bias2),
                     .epsilon = attrs->adam.epsilon,
                     .step = lr / attrs->adam.bias1};
}

ls_sgd ls_sgd_of(const ls_attrs *attrs)
{
    return (ls_sgd){.gradient_sign = attrs->sgd.maximize ? -1 : 1,
                    .l2_decay = attrs->sgd.weight_decay,
                    .momentum = attrs->sgd.momentum,
                    .blend = 1 - attrs->sgd.dampening,
                    .lookahead = attrs->sgd.momentum,
                    .step = attrs->sgd.lr,
                    .first = attrs->sgd.first,
                    .nesterov = attrs->sgd.nesterov};
}

ls_rmsprop ls_rmsprop_of(const ls_attrs *attrs)
{
    return (ls_rmsprop){.gradient_sign = attrs->rmsprop.maximize ? -1 : 1,
                        .l2_decay = attrs->rmsprop.weight_decay,
                        .alpha = attrs->rmsprop.alpha,
                        .blend = 1 - attrs->rmsprop.alpha,
                        .epsilon = attrs->rmsprop.epsilon,
                        .momentum = attrs->rmsprop.momentum,
                        .step = attrs->rmsprop.lr};
}

ls_adagrad ls_adagrad_of(const ls_attrs *attrs)
{
    return (ls_adagrad){.gradient_sign = attrs->adagrad.maximize ? -1 : 1,
                        .l2_decay = attrs->adagrad.weight_decay,
                        .epsilon = attrs->adagrad.epsilon,
                        .step = attrs->adagrad.lr};
}
