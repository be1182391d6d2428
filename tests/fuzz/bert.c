/* bert.c - config.json of a model of Transformers. What is accepted is written so that it is accepted again. */
#include "models/bert.h"

#include "base/memory.h"
#include "fuzz/fuzz.h"

static bool read_config(ls_run *run, const void *bytes, size_t size, ls_bert_config *config)
{
    ls_bert_opts opts = LS_OPTIONS(ls_bert_opts, .num_labels = LS_AUTO);
    bool ok = ls_bert_config_read(run, "fuzz_bert", fuzz_folder_with("config.json", bytes, size), &opts, config);
    FUZZ_CHECK(ok == !ls_failed(run));
    return ok;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static ls_run *run;
    if (!run) run = ls_init(NULL, NULL);
    ls_bert_config config, again;
    if (read_config(run, bytes, size, &config) && config.num_labels <= 1000) {
        char *text = ls_bert_config_text(&config, "BertModel");
        FUZZ_CHECK(text && read_config(run, text, strlen(text), &again));
        FUZZ_CHECK(again.hidden_size == config.hidden_size && again.num_labels == config.num_labels);
        FUZZ_CHECK(again.hidden_dropout_prob == config.hidden_dropout_prob && again.kind == config.kind);
        ls_json_free(again.file);
        ls_sys_free(text);
    }
    ls_json_free(config.file);
    ls_clear_error(run);
    return 0;
}
