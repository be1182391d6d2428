/* precision_program.c FOLDER MODEL PRECISION - what precision_torch.py compares with PyTorch: run a model on
 * FOLDER/inputs.safetensors and write its results and gradients to FOLDER/outputs.safetensors. MODEL: bert (for
 * answers, in evaluation mode) or the name of a residual network (in training mode), with the weights of the folder.
 * PRECISION: f32, bf16 or f16. LOCKSTEP_DEVICE chooses the device. */
#include <lockstep.h>

#include <stdio.h>
#include <string.h>

/* Gradients of f16 are too small to be written without; the other side does the same. */
#define LOSS_SCALE 1024

typedef struct outcome {
    ls_tensor *results, *loss;
} outcome;

static outcome run_bert(ls_module *model, const ls_state *inputs)
{
    ls_outputs out = ls_forward_all(model, ls_state_find(inputs, "input_ids"), ls_state_find(inputs, "attention_mask"));
    ls_tensor *starts = ls_cast(out.item[0], LS_F32), *ends = ls_cast(out.item[1], LS_F32);
    return (outcome){ls_stack(0, starts, ends),
                     ls_bert_span_loss(starts, ends, ls_state_find(inputs, "start_positions"),
                                       ls_state_find(inputs, "end_positions"))};
}

static outcome run_resnet(ls_module *model, const ls_state *inputs)
{
    ls_tensor *logits = ls_cast(ls_forward(model, ls_channels_last(ls_state_find(inputs, "images"))), LS_F32);
    return (outcome){logits, ls_cross_entropy(logits, ls_state_find(inputs, "labels"))};
}

static ls_module *resnet_of(ls_run *run, const char *folder, const char *name, int64_t classes)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    ls_module *model = ls_resnet_new(run, name, .classes = classes);
    ls_load_model(run, model, path);
    return model;
}

static ls_dtype type_named(const char *name)
{
    return strcmp(name, "bf16") == 0 ? LS_BF16 : strcmp(name, "f16") == 0 ? LS_F16 : LS_F32;
}

int main(int argc, char **argv)
{
    if (argc != 4) return 2;
    ls_run *run = ls_init(NULL, NULL);
    const char *folder = argv[1];
    char path[4096];
    snprintf(path, sizeof path, "%s/inputs.safetensors", folder);
    ls_state *inputs = ls_state_read(run, path), *outputs = ls_state_new(run);
    bool bert = strcmp(argv[2], "bert") == 0;
    ls_module *model = bert ? ls_bert_for_question_answering_new(run, folder) : resnet_of(run, folder, argv[2], 10);
    if (bert) ls_eval(model);
    ls_autocast_begin(run, type_named(argv[3]));
    outcome o = (bert ? run_bert : run_resnet)(model, inputs);
    ls_autocast_end(run);
    ls_backward(run, ls_mul_scalar(o.loss, LOSS_SCALE));
    ls_state_add(outputs, "results", ls_contiguous(o.results));
    ls_state *parameters = ls_parameters(model);
    for (int64_t i = 0; i < ls_state_count(parameters); i++) {
        ls_tensor *gradient = ls_grad(ls_state_tensor(parameters, i));
        if (gradient) ls_state_add(outputs, ls_state_name(parameters, i), ls_contiguous(gradient));
    }
    snprintf(path, sizeof path, "%s/outputs.safetensors", folder);
    ls_state_write(outputs, path);
    return ls_finish(run);
}
