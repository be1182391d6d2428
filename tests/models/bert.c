/* bert.c - BERT and its relatives: numbers of a reference model, files, errors. tests/golden/bert.c compares whole
 * trainings with those of Transformers. */
#define FOLDER "bert_models"
#include "models/bert_tiny.h"

#include "base/capture.h"
#include "base/memory.h"
#include "tensor/context.h"

#include <unistd.h>

/* ---- the reference ---- */

#define REFERENCE "checkpoints/generated_bert_ref"

/* The folder of the reference; "" where it is not there, and the test counts as skipped. */
typedef struct folder_name {
    char text[1024];
} folder_name;

static folder_name reference(void)
{
    folder_name name = {""};
    const char *config = check_data(REFERENCE "/config.json");
    if (config) snprintf(name.text, sizeof name.text, "%.*s", (int)(strlen(config) - strlen("/config.json")), config);
    return name;
}

static ls_state *read_part(ls_run *run, const folder_name *from, const char *name)
{
    char path[1100];
    snprintf(path, sizeof path, "%s/%s.safetensors", from->text, name);
    return ls_state_read(run, path);
}

static void compare_gradients(ls_module *model, const ls_state *wanted)
{
    ls_state *parameters = ls_parameters(model);
    int64_t compared = 0;
    for (int64_t i = 0; i < ls_state_count(parameters); i++) {
        const char *name = ls_state_name(parameters, i);
        ls_tensor *want = ls_state_find(wanted, name), *got = ls_grad(ls_state_tensor(parameters, i));
        CHECK_MSG(want && got, "%s has no gradient", name);
        if (!want || !got) continue;
        compared++;
        if (strstr(name, "word_embeddings")) { /* here, as in Transformers, padding has no gradient */
            CHECK(largest(ls_select(got, 0, 0)) == 0);
            want = ls_slice(want, 0, 1, INT64_MAX, 1), got = ls_slice(got, 0, 1, INT64_MAX, 1);
        }
        double error = ls_item(ls_norm(ls_sub(got, want))), norm = ls_item(ls_norm(want));
        /* Softmax does not see what is added to every score: gradients of such biases are rounding. */
        CHECK_MSG(error <= 1e-5 * norm + 1e-6, "gradient of %s, %g, differs by %g", name, norm, error);
    }
    CHECK(compared == ls_state_count(wanted));
}

static void classification_is_that_of_the_reference(void)
{
    folder_name from = reference();
    if (!from.text[0]) return;
    ls_run *run = ls_init(NULL, NULL);
    ls_module *model = ls_bert_for_sequence_classification_new(run, from.text);
    check_ok(run);
    ls_state *io = read_part(run, &from, "io");
    ls_tensor *ids = ls_state_find(io, "input_ids"), *mask = ls_state_find(io, "attention_mask");
    ls_tensor *types = ls_state_find(io, "token_type_ids");

    ls_outputs hidden = ls_forward_all(ls_child(model, "bert"), ids, mask, types);
    CHECK_NEAR(difference(hidden.item[0], ls_state_find(io, "last_hidden_state")), 0, 1e-5);
    CHECK_NEAR(difference(hidden.item[1], ls_state_find(io, "pooler_output")), 0, 1e-5);
    ls_tensor *embedded = ls_forward(ls_child(model, "bert.embeddings"), ids, types);
    CHECK_NEAR(difference(embedded, ls_state_find(io, "embedding_output")), 0, 1e-5);

    ls_tensor *logits = ls_forward(model, ids, mask, types);
    CHECK_NEAR(difference(logits, ls_state_find(io, "logits")), 0, 1e-5);
    ls_tensor *loss = ls_bert_classification_loss(model, logits, ls_state_find(io, "labels"));
    CHECK_NEAR(ls_item(loss), ls_item(ls_reshape_shape(ls_state_find(io, "loss"), LS_SCALAR)), 1e-6);
    ls_backward(run, loss);
    compare_gradients(model, read_part(run, &from, "grads_cls"));
    check_ok(run);
    ls_finish(run);
}

static void answers_are_those_of_the_reference(void)
{
    folder_name from = reference();
    if (!from.text[0]) return;
    ls_run *run = ls_init(NULL, NULL);
    ls_module *model = ls_bert_for_question_answering_new(run, from.text);
    check_ok(run);
    ls_state *io = read_part(run, &from, "io");
    ls_outputs out = ls_forward_all(model, ls_state_find(io, "input_ids"), ls_state_find(io, "attention_mask"),
                                    ls_state_find(io, "token_type_ids"));
    ls_tensor *want = ls_state_find(io, "qa_logits");
    CHECK_NEAR(difference(out.item[0], ls_select(want, 2, 0)), 0, 1e-5);
    CHECK_NEAR(difference(out.item[1], ls_select(want, 2, 1)), 0, 1e-5);
    ls_tensor *loss = ls_bert_span_loss(out.item[0], out.item[1], ls_state_find(io, "start_positions"),
                                        ls_state_find(io, "end_positions"));
    CHECK_NEAR(ls_item(loss), ls_item(ls_reshape_shape(ls_state_find(io, "qa_loss"), LS_SCALAR)), 1e-6);
    ls_backward(run, loss);
    compare_gradients(model, read_part(run, &from, "grads_qa"));
    check_ok(run);
    ls_finish(run);
}

/* ---- files ---- */

static void a_saved_model_comes_back(void)
{
    folder_fresh(folder);
    ls_run *run = ls_init(NULL, NULL, .seed = 1);
    ls_module *old = ls_bert_for_sequence_classification_new(run, TINY, .num_labels = 3, .hidden_act = "gelu_new",
                                                             .hidden_dropout_prob = 0.25, .layer_norm_eps = 1e-5);
    CHECK(ls_save_model(run, old, folder));
    char *text = file_text("bert_models/config.json", NULL);
    CHECK_MSG(text && strstr(text, "\"BertForSequenceClassification\"") && strstr(text, "\"model_type\": \"bert\"") &&
                  strstr(text, "\"hidden_dropout_prob\": 0.25") && strstr(text, "\"2\": \"LABEL_2\"") &&
                  strstr(text, "\"LABEL_1\": 1") && strstr(text, "\"hidden_act\": \"gelu_new\""),
              "%s", text);
    free(text);
    ls_module *copy = ls_bert_for_sequence_classification_new(run, folder);
    check_ok(run);
    ls_eval(old);
    ls_eval(copy);
    ls_tensor *ids = integers(run, LS_SHAPE(1, 4), (int64_t[]){2, 7, 49, 3});
    CHECK(difference(ls_forward(old, ids), ls_forward(copy, ids)) == 0 && ls_dim(ls_forward(copy, ids), 1) == 3);

    /* the head of another task, and of other labels, starts fresh */
    ls_module *answers = ls_bert_for_question_answering_new(run, folder);
    CHECK(same(ls_child(old, "bert"), ls_child(answers, "bert"), "encoder.layer.1.output.dense.weight"));
    CHECK(largest(ls_module_tensor(answers, "qa_outputs.weight")) > 0);
    CHECK(largest(ls_module_tensor(answers, "qa_outputs.weight")) < 0.02 * 6);
    ls_module *seven = ls_bert_for_sequence_classification_new(run, folder, .num_labels = 7);
    CHECK(same(old, seven, "bert.pooler.dense.bias") && ls_dim(ls_module_tensor(seven, "classifier.weight"), 0) == 7);
    check_ok(run);

    CHECK(ls_bert_new(run, folder, .intermediate_size = 32) == NULL);
    check_error(run, LS_ERR_SHAPE, "bert_models: ls_load_state_dict: encoder.layer.0.intermediate.dense.weight");
    /* Transformers makes the head for answers of num_labels */
    CHECK(ls_save_model(run, answers, folder));
    text = file_text("bert_models/config.json", NULL);
    CHECK_MSG(text && strstr(text, "\"LABEL_1\": 1") && !strstr(text, "LABEL_2"), "%s", text);
    free(text);
    folder_remove(folder);
    ls_finish(run);
}

/* As the first releases of Transformers wrote them: an encoder without prefix, norms with gamma and beta, buffers. */
static void files_of_old_load(void)
{
    folder_fresh(folder);
    ls_run *run = ls_init(NULL, NULL, .seed = 2);
    ls_module *old = ls_bert_new(run, TINY);
    ls_init_normal(ls_module_tensor(old, "embeddings.LayerNorm.weight"), 1, 0.1);
    ls_init_normal(ls_module_tensor(old, "encoder.layer.1.output.LayerNorm.bias"), 0, 0.1);
    CHECK(ls_save_model(run, old, folder));
    ls_state *state = ls_state_dict(old), *renamed = ls_state_new(run);
    for (int64_t i = 0; i < ls_state_count(state); i++) {
        char name[256];
        snprintf(name, sizeof name, "%s", ls_state_name(state, i));
        char *norm = strstr(name, "LayerNorm.");
        if (norm) strcpy(norm, strstr(norm, "weight") ? "LayerNorm.gamma" : "LayerNorm.beta");
        ls_state_add(renamed, name, ls_state_tensor(state, i));
    }
    ls_state_add(renamed, "embeddings.position_ids", ls_arange(run, LS_I64, 12, 0, 1));
    CHECK(ls_state_write(renamed, "bert_models/model.safetensors"));
    ls_module *model = ls_bert_for_question_answering_new(run, folder);
    check_ok(run);
    CHECK(same(old, ls_child(model, "bert"), "embeddings.LayerNorm.weight"));
    CHECK(same(old, ls_child(model, "bert"), "encoder.layer.1.output.LayerNorm.bias"));

    /* and the other way: an encoder from a model with a head */
    CHECK(ls_save_model(run, model, folder));
    ls_module *alone = ls_bert_new(run, folder);
    check_ok(run);
    CHECK(same(old, alone, "encoder.layer.0.attention.self.key.weight"));

    CHECK(ls_state_write(ls_state_without(ls_state_dict(model), "*.layer.1.output.dense.*"),
                         "bert_models/model.safetensors"));
    CHECK(ls_bert_new(run, folder) == NULL);
    check_error(run, LS_ERR_VALUE, "missing encoder.layer.1.output.dense.weight, encoder.layer.1.output.dense.bias");
    folder_remove(folder);
    ls_finish(run);
}

#define WEIGHTS "bert_models/model.safetensors"

/* A second name for a tensor is fine as long as it holds the same. */
static void names_of_one_tensor_must_agree(void)
{
    static const char words[] = "bert.embeddings.word_embeddings.weight", decoder[] = "cls.predictions.decoder.weight";
    folder_fresh(folder);
    ls_run *run = ls_init(NULL, NULL, .seed = 6);
    ls_module *model = ls_bert_for_masked_lm_new(run, TINY);
    CHECK(ls_save_model(run, model, folder));
    ls_state *state = ls_state_read(run, WEIGHTS);
    ls_state_add(state, decoder, ls_module_tensor(model, words));
    ls_state_add(state, "cls.predictions.decoder.bias", ls_module_tensor(model, "cls.predictions.bias"));
    CHECK(ls_state_write(state, WEIGHTS));
    CHECK(same(model, ls_bert_for_masked_lm_new(run, folder), words));
    check_ok(run);

    ls_state *other = ls_state_without(state, decoder);
    ls_state_add(other, decoder, ls_mul_scalar(ls_module_tensor(model, words), 10));
    CHECK(ls_state_write(other, WEIGHTS));
    CHECK(ls_bert_for_masked_lm_new(run, folder) == NULL);
    check_error(run, LS_ERR_VALUE, "are one tensor in BertForMaskedLM");
    CHECK(ls_bert_for_masked_lm_new(run, folder) == NULL);
    CHECK(strstr(ls_error_message(run), words));
    check_error(run, LS_ERR_VALUE, decoder);
    CHECK(ls_bert_new(run, folder) != NULL); /* it has one of them */
    check_ok(run);

    other = ls_state_without(state, "cls.predictions.decoder.bias");
    ls_state_add(other, "cls.predictions.decoder.bias", ls_ones(run, LS_F32, 50));
    CHECK(ls_state_write(other, WEIGHTS));
    CHECK(ls_bert_for_masked_lm_new(run, folder) == NULL);
    CHECK(strstr(ls_error_message(run), "cls.predictions.bias"));
    check_error(run, LS_ERR_VALUE, "cls.predictions.decoder.bias");

    ls_state_add(state, "bert.embeddings.LayerNorm.gamma", ls_zeros(run, LS_F32, 16));
    CHECK(ls_state_write(state, WEIGHTS));
    CHECK(ls_bert_new(run, folder) == NULL);
    CHECK(strstr(ls_error_message(run), "bert.embeddings.LayerNorm.weight"));
    check_error(run, LS_ERR_VALUE, "bert.embeddings.LayerNorm.gamma");
    folder_remove(folder);
    ls_finish(run);
}

static void no_part_of_an_encoder_is_left_out(void)
{
    folder_fresh(folder);
    ls_run *run = ls_init(NULL, NULL, .seed = 7);
    ls_module *model = ls_bert_for_sequence_classification_new(run, TINY);
    CHECK(ls_save_model(run, model, folder));
    CHECK(ls_bert_for_question_answering_new(run, folder) != NULL); /* without pooler and classifier */
    check_ok(run);
    CHECK(ls_bert_for_sequence_classification_new(run, folder, .num_hidden_layers = 1) == NULL);
    check_error(run, LS_ERR_VALUE, "bert_models has bert.encoder.layer.1.attention.output.LayerNorm.bias and 15 more");
    CHECK(ls_bert_new(run, folder, .type_vocab_size = 0) == NULL);
    check_error(run, LS_ERR_VALUE,
                "bert_models has bert.embeddings.token_type_embeddings.weight, but this BertModel has no such tensor");

    CHECK(ls_save_model(run, ls_bert_new(run, TINY), folder)); /* names without prefix */
    CHECK(ls_bert_for_question_answering_new(run, folder, .num_hidden_layers = 1) == NULL);
    check_error(run, LS_ERR_VALUE, "bert_models has encoder.layer.1.attention.output.LayerNorm.bias");
    folder_remove(folder);
    ls_finish(run);
}

static void a_model_that_fails_to_load_is_freed(void)
{
    folder_fresh(folder);
    ls_run *run = ls_init(NULL, NULL);
    CHECK(ls_save_model(run, ls_bert_new(run, TINY), folder));
    size_t before = ls_memory(run).in_use;
    CHECK(ls_bert_new(run, folder, .vocab_size = 100000) == NULL);
    check_error(run, LS_ERR_SHAPE, "embeddings.word_embeddings.weight");
    CHECK_MSG(ls_memory(run).in_use <= before, "%zu bytes are left of it", ls_memory(run).in_use - before);
    folder_remove(folder);
    ls_finish(run);
}

static void a_file_of_weights_is_no_folder(void)
{
    ls_run *run = ls_init(NULL, NULL);
    CHECK(ls_bert_for_question_answering_new(run, "q/model.safetensors") == NULL);
    check_error(run, LS_ERR_VALUE,
                "ls_bert_for_question_answering_new: q/model.safetensors is a file of weights; give the folder it is "
                "in, which has config.json");
    CHECK(ls_bert_for_masked_lm_new(run, "q/pytorch_model.bin") == NULL);
    check_error(run, LS_ERR_VALUE, "ls_bert_for_masked_lm_new: q/pytorch_model.bin is a file of weights");
    ls_finish(run);
}

/* ---- inputs ---- */

static int64_t last_word;
static bool gives_lengths;

static int two_passes(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_module *model = ls_bert_for_sequence_classification_new(run, TINY);
    ls_tensor *ids = integers(run, LS_SHAPE(1, 3), (int64_t[]){1, 2, last_word});
    for (int i = 0; i < 2; i++)
        ls_forward(model, ids, gives_lengths ? integers(run, LS_SHAPE(1), (int64_t[]){2}) : NULL);
    return ls_finish(run);
}

static void padding_without_a_mask_is_named_once(void)
{
    char text[2048];
    last_word = 0;
    CHECK(run_captured(NULL, two_passes, text, sizeof text) == 0);
    CHECK_TEXT(text, "lockstep: warning: BertModel: input_ids contain pad_token_id 0, but there is no mask, so words "
                     "attend to padding; pass attention_mask, or lengths, as the second input\n");
    gives_lengths = true;
    CHECK(run_captured(NULL, two_passes, text, sizeof text) == 0);
    CHECK_TEXT(text, "");
    gives_lengths = false;
    last_word = 3;
    CHECK(run_captured(NULL, two_passes, text, sizeof text) == 0);
    CHECK_TEXT(text, "");
}

static void wrong_inputs_are_named(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_module *model = ls_bert_for_sequence_classification_new(run, TINY);
    ls_forward(model, integers(run, LS_SHAPE(2, 3), (int64_t[]){1, 2, 3, 4, 50, 6}));
    check_error(run, LS_ERR_VALUE,
                "table 0: index 50 at position 4 is out of range for 50 rows; tables of BertEmbeddings: 0 by input_ids "
                "(vocab_size), 1 by position (max_position_embeddings), 2 by token_type_ids (type_vocab_size)");
    ls_forward(model, ls_zeros(run, LS_I64, 2, 13));
    check_error(run, LS_ERR_SHAPE, "sequences of 13 tokens; the model's max_position_embeddings allows 12");
    ls_forward(model, ls_zeros(run, LS_I64, 12));
    check_error(run, LS_ERR_SHAPE, "input_ids is [12] i64; expected [batch,length]");
    ls_forward(model, ls_zeros(run, LS_I64, 2, 5), ls_ones(run, LS_I64, 2, 4));
    check_error(run, LS_ERR_SHAPE, "the second input is [2,4] i64; expected a mask [2,5] or lengths [2]");
    ls_bert_classification_loss(ls_child(model, "bert"), ls_zeros(run, LS_F32, 1, 2), ls_zeros(run, LS_I64, 1));
    check_error(run, LS_ERR_VALUE, "BertModel is not a model for sequence classification");
    ls_finish(run);
}

/* Where sequences are filled up at their ends, masks and lengths are the same to every word. */
static void lengths_are_as_good_as_masks(void)
{
    ls_run *run = ls_init(NULL, NULL, .seed = 3);
    ls_module *model = ls_bert_for_sequence_classification_new(run, TINY);
    ls_eval(model);
    ls_tensor *ids = integers(run, LS_SHAPE(2, 4), (int64_t[]){5, 6, 7, 8, 9, 10, 0, 0});
    ls_tensor *mask = integers(run, LS_SHAPE(2, 4), (int64_t[]){1, 1, 1, 1, 1, 1, 0, 0});
    ls_tensor *lengths = integers(run, LS_SHAPE(2), (int64_t[]){4, 2});
    ls_tensor *types = integers(run, LS_SHAPE(2, 4), (int64_t[]){0, 0, 0, 0, 0, 0, 0, 0});
    ls_tensor *logits = ls_forward(model, ids, mask);
    CHECK(difference(logits, ls_forward(model, ids, lengths)) < 1e-6);
    CHECK(difference(logits, ls_forward(model, ids, ls_cast(mask, LS_BOOL), ls_cast(types, LS_I8))) < 1e-6);
    CHECK(difference(logits, ls_forward(model, ls_cast(ids, LS_I32), ls_cast(mask, LS_I8))) < 1e-6);
    CHECK(difference(logits, ls_forward(model, ids, ls_sum_dim(ls_cast(mask, LS_I8), 1, false))) < 1e-6);
    CHECK(difference(logits, ls_forward(model, ids)) > 1e-6); /* padding counts */
    ls_tensor *short_ids = ls_slice(ls_slice(ids, 0, 1, 2, 1), 1, 0, 2, 1);
    CHECK(difference(ls_slice(logits, 0, 1, 2, 1), ls_forward(model, short_ids, NULL, NULL)) < 1e-6);

    ls_module *answers = ls_bert_for_question_answering_new(run, TINY);
    ls_outputs out = ls_forward_all(answers, ids, lengths);
    CHECK(ls_item(ls_select(ls_select(out.item[0], 0, 1), 0, 2)) == -1e4);
    CHECK(ls_item(ls_select(ls_select(out.item[1], 0, 0), 0, 3)) > -1e3);
    check_ok(run);
    ls_finish(run);
}

/* A classifier sees that a mask only cuts off the ends of sequences, and computes nothing there: words that do not
 * exist are not even looked up. */
static void a_classifier_leaves_out_what_its_mask_cuts_off(void)
{
    ls_run *run = ls_init(NULL, NULL, .seed = 3);
    ls_module *model = ls_bert_for_sequence_classification_new(run, TINY, .unpad = true);
    ls_eval(model);
    int64_t none = 1 << 20;
    ls_tensor *ids = integers(run, LS_SHAPE(2, 4), (int64_t[]){5, 6, 7, 8, 9, 10, none, none});
    ls_tensor *lengths = integers(run, LS_SHAPE(2), (int64_t[]){4, 2}), *types = ls_zeros(run, LS_I64, 2, 4);
    ls_tensor *mask = integers(run, LS_SHAPE(2, 4), (int64_t[]){1, 1, 1, 1, 1, 1, 0, 0});
    ls_tensor *logits = ls_forward(model, ids, lengths);
    CHECK(difference(logits, ls_forward(model, ids, mask)) == 0);
    CHECK(difference(logits, ls_forward(model, ids, ls_cast(mask, LS_F32), types)) == 0);
    CHECK(difference(logits, ls_forward(model, ids, ls_cast(mask, LS_BOOL), NULL)) == 0);
    check_ok(run);

    ls_tensor *words = integers(run, LS_SHAPE(2, 4), (int64_t[]){5, 6, 7, 8, 9, 10, 0, 11});
    ls_tensor *hole = integers(run, LS_SHAPE(2, 4), (int64_t[]){1, 1, 1, 1, 1, 1, 0, 1});
    CHECK(difference(ls_forward(model, words, hole), ls_forward(model, words, lengths)) > 1e-6);
    ls_tensor *late = integers(run, LS_SHAPE(2, 4), (int64_t[]){1, 1, 1, 1, 0, 0, 1, 1}); /* padded at the beginning */
    CHECK(difference(ls_forward(model, words, late), ls_forward(model, words, lengths)) > 1e-6);
    check_ok(run);
    ls_forward(model, ids, ls_ones(run, LS_I64, 2, 5));
    check_error(run, LS_ERR_SHAPE, "the second input is [2,5] i64; expected a mask [2,4] or lengths [2]");
    ls_finish(run);
}

/* Padding that is left out changes neither results nor gradients, of any kind of position, mask and type. */
static void words_alone_are_enough(void)
{
    static const char *const kinds[] = {"bert", "roberta"};
    ls_run *run = ls_init(NULL, NULL, .seed = 5);
    folder_fresh(folder);
    for (int k = 0; k < 2; k++) {
        char config[400];
        snprintf(config, sizeof config, "{\"model_type\": \"%s\", %s}", kinds[k], SIZES_OF_TINY);
        write_config(config);
        ls_module *padded = ls_bert_for_question_answering_new(run, "bert_models/config.json");
        CHECK(ls_save_model(run, padded, folder));
        ls_module *packed = ls_bert_for_question_answering_new(run, folder, .unpad = true);
        ls_eval(padded);
        ls_eval(packed);
        int64_t fill = k; /* roberta's padding is word 1 */
        ls_tensor *ids = integers(run, LS_SHAPE(3, 4), (int64_t[]){5, 6, 7, 8, 9, 10, fill, fill, 3, 4, 2, fill});
        ls_tensor *types = integers(run, LS_SHAPE(3, 4), (int64_t[]){0, 0, 1, 1, 0, 1, 0, 0, 0, 0, 1, 0});
        ls_tensor *starts = integers(run, LS_SHAPE(3), (int64_t[]){3, 1, 0}), *lengths;
        lengths = integers(run, LS_SHAPE(3), (int64_t[]){4, 2, 3});
        double loss[2], gradient[2];
        for (int i = 0; i < 2; i++) {
            ls_outputs out = ls_forward_all(i ? packed : padded, ids, lengths, types);
            ls_tensor *l = ls_bert_span_loss(out.item[0], out.item[1], starts, starts);
            ls_backward(run, l);
            loss[i] = ls_item(l);
        }
        CHECK_NEAR(loss[1], loss[0], 1e-5);
        ls_state *wanted = ls_parameters(padded), *got = ls_parameters(packed);
        for (int64_t i = 0; i < ls_state_count(wanted); i++) {
            gradient[0] = ls_item(ls_norm(ls_grad(ls_state_tensor(wanted, i))));
            gradient[1] = difference(ls_grad(ls_state_tensor(got, i)), ls_grad(ls_state_tensor(wanted, i)));
            CHECK_MSG(gradient[1] <= 1e-5 * gradient[0] + 1e-7, "%s: %g, differs by %g", ls_state_name(wanted, i),
                      gradient[0], gradient[1]);
        }
        check_ok(run);
        ls_tensor *hidden = ls_forward_all(ls_child(packed, kinds[k]), ids, lengths, types).item[0];
        CHECK(largest(ls_select(ls_select(hidden, 0, 1), 0, 3)) == 0);
        ls_forward_all(packed, ids, integers(run, LS_SHAPE(3), (int64_t[]){4, 5, 3}));
        check_error(run, LS_ERR_VALUE, "length 5 of sequence 1 is not between 0 and 4");
        ls_forward_all(packed, ids, integers(run, LS_SHAPE(3), (int64_t[]){4, 4, 4}));
        check_ok(run);
        ls_forward_all(padded, ls_full(run, LS_I64, 5, 1, k ? 10 : 12)); /* roberta counts from padding + 1 */
        check_ok(run);
        ls_forward_all(padded, ls_full(run, LS_I64, 5, 1, k ? 11 : 13));
        check_error(run, LS_ERR_SHAPE, k ? "allows 10" : "allows 12");
    }
    folder_remove(folder);
    ls_finish(run);
}

/* RoBERTa does not count its padding, wherever that stands. */
static void padding_among_words_has_no_position(void)
{
    ls_run *run = ls_init(NULL, NULL, .seed = 8);
    folder_fresh(folder);
    write_config("{\"model_type\": \"roberta\", \"initializer_range\": 0.5, " SIZES_OF_TINY "}");
    ls_module *padded = ls_bert_new(run, "bert_models/config.json");
    CHECK(ls_save_model(run, padded, folder));
    ls_module *packed = ls_bert_new(run, folder, .unpad = true);
    ls_eval(padded);
    ls_eval(packed);
    ls_tensor *ids = integers(run, LS_SHAPE(2, 4), (int64_t[]){5, 1, 7, 9, 5, 6, 1, 1});
    ls_tensor *lengths = integers(run, LS_SHAPE(2), (int64_t[]){4, 2});
    ls_tensor *wanted = ls_forward_all(padded, ids, lengths).item[0],
              *got = ls_forward_all(packed, ids, lengths).item[0];
    CHECK(difference(ls_select(wanted, 0, 0), ls_select(got, 0, 0)) < 1e-5);
    check_ok(run);
    folder_remove(folder);
    ls_finish(run);
}

/* ---- losses ---- */

static void problems_have_their_losses(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_module *classes = ls_bert_for_sequence_classification_new(run, TINY);
    ls_module *number = ls_bert_for_sequence_classification_new(run, TINY, .num_labels = 1);
    ls_module *numbers = ls_bert_for_sequence_classification_new(run, TINY, .problem_type = LS_PROBLEM_REGRESSION);
    ls_tensor *logits = ls_from(run, LS_F32, LS_SHAPE(2, 2), (float[]){1, 2, 3, 5});
    ls_tensor *labels = integers(run, LS_SHAPE(2), (int64_t[]){1, 0});
    double want = (log(1 + exp(-1)) + log(1 + exp(2))) / 2;
    CHECK_NEAR(ls_item(ls_bert_classification_loss(classes, logits, labels)), want, 1e-6);
    ls_tensor *several = ls_from(run, LS_F32, LS_SHAPE(2, 2), (float[]){1, 0, 0, 1});
    want = (log(1 + exp(-1)) + log(1 + exp(2)) + log(1 + exp(3)) + log(1 + exp(-5))) / 4;
    CHECK_NEAR(ls_item(ls_bert_classification_loss(classes, logits, several)), want, 1e-6);
    CHECK_NEAR(ls_item(ls_bert_classification_loss(numbers, logits, several)), (0.0 + 4 + 9 + 16) / 4, 1e-6);
    ls_tensor *column = ls_slice(logits, 1, 0, 1, 1), *targets = ls_from(run, LS_F32, LS_SHAPE(2), (float[]){2, 0});
    CHECK_NEAR(ls_item(ls_bert_classification_loss(number, column, targets)), (1.0 + 9) / 2, 1e-6);
    check_ok(run);
    ls_finish(run);
}

static void positions_outside_do_not_count(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_tensor *logits = ls_from(run, LS_F32, LS_SHAPE(2, 2), (float[]){1, 2, 3, 5});
    ls_tensor *first = integers(run, LS_SHAPE(2), (int64_t[]){1, 9}),
              *second = integers(run, LS_SHAPE(2), (int64_t[]){-3, 1});
    double start = log(1 + exp(-1)), end = (log(1 + exp(1)) + log(1 + exp(-2))) / 2;
    CHECK_NEAR(ls_item(ls_bert_span_loss(logits, logits, first, second)), (start + end) / 2, 1e-6);
    check_ok(run);
    ls_finish(run);
}

/* ---- parameters ---- */

static double deviation(ls_tensor *t)
{
    return sqrt(ls_item(ls_var(t, 0)));
}

static void first_weights_are_those_of_transformers(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_module *model =
        ls_bert_for_masked_lm_new(run, NULL, .vocab_size = 500, .hidden_size = 64, .num_attention_heads = 4,
                                  .num_hidden_layers = 1, .intermediate_size = 128);
    CHECK_NEAR(deviation(ls_module_tensor(model, "bert.encoder.layer.0.attention.self.query.weight")), 0.02, 1e-3);
    CHECK_NEAR(deviation(ls_module_tensor(model, "bert.embeddings.position_embeddings.weight")), 0.02, 1e-3);
    CHECK(largest(ls_module_tensor(model, "bert.encoder.layer.0.output.dense.bias")) == 0);
    CHECK(ls_item(ls_min(ls_module_tensor(model, "bert.embeddings.LayerNorm.weight"))) == 1);
    ls_tensor *words = ls_module_tensor(model, "bert.embeddings.word_embeddings.weight");
    CHECK(largest(ls_select(words, 0, 0)) == 0 && largest(ls_select(words, 0, 1)) > 0);
    check_ok(run);
    ls_finish(run);
}

static void words_and_their_scores_share_weights(void)
{
    folder_fresh(folder);
    ls_run *run = ls_init(NULL, NULL);
    ls_module *model =
        ls_bert_for_masked_lm_new(run, TINY, .hidden_dropout_prob = 0, .attention_probs_dropout_prob = 0);
    CHECK(ls_module_tensor(model, "cls.predictions.decoder.weight") ==
          ls_module_tensor(model, "bert.embeddings.word_embeddings.weight"));
    CHECK(ls_module_tensor(model, "cls.predictions.decoder.bias") == ls_module_tensor(model, "cls.predictions.bias"));
    ls_init_normal(ls_module_tensor(model, "cls.predictions.bias"), 0, 1);
    ls_tensor *ids = integers(run, LS_SHAPE(1, 3), (int64_t[]){1, 2, 3});
    ls_tensor *labels = integers(run, LS_SHAPE(1, 3), (int64_t[]){-100, 7, -100});
    ls_tensor *logits = ls_forward(model, ids);
    CHECK(ls_dim(logits, 2) == 50);
    ls_tensor *loss = ls_bert_masked_lm_loss(logits, labels);
    double want = -ls_item(ls_select(ls_select(ls_log_softmax(ls_select(logits, 0, 0), 1), 0, 1), 0, 7));
    CHECK_NEAR(ls_item(loss), want, 1e-5);
    CHECK(ls_save_model(run, model, folder));
    ls_module *copy = ls_bert_for_masked_lm_new(run, folder);
    check_ok(run);
    CHECK(difference(ls_forward(copy, ids), logits) == 0);
    folder_remove(folder);
    ls_finish(run);
}

/* ---- what a layer costs ---- */

static ls_device_table cpu;
static int calls[LS_OP_COUNT];

static ls_status counted(void *device, ls_stream *stream, const ls_call *call, ls_message *why)
{
    calls[call->op]++;
    if (call->op == LS_OP_dropout) CHECK(call->out[0]->dtype == LS_BF16); /* of embeddings: half as many bytes */
    return cpu.run(device, stream, call, why);
}

/* Calls of a step in mixed precision, of a model with so many layers. */
static void count_step(int64_t layers, int counts[LS_OP_COUNT])
{
    ls_run *run = ls_init(NULL, NULL, .mixed_precision = LS_BF16);
    ls_module *model = ls_bert_for_question_answering_new(run, TINY, .num_hidden_layers = layers);
    ls_optim *adamw = ls_adamw_new(run, model, .lr = 1e-3);
    ls_prepare(run, model, adamw);
    cpu = run->device->table;
    run->device->table.run = counted;
    ls_tensor *starts = ls_zeros(run, LS_I64, 2), *lengths = ls_full(run, LS_I64, 5, 2);
    for (int step = 0; step < 2; step++) { /* the first one moves parameters */
        memset(calls, 0, sizeof calls);
        ls_outputs out = ls_forward_all(model, ls_ones(run, LS_I64, 2, 5), lengths);
        ls_backward(run, ls_bert_span_loss(out.item[0], out.item[1], starts, starts));
        ls_step(adamw);
        ls_zero_grad(adamw);
    }
    memcpy(counts, calls, sizeof calls);
    run->device->table = cpu;
    check_ok(run);
    ls_finish(run);
}

/* Six products, one attention, two norms that add and drop, and their gradients, of which those of the feed-forward
 * products are three: no copy, no conversion, no addition of gradients that meet. */
static void a_layer_is_nine_calls_and_ten_gradients(void)
{
    int one[LS_OP_COUNT], three[LS_OP_COUNT], total = 0;
    count_step(1, one);
    count_step(3, three);
    for (int op = 0; op < LS_OP_COUNT; op++) total += three[op] - one[op];
    CHECK(three[LS_OP_linear] - one[LS_OP_linear] == 12 && three[LS_OP_linear_grad] - one[LS_OP_linear_grad] == 14);
    CHECK(three[LS_OP_copy] == one[LS_OP_copy] && three[LS_OP_add] == one[LS_OP_add]);
    CHECK_MSG(total == 2 * 19, "%d calls of two layers", total);
}

/* ---- what a layer keeps ---- */

enum { SENTENCES = 2, LONG = 32, WIDTH = 64, WIDE = 4 * WIDTH };

/* Bytes kept for gradients in a model of so many layers; gradient: of the table of positions, which all layers take
 * part in. */
static size_t kept_bytes(const char *device, int64_t layers, float gradient[LONG * WIDTH])
{
    ls_run *run = ls_init(NULL, NULL, .seed = 4, .device = device);
    ls_module *model = ls_bert_for_question_answering_new(run, NULL, .vocab_size = 50, .hidden_size = WIDTH,
                                                          .num_hidden_layers = layers, .num_attention_heads = 2,
                                                          .intermediate_size = WIDE, .max_position_embeddings = LONG);
    ls_tensor *ids = ls_ones(run, LS_I64, SENTENCES, LONG), *lengths = ls_full(run, LS_I64, LONG, SENTENCES);
    ls_tensor *starts = ls_zeros(run, LS_I64, SENTENCES);
    size_t before = ls_memory(run).in_use;
    ls_outputs out = ls_forward_all(model, ids, lengths);
    size_t after = ls_memory(run).in_use;
    ls_backward(run, ls_bert_span_loss(out.item[0], out.item[1], starts, starts));
    ls_tensor *positions = ls_module_tensor(model, "bert.embeddings.position_embeddings.weight");
    ls_read(ls_grad(positions), gradient, LONG * WIDTH * sizeof *gradient);
    check_ok(run);
    ls_finish(run);
    return after - before;
}

/* What lies between the linear layers of layers 1 and 2, but not of 3. Gradients are the same bits. */
static void devices_keep_the_widest_tensor_of_two_layers_in_three(void)
{
    static const char *const devices[] = {"cpu", ASYNC_DEVICE};
    static float gradients[2][3][LONG * WIDTH];
    for (int i = 0; i < 2; i++) {
        size_t kept[3], between = SENTENCES * LONG * WIDE * sizeof(float);
        for (int k = 0; k < 3; k++) kept[k] = kept_bytes(devices[i], 2 + k, gradients[i][k]);
        size_t of_2 = kept[1] - kept[0], of_3 = kept[2] - kept[1];
        CHECK_MSG(of_2 == of_3 + (i ? between : 0), "%s: layers keep %zu and %zu bytes", devices[i], of_2, of_3);
    }
    CHECK(memcmp(gradients[0], gradients[1], sizeof gradients[0]) == 0);
}

/* Of a layer that is computed again: dropout included. */
static void layers_can_be_recomputed(void)
{
    double sums[2];
    for (int again = 0; again < 2; again++) {
        ls_run *run = ls_init(NULL, NULL, .seed = 4);
        ls_module *model = ls_bert_for_sequence_classification_new(run, TINY);
        ls_module *layers = ls_child(model, "bert.encoder.layer");
        for (int i = 0; i < ls_child_count(layers); i++) ls_set_recompute(ls_child_at(layers, i), again);
        ls_tensor *ids = integers(run, LS_SHAPE(2, 3), (int64_t[]){1, 2, 3, 4, 5, 6});
        ls_tensor *lengths = integers(run, LS_SHAPE(2), (int64_t[]){3, 2});
        ls_backward(run, ls_cross_entropy(ls_forward(model, ids, lengths), ls_zeros(run, LS_I64, 2)));
        sums[again] = ls_item(ls_norm(ls_grad(ls_module_tensor(model, "bert.embeddings.word_embeddings.weight"))));
        check_ok(run);
        ls_finish(run);
    }
    CHECK(sums[0] == sums[1] && sums[0] > 0);
}

/* Whichever request for memory fails, all parts of the model go at once, and a smaller one may follow. */
static void a_model_that_fails_leaves_nothing(void)
{
    ls_run *run = ls_init(NULL, NULL);
    size_t before = ls_memory(run).in_use;
    const ls_object *latest = run->objects;
    bool done = false;
    for (uint64_t n = 1; !done && n < 5000; n++) {
        ls_mark mark = ls_scope_begin(run);
        uint64_t asked = ls_sys_calls();
        ls_sys_fail_at(n);
        ls_module *model = ls_bert_for_masked_lm_new(run, TINY);
        done = ls_sys_calls() - asked < n;
        ls_sys_fail_at(0);
        ls_scope_end(run, mark, NULL);
        CHECK(model ? ls_error(run) == LS_OK : ls_error(run) == LS_ERR_MEMORY);
        ls_clear_error(run);
        ls_module_free(model);
        CHECK_MSG(run->objects == latest && ls_memory(run).in_use == before, "request %d: %zu bytes are left", (int)n,
                  ls_memory(run).in_use - before);
    }
    CHECK(done && ls_finish(run) == 0);
}

int main(int argc, char **argv)
{
    check_filter = argc > 1 ? argv[1] : NULL;
    CHECK_RUN(classification_is_that_of_the_reference);
    CHECK_RUN(answers_are_those_of_the_reference);
    CHECK_RUN(a_saved_model_comes_back);
    CHECK_RUN(files_of_old_load);
    CHECK_RUN(names_of_one_tensor_must_agree);
    CHECK_RUN(no_part_of_an_encoder_is_left_out);
    CHECK_RUN(a_model_that_fails_to_load_is_freed);
    CHECK_RUN(a_file_of_weights_is_no_folder);
    CHECK_RUN_FORK(padding_without_a_mask_is_named_once);
    CHECK_RUN(wrong_inputs_are_named);
    CHECK_RUN(lengths_are_as_good_as_masks);
    CHECK_RUN(a_classifier_leaves_out_what_its_mask_cuts_off);
    CHECK_RUN(words_alone_are_enough);
    CHECK_RUN(padding_among_words_has_no_position);
    CHECK_RUN(problems_have_their_losses);
    CHECK_RUN(positions_outside_do_not_count);
    CHECK_RUN(first_weights_are_those_of_transformers);
    CHECK_RUN(words_and_their_scores_share_weights);
    CHECK_RUN(a_layer_is_nine_calls_and_ten_gradients);
    CHECK_RUN(devices_keep_the_widest_tensor_of_two_layers_in_three);
    CHECK_RUN(layers_can_be_recomputed);
    CHECK_RUN(a_model_that_fails_leaves_nothing);
    return check_done();
}
