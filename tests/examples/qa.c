/* qa.c - the example of that name, with a small model that starts fresh and questions made here: it learns to find the
 * one number among letters, on one process and on two, and goes on where it stopped. */
#include <sys/wait.h>
#include <unistd.h>

#include "examples/qa_files.h"
#include "folder.h"

#define FOLDER "qa_example_test"

enum { TRAIN = 96, DEV = 24, WORDS = 40 }; /* a context is longer than a window */

static void a_model_to_start_from_is_made(void)
{
    make_model(FOLDER "/model", 64);
}

/* What it printed and said, to be freed. */
static char *qa(const char *before, const char *flags, int want)
{
    char command[2048];
    int code;
    snprintf(command, sizeof command,
             "%s " QA " --train_file " FOLDER "/train.json --validation_file " FOLDER "/dev.json --max_seq_length 32 "
             "--doc_stride 8 %s",
             before, flags);
    char *said = said_by(command, FOLDER "/said", &code);
    CHECK_MSG(code == want, "%s: %d: %s", flags, code, said);
    return said;
}

static void same_files(const char *a, const char *b)
{
    size_t size[2] = {0};
    char *text[2] = {file_text(a, &size[0]), file_text(b, &size[1])};
    CHECK_MSG(text[0] && text[1] && size[0] == size[1] && !memcmp(text[0], text[1], size[0]), "%s and %s", a, b);
    free(text[0]);
    free(text[1]);
}

#define TRAINING                                                                                                       \
    "--do_train --num_train_epochs 6 --learning_rate 5e-3 --per_device_train_batch_size 16 --warmup_ratio 0.1 "

static void it_learns_to_answer(void)
{
    double exact = 0;
    char *said = qa("",
                    TRAINING "--model_name_or_path " FOLDER "/model --do_eval --save_steps 40 --logging_steps 20 "
                             "--output_dir " FOLDER "/out",
                    0);
    const char *scores = strstr(said, "exact match ");
    CHECK_MSG(scores && sscanf(scores, "exact match %lf", &exact) == 1 && exact >= 90, "%s", said);
    CHECK_MSG(strstr(said, "step 20: loss "), "%s", said);
    free(said);
    said = qa("", "--evaluate " FOLDER "/out/predictions.json", 0);
    CHECK_MSG(strstr(said, "of 24 questions"), "%s", said);
    free(said);
}

static void two_processes_give_the_same_answers(void)
{
    free(qa(LOCKSTEP " launch -n 2", "--do_eval --model_name_or_path " FOLDER "/out --output_dir " FOLDER "/two", 0));
    same_files(FOLDER "/out/predictions.json", FOLDER "/two/predictions.json");
}

static void it_goes_on_where_it_stopped(void)
{
    rename(FOLDER "/out/model.safetensors", FOLDER "/whole.safetensors");
    free(qa("",
            TRAINING "--model_name_or_path " FOLDER "/model --save_steps 40 --logging_steps 0 --output_dir " FOLDER
                     "/out --resume_from_checkpoint latest",
            0));
    same_files(FOLDER "/out/model.safetensors", FOLDER "/whole.safetensors");
}

/* Twelve are a pass: it ends within the third, and so does what goes on from a checkpoint of the second. */
static void it_ends_after_so_many_steps(void)
{
#define STEPS                                                                                                          \
    TRAINING "--max_steps 30 --model_name_or_path " FOLDER "/model --save_steps 13 --output_dir " FOLDER "/steps "
    char *said = qa("", STEPS, 0);
    CHECK_MSG(strstr(said, ", steps: 30\n"), "%s", said);
    free(said);
    free(qa("", STEPS "--output_dir " FOLDER "/one --save_total_limit 1", 0));
    CHECK(system("test $(ls -d " FOLDER "/one/checkpoints/checkpoint_* | wc -l) = 1") == 0);
    CHECK(system("test $(ls -d " FOLDER "/steps/checkpoints/checkpoint_* | wc -l) = 2") == 0);
    rename(FOLDER "/steps/model.safetensors", FOLDER "/whole.safetensors");
    said = qa("", STEPS "--resume_from_checkpoint checkpoint_0", 0);
    CHECK_MSG(!strstr(said, "warning"), "%s", said);
    free(said);
    same_files(FOLDER "/steps/model.safetensors", FOLDER "/whole.safetensors");
#undef STEPS
}

static void a_norm_of_zero_does_not_clip(void)
{
#define STEPS TRAINING "--max_steps 3 --model_name_or_path " FOLDER "/model --output_dir " FOLDER
    free(qa("", STEPS "/unclipped --max_grad_norm 0", 0));
    free(qa("", STEPS "/far --max_grad_norm 1e9", 0));
    same_files(FOLDER "/unclipped/model.safetensors", FOLDER "/far/model.safetensors");
#undef STEPS
}

static void what_is_missing_is_named(void)
{
    static const char *const cases[][2] = {
        {"", "nothing to do"},
        {"--do_predict", "--do_predict needs --test_file"},
        {"--do_train --max_steps 0", "--max_steps is 0; it must be above 0"},
        {"--do_train --max_grad_norm -1", "--max_grad_norm is -1; it must be 0 (do not clip) or more"},
        {"--do_eval", "--model_name_or_path is missing"},
        {"--do_eval --model_name_or_path bert-large-uncased", "models--bert-large-uncased"},
        {"--do_eval --model_name_or_path " FOLDER "/model --validation_file " FOLDER "/none.json", "none.json"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *said = qa("HF_HUB_CACHE=" FOLDER "/hub", cases[i][0], 1);
        CHECK_MSG(strstr(said, cases[i][1]), "%s: %s", cases[i][0], said);
        free(said);
    }
}

/* A file with one paragraph of these questions, and what is said of it in training. */
static void training_says(const char *questions, const char *more, int want, const char *text)
{
    FILE *file = fopen(FOLDER "/odd.json", "w");
    fprintf(file, "{\"data\": [{\"title\": \"t\", \"paragraphs\": [{\"context\": \"a b c 7\"%s}%s]}]}", questions,
            more);
    fclose(file);
    char *said = qa("",
                    "--do_train --max_steps 1 --train_file " FOLDER "/odd.json --model_name_or_path " FOLDER
                    "/model --output_dir " FOLDER "/odd",
                    want);
    CHECK_MSG(strstr(said, text), "%s: %s", questions, said);
    free(said);
}

#define QUESTION(id, text, start)                                                                                      \
    "{\"id\": \"" id "\", \"question\": \"d\", \"answers\": [{\"text\": \"" text "\", \"answer_start\": " start "}]}"
#define WITHOUT "{\"id\": \"w\", \"question\": \"d\"}"

static void odd_questions_are_counted(void)
{
    training_says(
        ", \"qas\": [" QUESTION("x", "b", "2") ", " QUESTION("y", "7", "0") ", " QUESTION("z", "7 8", "6") "]", "", 0,
        "such questions: 2, the first has the id \"y\"");
    training_says(", \"qas\": [" QUESTION("x", "b", "2") ", " WITHOUT "]", "", 0,
                  "are trained as having none: 1, the first is \"w\"");
    training_says(", \"qas\": [" WITHOUT "]", "", 1, "no question of the training file has \"answers\"");
    training_says(", \"qas\": [" QUESTION("x", "b", "2") "]", ", {\"context\": \"e\"}", 0,
                  "without the list \"qas\" of questions: 1, the first in \"t\"");
    training_says("", "", 1, "no paragraph has the list \"qas\"");
}

static void contradicting_flags_are_refused(void)
{
    static const char *const cases[][2] = {
        {"--do_eval --dataset_name squad", "--dataset_name and --train_file: give one of them"},
        {"--do_train --evaluate x.json", "--evaluate only scores a file of predictions; leave out --do_train"},
        {"--do_train --save_steps -1", "--save_steps is -1; it must be at least 0"},
        {"--do_train --logging_steps -5", "--logging_steps is -5; it must be at least 0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *said = qa("", cases[i][0], 1);
        CHECK_MSG(strstr(said, cases[i][1]), "%s: %s", cases[i][0], said);
        free(said);
    }
}

static void the_rate_follows_the_schedule_that_is_asked_for(void)
{
    static const char *const cases[][2] = {
        {"--lr_scheduler_type constant", "step 10: loss *, learning rate 0.005\n"},
        {"--lr_scheduler_type cosine", "step 10: loss *, learning rate 0.00375\n"},
        {"--warmup_steps 20", "step 10: loss *, learning rate 0.0025\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char flags[512];
        snprintf(flags, sizeof flags,
                 TRAINING "--warmup_ratio 0 --max_steps 30 --logging_steps 10 --save_strategy no --model_name_or_path "
                          "" FOLDER "/model --output_dir " FOLDER "/rate %s",
                 cases[i][0]);
        char *said = qa("", flags, 0), *line = strstr(said, "step 10: ");
        CHECK_MSG(line && strstr(line, strchr(cases[i][1], ',')) == strchr(line, ','), "%s: %s", cases[i][0], said);
        free(said);
    }
    CHECK(access(FOLDER "/rate/checkpoints", F_OK) != 0);
}

static void values_that_the_trainer_alone_knows_are_refused(void)
{
    static const char *const cases[][2] = {
        {"--save_strategy epoch", "--save_strategy is epoch; it can be no, or steps with --save_steps N"},
        {"--evaluation_strategy steps", "--eval_strategy is steps; it can be no"},
        {"--lr_scheduler_type polynomial", "it must be one of linear|cosine|constant"},
        {"--lr_scheduler_type constant --warmup_steps 3", "constant has no warm-up; leave out --warmup_steps"},
        {"--warmup_steps -1", "--warmup_steps is -1; it must be at least 0"},
        {"--warmup_ratio 2", "--warmup_ratio is 2; it must be between 0 and 1"},
        {"--max_steps 5 --warmup_steps 6 --model_name_or_path " FOLDER "/model --output_dir " FOLDER "/rate",
         "--warmup_steps is 6, but the training has 5 steps"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char flags[512];
        snprintf(flags, sizeof flags, "--do_train %s", cases[i][0]);
        char *said = qa("", flags, 1);
        CHECK_MSG(strstr(said, cases[i][1]), "%s: %s", flags, said);
        free(said);
    }
}

static void flags_of_old_command_lines_are_accepted(void)
{
    char *said = qa("",
                    "--no_cuda --use_ipex --ddp_backend ccl --bf16 True --do_train False --overwrite_output_dir "
                    "--overwrite_cache False --report_to none --preprocessing_num_workers 4 --dataloader_num_workers 2 "
                    "--local_rank -1 --cache_dir x --disable_tqdm True --pad_to_max_length False --eval_steps 9 "
                    "--do_eval --model_name_or_path " FOLDER "/out --output_dir " FOLDER "/bf16",
                    0);
    CHECK_MSG(strstr(said, "own kernels") && strstr(said, "own collectives"), "%s", said);
    CHECK_MSG(strstr(said, "--overwrite_output_dir has no effect: ") && strstr(said, "--local_rank has no effect: "),
              "%s", said);
    CHECK_MSG(!strstr(said, "--overwrite_cache") && !strstr(said, "--pad_to"), "%s", said); /* switched off */
    free(said);
}

int main(int argc, char **argv)
{
    check_filter = argc > 1 ? argv[1] : NULL;
    folder_fresh(FOLDER);
    write_questions(FOLDER "/train.json", TRAIN, WORDS, 1);
    write_questions(FOLDER "/dev.json", DEV, WORDS, 2);
    CHECK_RUN(a_model_to_start_from_is_made);
    CHECK_RUN(it_learns_to_answer);
    CHECK_RUN(two_processes_give_the_same_answers);
    CHECK_RUN(it_goes_on_where_it_stopped);
    CHECK_RUN(it_ends_after_so_many_steps);
    CHECK_RUN(a_norm_of_zero_does_not_clip);
    CHECK_RUN(what_is_missing_is_named);
    CHECK_RUN(odd_questions_are_counted);
    CHECK_RUN(contradicting_flags_are_refused);
    CHECK_RUN(the_rate_follows_the_schedule_that_is_asked_for);
    CHECK_RUN(values_that_the_trainer_alone_knows_are_refused);
    CHECK_RUN(flags_of_old_command_lines_are_accepted);
    folder_remove(FOLDER);
    return check_done();
}
