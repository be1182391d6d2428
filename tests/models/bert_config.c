/* bert_config.c - config.json of BERT and its relatives, and the options that win over it: kept, and refused. */
#define FOLDER "bert_configs"
#include "models/bert_tiny.h"

static void what_was_in_a_configuration_stays_in_it(void)
{
    folder_fresh(folder);
    write_config("{\"model_type\": \"bert\", " SIZES_OF_TINY ", \"finetuning_task\": \"mrpc\", "
                 "\"id2label\": {\"0\": \"no\", \"1\": \"yes\"}, \"label2id\": {\"no\": 0, \"yes\": 1}}");
    ls_run *run = ls_init(NULL, NULL);
    ls_module *model = ls_bert_for_sequence_classification_new(run, "bert_configs/config.json");
    CHECK(ls_save_model(run, model, folder));
    char *text = file_text("bert_configs/config.json", NULL);
    CHECK_MSG(text && strstr(text, "\"finetuning_task\": \"mrpc\"") && strstr(text, "\"1\": \"yes\""), "%s", text);
    free(text);
    folder_remove(folder);
    check_ok(run);
    ls_finish(run);
}

/* Nothing is taken for something else: neither a value of another type, nor a model that these are not. */
static void what_a_configuration_says_is_not_guessed(void)
{
    static const struct {
        const char *member; /* of config.json; the error shows it as it stands here */
        ls_status code;
        const char *cure;
    } wrong[] = {
        {"\"num_labels\": \"3\"", LS_ERR_IO, "expected an integer"},
        {"\"num_labels\": 3.7", LS_ERR_IO, "expected an integer"},
        {"\"pad_token_id\": 1.5", LS_ERR_IO, "expected an integer"},
        {"\"type_vocab_size\": true", LS_ERR_IO, "expected an integer"},
        {"\"layer_norm_eps\": \"small\"", LS_ERR_IO, "expected a number"},
        {"\"id2label\": [\"a\",\"b\"]", LS_ERR_IO, "expected an object"},
        {"\"hidden_act\": 7", LS_ERR_IO, "expected a string"},
        {"\"problem_type\": 3", LS_ERR_IO, "expected a string"},
        {"\"problem_type\": \"foo\"", LS_ERR_UNSUPPORTED, "supported are regression, single_label_classification and"},
        {"\"is_decoder\": 1", LS_ERR_IO, "expected true or false"},
        {"\"is_decoder\": true", LS_ERR_UNSUPPORTED, "only encoders are supported"},
        {"\"add_cross_attention\": true", LS_ERR_UNSUPPORTED, "only encoders without it are supported"},
        {"\"tie_word_embeddings\": \"false\"", LS_ERR_IO, "expected true or false"},
        {"\"tie_word_embeddings\": false", LS_ERR_UNSUPPORTED, "they are always tied to the decoder here"},
        {"\"position_embedding_type\": 5", LS_ERR_IO, "expected a string"},
        {"\"position_embedding_type\": \"relative_key\"", LS_ERR_UNSUPPORTED, "only \"absolute\" is supported"},
        {"\"pruned_heads\": {\"0\":[1]}", LS_ERR_UNSUPPORTED, "only layers with all their heads are supported"},
        {"\"quantization_config\": {\"bits\":8}", LS_ERR_UNSUPPORTED, "only unquantized weights are supported"},
    };
    folder_fresh(folder);
    ls_run *run = ls_init(NULL, NULL);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char config[600], want[300];
        snprintf(config, sizeof config, "{\"model_type\": \"bert\", %s, " SIZES_OF_TINY "}", wrong[i].member);
        write_config(config);
        int key = (int)(strchr(wrong[i].member, ':') - wrong[i].member);
        snprintf(want, sizeof want, "%.*s of bert_configs/config.json is %s; %s", key, wrong[i].member,
                 wrong[i].member + key + 2, wrong[i].cure);
        CHECK(ls_bert_for_sequence_classification_new(run, "bert_configs/config.json") == NULL);
        check_error(run, wrong[i].code, want);
    }
    write_config("{\"model_type\": \"bert\", " SIZES_OF_TINY ", \"pruned_heads\": {}, \"quantization_config\": null, "
                 "\"hidden_act\": null, \"problem_type\": null, \"is_decoder\": false, \"layer_norm_eps\": 0}");
    CHECK(ls_bert_new(run, "bert_configs/config.json") != NULL);
    check_ok(run);
    folder_remove(folder);
    ls_finish(run);
}

static void options_out_of_range_are_refused(void)
{
    ls_run *run = ls_init(NULL, NULL);
#define REFUSED(said, ...)                                                                                             \
    CHECK(ls_bert_for_sequence_classification_new(run, NULL, __VA_ARGS__) == NULL);                                    \
    check_error(run, LS_ERR_VALUE, said)
    REFUSED("problem_type is 4; must be one of ls_problem", .problem_type = (ls_problem)4);
    REFUSED("problem_type is -1", .problem_type = (ls_problem)-1);
    REFUSED("classifier_dropout is 7; must be from 0 to 1", .classifier_dropout = 7);
    REFUSED("hidden_dropout_prob is 1.5; must be from 0 to 1", .hidden_dropout_prob = 1.5);
    REFUSED("num_labels is 0", .num_labels = 0);
    REFUSED("num_labels is 2147483647; must be from 1 to 16777216", .num_labels = 2147483647);
    REFUSED("num_hidden_layers is 0", .num_hidden_layers = 0);
    REFUSED("num_hidden_layers is 2147483647; must be from 1 to 1000", .num_hidden_layers = 2147483647);
    REFUSED("hidden_size 100 cannot be divided into 12 heads", .hidden_size = 100);
#undef REFUSED
    ls_finish(run);
}

static void wrong_configurations_are_refused(void)
{
    static const struct {
        const char *config;
        ls_status code;
        const char *said;
    } wrong[] = {
        {"{\"model_type\": \"gpt2\"}", LS_ERR_UNSUPPORTED,
         "model_type \"gpt2\"; supported are bert, distilbert and roberta"},
        {"{\"model_type\": 5}", LS_ERR_IO, "\"model_type\" of bert_configs/config.json is 5; expected a string"},
        {"{\"vocab_size\": 50}", LS_ERR_IO, "bert_configs/config.json lacks \"model_type\""},
        {"{\"model_type\": \"bert\", \"vocab_size\": 50}", LS_ERR_IO, "bert_configs/config.json lacks \"hidden_size\""},
        {"{\"model_type\": \"bert\", \"vocab_size\": \"many\"}", LS_ERR_IO,
         "\"vocab_size\" of bert_configs/config.json is \"many\"; expected an integer"},
        {"{\"model_type\": ", LS_ERR_IO, "bert_configs/config.json: line 1"},
        {"{\"model_type\": \"bert\", \"hidden_act\": \"golu\", " SIZES_OF_TINY "}", LS_ERR_UNSUPPORTED,
         "hidden_act \"golu\"; supported are gelu, "},
        {"{\"model_type\": \"bert\", " SIZES_OF_TINY "}", LS_ERR_IO, "bert_configs"}, /* there are no weights */
    };
    folder_fresh(folder);
    ls_run *run = ls_init(NULL, NULL);
    CHECK(ls_bert_new(run, "nowhere") == NULL);
    check_error(run, LS_ERR_IO, "nowhere");
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        write_config(wrong[i].config);
        CHECK(ls_bert_new(run, folder) == NULL);
        check_error(run, wrong[i].code, wrong[i].said);
    }
    folder_remove(folder);
    ls_finish(run);
}

static void labels_have_names(void)
{
    folder_fresh(folder);
    ls_run *run = ls_init(NULL, NULL);
    const char *const names[] = {"world", "sports \"and\" more", "business", NULL};
    ls_module *model = ls_bert_for_sequence_classification_new(run, TINY, .labels = names);
    CHECK_TEXT(ls_bert_label(model, 2), "business");
    CHECK_TEXT(ls_bert_label(model, 3), "");
    CHECK_TEXT(ls_bert_label(ls_child(model, "bert"), 0), "");
    CHECK(ls_save_model(run, model, folder));
    model = ls_bert_for_sequence_classification_new(run, folder);
    CHECK_TEXT(ls_bert_label(model, 1), names[1]);
    /* others take their place, and a head for as many labels stays */
    const char *const others[] = {"a", "b", "c", NULL};
    ls_module *renamed = ls_bert_for_sequence_classification_new(run, folder, .labels = others);
    CHECK_TEXT(ls_bert_label(renamed, 2), "c");
    CHECK(same(model, renamed, "classifier.weight"));
    CHECK_TEXT(ls_bert_label(ls_bert_for_sequence_classification_new(run, folder, .num_labels = 4), 3), "LABEL_3");
    check_ok(run);

    CHECK(ls_bert_for_sequence_classification_new(run, folder, .labels = others, .num_labels = 2) == NULL);
    check_error(run, LS_ERR_VALUE, "labels has 3 names, but num_labels is 2");
    const char *const twice[] = {"a", "b", "a", NULL};
    CHECK(ls_bert_for_sequence_classification_new(run, folder, .labels = twice) == NULL);
    check_error(run, LS_ERR_VALUE, "labels has \"a\" twice");
    write_config("{\"model_type\": \"bert\", " SIZES_OF_TINY ", "
                 "\"id2label\": {\"0\": \"yes\", \"1\": \"no\", \"2\": \"yes\"}}");
    CHECK(ls_bert_for_sequence_classification_new(run, "bert_configs/config.json") == NULL);
    check_error(run, LS_ERR_VALUE, "\"id2label\" of config.json has \"yes\" twice; each label needs a name of its own");
    CHECK(ls_bert_for_sequence_classification_new(run, "bert_configs/config.json", .labels = others) != NULL);
    check_ok(run);
    folder_remove(folder);
    ls_finish(run);
}

int main(int argc, char **argv)
{
    check_filter = argc > 1 ? argv[1] : NULL;
    CHECK_RUN(what_was_in_a_configuration_stays_in_it);
    CHECK_RUN(what_a_configuration_says_is_not_guessed);
    CHECK_RUN(options_out_of_range_are_refused);
    CHECK_RUN(wrong_configurations_are_refused);
    CHECK_RUN(labels_have_names);
    return check_done();
}
