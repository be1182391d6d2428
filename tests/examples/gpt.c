/* gpt.c - the example of that name, on a text that repeats itself: it learns to continue it, by bytes and by word
 * pieces, and goes on where it stopped. */
#include <lockstep.h>

#include <sys/wait.h>

#include "check.h"
#include "folder.h"

#define FOLDER "gpt_example_test"

/* What it printed, to be freed. */
static char *gpt(const char *flags)
{
    char command[1024];
    snprintf(command, sizeof command, GPT " %s > " FOLDER "/printed 2> " FOLDER "/said", flags);
    int status = system(command);
    char *said = file_text(FOLDER "/said", NULL);
    CHECK_MSG(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s: %d: %s", flags, status, said);
    free(said);
    return file_text(FOLDER "/printed", NULL);
}

static void prints(const char *flags, const char *want)
{
    char *printed = gpt(flags);
    CHECK_MSG(printed && strstr(printed, want), "%s: \"%s\"", flags, printed);
    free(printed);
}

#define SMALL "--context 16 --width 32 --layers 1 --heads 2 --warmup 5 --lr 1e-2 --steps 400 --eval_every 180 "

static void it_learns_to_continue_a_text(void)
{
    prints(SMALL "--data " FOLDER "/text --output_dir " FOLDER "/out --tokens 0", "step 400: loss 0.");
    prints("--output_dir " FOLDER "/out --prompt 'one two three one two ' --tokens 20 --temperature 0",
           "one two three one two three one two three ");
}

static void it_goes_on_where_it_stopped(void)
{
    size_t size[2] = {0};
    char *whole = file_text(FOLDER "/out/model.safetensors", &size[0]);
    folder_remove(FOLDER "/out/checkpoints/checkpoint_2"); /* of step 400; that of step 360 is the latest now */
    free(gpt(SMALL "--data " FOLDER "/text --output_dir " FOLDER "/out --tokens 0 --resume_from_checkpoint latest"));
    char *again = file_text(FOLDER "/out/model.safetensors", &size[1]);
    CHECK(whole && again && size[0] == size[1] && memcmp(whole, again, size[0]) == 0);
    free(whole);
    free(again);
}

static void accumulated_batches_evaluate_once(void)
{
    char *printed = gpt("--context 16 --width 32 --layers 1 --heads 2 --warmup 1 --steps 2 --eval_every 1 --tokens 0 "
                        "--gradient_accumulation_steps 3 --data " FOLDER "/text --output_dir " FOLDER "/sparse");
    const char *second = printed ? strstr(printed, "step 2:") : NULL;
    CHECK_MSG(second && strncmp(printed, "step 1:", 7) == 0 && !strstr(second + 1, "step"), "%s", printed);
    free(printed);
}

static void word_pieces_are_learnt_as_well(void)
{
    file_append(FOLDER "/vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\none\ntwo\nth\n##ree\n");
    prints(SMALL "--data " FOLDER "/text --vocabulary " FOLDER "/vocab.txt --output_dir " FOLDER
                 "/pieces --prompt 'one two' --tokens 4 --temperature 0",
           "one two three one two");
}

static void a_text_that_is_too_short_is_refused(void)
{
    file_append(FOLDER "/short", "one two three");
    int code;
    char *said = said_by(GPT " --data " FOLDER "/short --output_dir " FOLDER "/none", FOLDER "/said", &code);
    CHECK_MSG(code == 1 && strstr(said, "13 tokens"), "%d: %s", code, said);
    free(said);
}

int main(int argc, char **argv)
{
    check_filter = argc > 1 ? argv[1] : NULL;
    folder_fresh(FOLDER);
    for (int i = 0; i < 400; i++) file_append(FOLDER "/text", "one two three ");
    CHECK_RUN(it_learns_to_continue_a_text);
    CHECK_RUN(it_goes_on_where_it_stopped);
    CHECK_RUN(accumulated_batches_evaluate_once);
    CHECK_RUN(word_pieces_are_learnt_as_well);
    CHECK_RUN(a_text_that_is_too_short_is_refused);
    folder_remove(FOLDER);
    return check_done();
}
