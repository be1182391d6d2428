/* bert_program.c FOLDER TASK - what bert_transformers.py compares with Transformers: run the model of a folder on
 * FOLDER/inputs.safetensors, write its results and gradients to FOLDER/outputs.safetensors and save it to FOLDER/saved.
 * TASK: encoder, classes, answers or words. */
#include <lockstep.h>

#include <stdio.h>
#include <string.h>

static ls_module *model_of(ls_run *run, const char *folder, const char *task)
{
    if (strcmp(task, "encoder") == 0) return ls_bert_new(run, folder);
    if (strcmp(task, "classes") == 0) return ls_bert_for_sequence_classification_new(run, folder);
    if (strcmp(task, "answers") == 0) return ls_bert_for_question_answering_new(run, folder);
    return ls_bert_for_masked_lm_new(run, folder);
}

static ls_tensor *loss_of(ls_module *model, const char *task, ls_outputs out, const ls_state *inputs)
{
    ls_tensor *labels = ls_state_find(inputs, "labels");
    if (strcmp(task, "encoder") == 0) return ls_mean(ls_square(out.item[0]));
    if (strcmp(task, "classes") == 0) return ls_bert_classification_loss(model, out.item[0], labels);
    if (strcmp(task, "words") == 0) return ls_bert_masked_lm_loss(out.item[0], labels);
    return ls_bert_span_loss(out.item[0], out.item[1], ls_state_find(inputs, "start_positions"),
                             ls_state_find(inputs, "end_positions"));
}

int main(int argc, char **argv)
{
    ls_run *run = ls_init(NULL, NULL);
    if (argc != 3) return 2;
    const char *folder = argv[1], *task = argv[2];
    char path[4096];
    snprintf(path, sizeof path, "%s/inputs.safetensors", folder);
    ls_state *inputs = ls_state_read(run, path), *outputs = ls_state_new(run);
    ls_module *model = model_of(run, folder, task);
    ls_eval(model);
    ls_outputs out = ls_forward_all(model, ls_state_find(inputs, "input_ids"), ls_state_find(inputs, "attention_mask"),
                                    ls_state_find(inputs, "token_type_ids"));
    ls_tensor *loss = loss_of(model, task, out, inputs);
    ls_backward(run, loss);
    ls_state_add(outputs, "logits", ls_contiguous(out.item[0]));
    ls_state_add(outputs, "loss", loss);
    ls_state *parameters = ls_parameters(model);
    for (int64_t i = 0; i < ls_state_count(parameters); i++) {
        ls_tensor *gradient = ls_grad(ls_state_tensor(parameters, i));
        if (gradient) ls_state_add(outputs, ls_state_name(parameters, i), gradient);
    }
    snprintf(path, sizeof path, "%s/outputs.safetensors", folder);
    ls_state_write(outputs, path);
    snprintf(path, sizeof path, "%s/saved", folder);
    ls_save_model(run, model, path);
    return ls_finish(run);
}
