/* bert_program.c FOLDER TASK [train] - what bert_transformers.py and bert_training.py compare with Transformers: run
 * the model of a folder on FOLDER/inputs.safetensors, write its results and gradients to FOLDER/outputs.safetensors and
 * save it to FOLDER/saved. Or train it, one step for each batch, by one process or several, and write the losses.
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

static ls_outputs forward(ls_module *model, const ls_state *inputs)
{
    return ls_forward_all(model, ls_state_find(inputs, "input_ids"), ls_state_find(inputs, "attention_mask"),
                          ls_state_find(inputs, "token_type_ids"));
}

static void compare_once(ls_run *run, ls_module *model, const char *task, const ls_state *inputs, ls_state *outputs)
{
    ls_outputs out = forward(model, inputs);
    ls_tensor *loss = loss_of(model, task, out, inputs);
    ls_backward(run, loss);
    ls_state_add(outputs, "logits", ls_contiguous(out.item[0]));
    ls_state_add(outputs, "loss", loss);
    ls_state *parameters = ls_parameters(model);
    for (int64_t i = 0; i < ls_state_count(parameters); i++) {
        ls_tensor *gradient = ls_grad(ls_state_tensor(parameters, i));
        if (gradient) ls_state_add(outputs, ls_state_name(parameters, i), gradient);
    }
}

/* Of inputs [steps,batch,...], the part of a batch that is this process's. */
static ls_state *own_part(ls_run *run, const ls_state *inputs, int64_t step)
{
    ls_state *part = ls_state_new(run);
    for (int64_t i = 0; i < ls_state_count(inputs); i++) {
        ls_tensor *all = ls_select(ls_state_tensor(inputs, i), 0, step);
        int64_t own = ls_dim(all, 0) / ls_world_size(run), begin = own * ls_rank(run);
        ls_state_add(part, ls_state_name(inputs, i), ls_slice(all, 0, begin, begin + own, 1));
    }
    return part;
}

static void train(ls_run *run, ls_module *model, const char *task, const ls_state *inputs, ls_state *outputs)
{
    int64_t steps = ls_dim(ls_state_find(inputs, "input_ids"), 0);
    ls_tensor *losses = ls_zeros(run, LS_F32, steps);
    ls_optim *adamw = ls_adamw_new(run, model, .lr = 2e-5);
    ls_prepare(run, model, adamw);
    for (int64_t step = 0; step < steps && !ls_error(run); step++) {
        ls_mark mark = ls_scope_begin(run);
        ls_state *batch = own_part(run, inputs, step);
        ls_tensor *loss = loss_of(model, task, forward(model, batch), batch);
        ls_backward(run, loss);
        ls_step(adamw);
        ls_zero_grad(adamw);
        ls_assign(ls_select(losses, 0, step), ls_reduce(run, loss, LS_REDUCE_MEAN));
        ls_scope_end(run, mark, NULL);
    }
    ls_state_add(outputs, "losses", losses);
}

int main(int argc, char **argv)
{
    ls_run *run = ls_init(NULL, NULL);
    if (argc != 3 && argc != 4) return 2;
    const char *folder = argv[1], *task = argv[2];
    char path[4096];
    snprintf(path, sizeof path, "%s/inputs.safetensors", folder);
    ls_state *inputs = ls_state_read(run, path), *outputs = ls_state_new(run);
    ls_module *model = model_of(run, folder, task);
    ls_eval(model);
    (argc == 4 ? train : compare_once)(run, model, task, inputs, outputs);
    snprintf(path, sizeof path, "%s/outputs.safetensors", folder);
    if (ls_is_main(run)) ls_state_write(outputs, path);
    snprintf(path, sizeof path, "%s/saved", folder);
    ls_save_model(run, model, path);
    return ls_finish(run);
}
