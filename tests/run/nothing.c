/* nothing.c - NULL is the object that does nothing: what could not be made goes into every call (docs/api.md). */
#include <lockstep.h>

#include "check.h"

static ls_run *run;
static ls_tensor *x;

static ls_tensor *pass_on(ls_module *self, ls_tensor *input, void *user)
{
    (void)self, (void)user;
    return input;
}

/* A call of which nothing comes. It may be an error; the next begins without one. */
#define NOTHING(call)                                                                                                  \
    do {                                                                                                               \
        CHECK(!(call));                                                                                                \
        ls_clear_error(run);                                                                                           \
    } while (0)
#define DOES(call) (void)(call), ls_clear_error(run)

static void no_module_does_nothing(void)
{
    ls_module *none = NULL;
    CHECK(!ls_is_valid(ls_forward(none, x)) && ls_error(run) == LS_ERR_VALUE);
    ls_clear_error(run);
    NOTHING(ls_forward_all(none, x).count);
    DOES(ls_train(none));
    DOES(ls_eval(none));
    NOTHING(ls_is_training(none));
    DOES(ls_freeze(none));
    DOES(ls_unfreeze(none));
    DOES(ls_set_recompute(none, true));
    DOES(ls_describe(none, stdout));
    NOTHING(ls_register_forward_hook(none, NULL, NULL));
    NOTHING(ls_register_forward_pre_hook(none, NULL, NULL));
    DOES(ls_hook_remove(NULL));
    NOTHING(ls_module_add(none, "a", none));
    CHECK(!ls_is_valid(ls_register_parameter(none, "w", x)) || !ls_error(run));
    CHECK(!ls_is_valid(ls_register_buffer(none, "b", x)) || !ls_error(run));
    ls_clear_error(run);
    NOTHING(ls_module_kind(none)[0]);
    NOTHING(ls_module_name(none)[0]);
    NOTHING(ls_module_run(none));
    NOTHING(ls_child_count(none));
    NOTHING(ls_child_at(none, 0));
    NOTHING(ls_child(none, "a"));
    NOTHING(ls_is_valid(ls_module_tensor(none, "a")));
    NOTHING(ls_parameter_count(none));
    NOTHING(ls_trainable_count(none));
    NOTHING(ls_parameters(none));
    NOTHING(ls_state_dict(none));
    NOTHING(ls_load_state_dict(none, NULL).loaded);
    DOES(ls_module_cast(none, LS_BF16));
    NOTHING(ls_module_append(none, none));
    NOTHING(ls_classifier(none));
    NOTHING(ls_save_model(run, none, "nothing_test"));
    NOTHING(ls_load_model(run, none, "nothing_test").loaded);
    DOES(ls_module_free(none));
}

static void no_optimiser_or_schedule_does_nothing(void)
{
    ls_optim *none = NULL;
    NOTHING(ls_step(none));
    DOES(ls_zero_grad(none));
    DOES(ls_optim_train_apart(none));
    NOTHING(ls_optim_step_was_skipped(none));
    NOTHING(ls_optim_steps_taken(none));
    NOTHING(ls_optim_group_count(none));
    NOTHING(ls_optim_group(none, 0).lr);
    DOES(ls_optim_add_group(none, NULL, .lr = 1));
    DOES(ls_optim_set_group(none, 0, .lr = 1));
    NOTHING(ls_optim_lr(none));
    DOES(ls_optim_set_lr(none, 1));
    DOES(ls_clip_grad_norm(none, 1));
    DOES(ls_clip_grad_value(none, 1));
    DOES(ls_state_clip_grad_norm(NULL, 1));
    DOES(ls_state_clip_grad_value(NULL, 1));
    NOTHING(ls_optim_state_dict(none));
    DOES(ls_optim_load_state_dict(none, NULL));
    NOTHING(ls_one_cycle_schedule_new(none, .max_lr = 1, .total_steps = 9));
    NOTHING(ls_cosine_schedule_new(none, 1, 0));
    NOTHING(ls_step_schedule_new(none, 1, 0.5));
    NOTHING(ls_exponential_schedule_new(none, 0.5));
    NOTHING(ls_warmup_linear_schedule_new(none, 1, 2));
    NOTHING(ls_warmup_cosine_schedule_new(none, 1, 2));
    NOTHING(ls_plateau_schedule_new(none));
    NOTHING(ls_lambda_schedule_new(none, NULL, NULL));
    NOTHING(ls_sequential_schedule_new(none, NULL, 0, NULL));
    DOES(ls_schedule_step(NULL));
    NOTHING(ls_schedule_lr(NULL));
    NOTHING(ls_schedule_position(NULL));
    DOES(ls_schedule_set_position(NULL, 1));
    DOES(ls_schedule_free(NULL));
    DOES(ls_optim_free(none));
}

static void no_data_does_nothing(void)
{
    ls_dataset *none = NULL, *first, *second;
    ls_loader *loader = NULL;
    ls_batch batch;
    NOTHING(ls_subset_new(none, NULL, 0));
    DOES(ls_random_split(none, 0.5, &first, &second));
    CHECK(!first && !second);
    NOTHING(ls_concat_dataset_new(none, none));
    CHECK(ls_len(none) <= 0 && ls_len(loader) <= 0);
    NOTHING(ls_class_count(none));
    NOTHING(ls_class_name(none, 0)[0]);
    CHECK(ls_dataset_class(none, 0) == -1);
    NOTHING(ls_dataset_path(none, 0)[0]);
    NOTHING(ls_loader_new(run, none));
    NOTHING(ls_next(loader, &batch));
    NOTHING(ls_progress_next(NULL, loader, &batch));
    DOES(ls_loader_rewind(loader));
    DOES(ls_skip_first_batches(loader, 1));
    DOES(ls_loader_set_epoch(loader, 1));
    NOTHING(ls_loader_epoch(loader));
    NOTHING(ls_loader_bad_count(loader));
    CHECK(ls_steps_per_epoch(loader) <= 0);
    DOES(ls_loader_free(loader));
    DOES(ls_sampler_free(NULL));
    DOES(ls_dataset_free(none));
}

static void no_list_or_communicator_does_nothing(void)
{
    ls_state *none = NULL;
    ls_comm *comm = NULL;
    DOES(ls_state_add(none, "a", x));
    NOTHING(ls_state_count(none));
    NOTHING(ls_state_name(none, 0));
    NOTHING(ls_state_tensor(none, 0));
    NOTHING(ls_state_find(none, "a"));
    NOTHING(ls_state_matching(none, "*"));
    NOTHING(ls_state_without(none, "*"));
    NOTHING(ls_state_copy(none));
    NOTHING(ls_state_write(none, "nothing_test/a"));
    DOES(ls_state_free(none));
    NOTHING(ls_collective(comm, LS_COMM_BARRIER));
    NOTHING(ls_collective_start(comm, LS_COMM_BARRIER));
    DOES(ls_request_done(NULL));
    DOES(ls_request_wait(NULL));
    NOTHING(ls_is_valid(ls_all_reduce(comm, x, LS_REDUCE_SUM)));
    NOTHING(ls_is_valid(ls_all_gather(comm, x)));
    NOTHING(ls_comm_split(comm, 0, 0));
    NOTHING(ls_comm_share(comm, 1));
    CHECK(ls_comm_rank(comm) == 0 && ls_comm_size(comm) == 1);
    DOES(ls_comm_free(comm));
}

static void no_record_or_text_does_nothing(void)
{
    ls_plot *plot = NULL;
    DOES(ls_progress_step(NULL, 1));
    DOES(ls_progress_show(NULL, "a", 1));
    DOES(ls_progress_free(NULL));
    NOTHING(ls_tracker_folder(NULL)[0]);
    DOES(ls_tracker_free(NULL));
    NOTHING(ls_history_count(NULL));
    NOTHING(ls_history_at(NULL, 0).count);
    NOTHING(ls_history_find(NULL, "a").count);
    DOES(ls_plot_add(plot, "a", (ls_curve){.name = "a"}));
    DOES(ls_plot_add_history(plot, NULL, NULL));
    NOTHING(ls_plot_write(plot, "nothing_test.svg"));
    DOES(ls_plot_free(plot));
    DOES(ls_history_free(NULL));
    DOES(ls_contents_free(NULL));
    NOTHING(ls_tokenizer_encode(NULL, "a", NULL));
    NOTHING(ls_tokenizer_size(NULL));
    DOES(ls_encoding_free(NULL));
    DOES(ls_tokenizer_free(NULL));
}

static void no_sample_does_nothing(void)
{
    ls_sample *none = NULL;
    NOTHING(ls_sample_field(none, 0));
    NOTHING(ls_sample_shape(none, 0).ndim);
    NOTHING(ls_sample_resize(none, 0, LS_SHAPE(2)));
    NOTHING(ls_sample_image(none, 0, "a", 1));
    NOTHING(ls_sample_pixels(none, 0, (const uint8_t *)"a"));
    NOTHING(ls_sample_scratch(none, 8));
    NOTHING(ls_sample_random(none));
    NOTHING(ls_sample_fail(none, LS_ERR_VALUE, "a"));
}

static void no_file_or_text_does_nothing(void)
{
    char why[200] = "", text[8] = "abc";
    ls_launch_config config;
    ls_env_print(NULL, false, NULL);
    CHECK(!ls_printable(NULL, 8, "a"));
    CHECK(strcmp(ls_printable(text, sizeof text, NULL), "") == 0);
    ls_launch_config_default(NULL);
    ls_launch_config_place(NULL, 8);
    CHECK(!ls_launch_config_find(NULL, 8, NULL));
    CHECK(ls_launch_config_read(NULL, &config, why, sizeof why) == LS_ERR_VALUE && strstr(why, "the path is NULL"));
    CHECK(ls_launch_config_read("a.yaml", NULL, why, sizeof why) == LS_ERR_VALUE &&
          strstr(why, "the configuration is NULL"));
    CHECK(ls_launch_config_write("a.yaml", NULL, why, sizeof why) == LS_ERR_VALUE &&
          strstr(why, "ls_launch_config_write: the configuration is NULL"));
    CHECK(ls_launch_config_read("no_such.yaml", &config, NULL, 0) == LS_ERR_IO);
}

#define REFUSED(call, words)                                                                                           \
    do {                                                                                                               \
        CHECK(!(call));                                                                                                \
        CHECK_MSG(ls_error(run) == LS_ERR_VALUE && strstr(ls_error_message(run), words), "%s", ls_error_message(run)); \
        ls_clear_error(run);                                                                                           \
    } while (0)
#define PREPARED(objects, count) (ls_prepare_n(run, objects, count), !ls_error(run))

static void arrays_that_are_not_there_are_refused(void)
{
    ls_module *linear = ls_linear_new(run, 2, 2);
    ls_optim *sgd = ls_sgd_new(run, linear);
    ls_schedule *parts[2] = {ls_exponential_schedule_new(sgd, 0.5), ls_exponential_schedule_new(sgd, 0.9)};
    REFUSED(PREPARED(NULL, 3), "ls_prepare: the array of 3 objects is NULL");
    REFUSED(ls_is_valid(ls_concat_n(0, NULL, 5)), "no tensors given");
    REFUSED(ls_is_valid(ls_stack_n(0, NULL, 5)), "no tensors given");
    REFUSED(ls_outputs_n(NULL, 3).count, "the array of 3 outputs is NULL");
    REFUSED(ls_sequential_new_n(run, NULL, 3), "Sequential: the array of 3 modules is NULL");
    REFUSED(ls_module_list_new_n(run, NULL, 2), "ModuleList: the array of 2 modules is NULL");
    REFUSED(ls_sequential_schedule_new(sgd, NULL, 2, (int64_t[]){1}), "the array of 2 schedules is NULL");
    REFUSED(ls_sequential_schedule_new(sgd, parts, 2, NULL), "the array of 1 milestones is NULL");
    REFUSED(ls_is_valid(ls_forward_n(linear, NULL, 1)), "the array of 1 inputs is NULL");
    REFUSED(ls_forward_all_n(NULL, NULL, 1).count, "the module is NULL");
    REFUSED(ls_gather_object(run, NULL, 5).count, "the data is NULL");
    REFUSED((ls_chunk(x, 0, NULL, 2), !ls_error(run)), "the array of 2 parts is NULL");
    REFUSED(ls_flags_read_sized(run, NULL, NULL, NULL, 2, NULL, 0), "ls_flags_read: the array of 2 flags is NULL");
    CHECK(ls_shape_numel(ls_shape_n(NULL, 3)) == -1 && ls_shape_numel(ls_shape_n(NULL, 0)) == 1);
    CHECK(!ls_shape_equal(ls_shape_n(NULL, 3), ls_shape_n(NULL, 3)));
    CHECK(!ls_is_valid(ls_empty_shape(run, LS_F32, ls_shape_n(NULL, 3))));
    CHECK_MSG(strstr(ls_error_message(run), "the array of sizes is NULL"), "%s", ls_error_message(run));
    ls_clear_error(run);
}

static void never_train(ls_run *of, int64_t batch, void *user)
{
    (void)of, (void)batch, (void)user;
    CHECK(false);
}

static void a_number_below_zero_counts_nothing(void)
{
    int64_t size = 2;
    void *object = NULL;
    ls_module *linear = ls_linear_new(run, 2, 2), *list[] = {linear};
    REFUSED(PREPARED(&object, -1), "the number of objects is negative: -1");
    REFUSED(ls_outputs_n(&x, -3).count, "the number of outputs is negative: -3");
    REFUSED(ls_sequential_new_n(run, list, -3), "the number of modules is negative: -3");
    REFUSED(ls_module_list_new_n(run, list, -3), "the number of modules is negative: -3");
    REFUSED(ls_is_valid(ls_forward_n(linear, &x, -1)), "the number of inputs is negative: -1");
    REFUSED(ls_find_batch_size(run, -5, never_train, NULL), "start = -5");
    CHECK(ls_shape_numel(ls_shape_n(&size, -3)) == -1 && ls_shape_numel(ls_shape_n(&size, INT64_C(1) << 32)) == -1);
}

static void layers_of_no_size_are_refused(void)
{
    REFUSED(ls_upsample_new(run, 0, LS_INTERPOLATE_NEAREST), "Upsample: factor 0; it must be at least 1");
    REFUSED(ls_rms_norm_new(run, 0), "RMSNorm: 0 features; there must be at least 1");
}

static void tensors_like_one_that_is_not_there_are_refused(void)
{
    ls_tensor *none = NULL, *dropped = ls_ones(run, LS_F32, 2);
    ls_drop(dropped);
    REFUSED(ls_is_valid(ls_zeros_like(none)), "ls_full_like: the tensor is NULL");
    REFUSED(ls_is_valid(ls_empty_like(none)), "ls_empty_like: the tensor is NULL");
    REFUSED(ls_is_valid(ls_rand_like(none)), "ls_rand_like: the tensor is NULL");
    REFUSED(ls_is_valid(ls_randn_like(none)), "ls_randn_like: the tensor is NULL");
    CHECK(!ls_is_valid(ls_ones_like(dropped)) && ls_error(run) == LS_ERR_SCOPE);
    CHECK_MSG(strstr(ls_error_message(run), "ls_full_like: "), "%s", ls_error_message(run));
    ls_clear_error(run);
}

static void places_that_are_not_there_are_refused(void)
{
    REFUSED(ls_read(x, NULL, 8), "ls_read: the memory to read into is NULL");
    REFUSED(ls_format(x, NULL, 10), "ls_format: the buffer is NULL");
    REFUSED(ls_epoch(run, 1, NULL), "the pointer to the epoch number is NULL");
    REFUSED(ls_find_batch_size(run, 0, NULL, NULL), "ls_find_batch_size: the function is NULL");
}

static bool give_no_picture(int64_t index, ls_sample *sample, void *user)
{
    (void)user;
    return index ? ls_sample_pixels(sample, 0, NULL) : ls_sample_image(sample, 0, NULL, 5);
}

static void a_picture_that_is_not_there_is_refused(void)
{
    static const char *const words[] = {"the file of \"image\" is NULL", "the pixels of \"image\" are NULL"};
    ls_dataset *set = ls_dataset_new(run, .count = 2, .get = give_no_picture,
                                     .fields = {{"image", .shape = {3, 2, 2}, .image = true}});
    for (int i = 0; i < 2; i++) {
        ls_loader *one = ls_loader_new(run, ls_subset_new(set, (int64_t[]){i}, 1));
        ls_batch b;
        CHECK(!ls_next(one, &b));
        CHECK_MSG(strstr(ls_error_message(run), words[i]), "%s", ls_error_message(run));
        ls_clear_error(run);
    }
}

static void flags_without_a_command_line_keep_their_values(void)
{
    int steps = 7;
    ls_flag flags[] = {LS_FLAG("steps", &steps, "how many")}, holes[] = {LS_FLAG("steps", &steps, "how many"), {0}};
    CHECK(ls_flags_read(run, NULL, NULL, flags) && steps == 7);
    REFUSED(ls_flags_read(run, NULL, NULL, holes), "ls_flags_read: the name of flag 1 is NULL");
}

static void a_program_without_checks_ends_with_the_first_cause(void)
{
    ls_module *net = ls_resnet_new(run, "resnet51");
    ls_optim *adam = ls_adam_new(run, ls_sequential_new(run, net, ls_module_new(run, "Net", pass_on, NULL)));
    ls_schedule *cycle = ls_one_cycle_schedule_new(adam, .max_lr = 1, .total_steps = 9);
    ls_dataset *set = ls_image_folder_new(run, "no_such_folder"), *first, *second;
    ls_random_split(set, 0.8, &first, &second);
    ls_loader *train = ls_loader_new(run, first, .batch = 4);
    ls_prepare(run, net, adam, cycle, train);
    for (int epoch; ls_epoch(run, 2, &epoch);)
        for (ls_batch b; ls_next(train, &b);) {
            ls_backward(run, ls_mse_loss(ls_forward(net, b.image), b.label, LS_REDUCE_MEAN));
            ls_step(adam);
            ls_schedule_step(cycle);
        }
    CHECK_MSG(strstr(ls_error_message(run), "resnet51"), "%s", ls_error_message(run));
    ls_clear_error(run);
}

int main(int argc, char **argv)
{
    check_filter = argc > 1 ? argv[1] : NULL;
    run = ls_init(NULL, NULL);
    x = ls_keep(ls_ones(run, LS_F32, 2));
    CHECK_RUN(no_module_does_nothing);
    CHECK_RUN(no_optimiser_or_schedule_does_nothing);
    CHECK_RUN(no_data_does_nothing);
    CHECK_RUN(no_list_or_communicator_does_nothing);
    CHECK_RUN(no_record_or_text_does_nothing);
    CHECK_RUN(no_sample_does_nothing);
    CHECK_RUN(no_file_or_text_does_nothing);
    CHECK_RUN(arrays_that_are_not_there_are_refused);
    CHECK_RUN(a_number_below_zero_counts_nothing);
    CHECK_RUN(layers_of_no_size_are_refused);
    CHECK_RUN(tensors_like_one_that_is_not_there_are_refused);
    CHECK_RUN(places_that_are_not_there_are_refused);
    CHECK_RUN(a_picture_that_is_not_there_is_refused);
    CHECK_RUN(flags_without_a_command_line_keep_their_values);
    CHECK_RUN(a_program_without_checks_ends_with_the_first_cause);
    ls_finish(run);
    return check_done();
}
