/* missing.h - what PyTorch has and Lockstep does not have yet. A program that uses one of these names does not compile,
 * and the compiler says what to use meanwhile. */
#ifndef LOCKSTEP_MISSING_H
#define LOCKSTEP_MISSING_H

#include <lockstep/base.h>

#ifndef __cplusplus
#define LS_MISSING_(advice)                                                                                            \
    ((void *)(intptr_t)sizeof(struct {                                                                                 \
        _Static_assert(0, advice);                                                                                     \
        char none;                                                                                                     \
    }))

#define LS_NO_CONV3D_                                                                                                  \
    "Lockstep has no 3-D convolutions yet: use ls_conv2d() with the frames as channels or as part of the batch"
#define ls_conv3d(...) LS_MISSING_(LS_NO_CONV3D_)
#define ls_conv3d_new(...) LS_MISSING_(LS_NO_CONV3D_)

#define LS_NO_RECURRENCE_                                                                                              \
    "Lockstep has no recurrent layers yet: use ls_transformer_layer_new(.causal = true), or ls_conv1d_new() over time"
#define ls_lstm_new(...) LS_MISSING_(LS_NO_RECURRENCE_)
#define ls_gru_new(...) LS_MISSING_(LS_NO_RECURRENCE_)
#define ls_rnn_new(...) LS_MISSING_(LS_NO_RECURRENCE_)

/* torch.autograd.grad(..., create_graph=True) */
#define ls_autograd_grad(...)                                                                                          \
    LS_MISSING_("Lockstep has no gradients of gradients yet: what ls_grad() returns has no history; write the "        \
                "derivative with operators")
#endif

#endif
