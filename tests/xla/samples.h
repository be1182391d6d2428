/* samples.h - what the networks of these tests learn: samples of 8 numbers, each with one of 4 labels. */
#ifndef LOCKSTEP_TESTS_XLA_SAMPLES_H
#define LOCKSTEP_TESTS_XLA_SAMPLES_H

#include <lockstep.h>

#include <math.h>

enum { MOST_SAMPLES = 128, SAMPLE_SIZE = 8, LABELS = 4 };

/* The first `count` of them, in their order. */
static inline ls_loader *sample_loader(ls_run *run, int count, int batch)
{
    float x[MOST_SAMPLES * SAMPLE_SIZE];
    int64_t label[MOST_SAMPLES];
    for (int i = 0; i < count * SAMPLE_SIZE; i++) x[i] = sinf((float)(i * i % 97));
    for (int i = 0; i < count; i++) label[i] = i * 7 % LABELS;
    ls_dataset *data = ls_tensor_dataset_new(run, ls_from(run, LS_F32, LS_SHAPE(count, SAMPLE_SIZE), x),
                                             ls_from(run, LS_I64, LS_SHAPE(count), label));
    return ls_loader_new(run, data, .batch = batch);
}

#endif
