/* packing.c - the words of padded sequences are moved into rows and back, and gradients are moved the same way: what
 * stands in padding reaches no word. */
#include <lockstep.h>

#include "check.h"
#include "nn/packing.h"

static ls_run *run;

enum { BATCH = 3, LENGTH = 4, WIDTH = 2, WORDS = 6 };
static const int64_t lengths[BATCH] = {2, 0, 4};
static const int place[WORDS] = {0, 1, 8, 9, 10, 11}; /* of each word among all positions */

static ls_packing packing(ls_tensor **on_device)
{
    *on_device = ls_from(run, LS_I64, LS_SHAPE(BATCH), lengths);
    return ls_packing_of(*on_device, LENGTH);
}

/* Rows 1, 2, 3, ... of numbers that all differ. */
static ls_tensor *numbered(ls_shape shape)
{
    return ls_reshape_shape(ls_arange(run, LS_F32, ls_shape_numel(shape), 1, 1), shape);
}

static void words_come_back(void)
{
    ls_tensor *on_device;
    ls_packing p = packing(&on_device);
    ls_tensor *x = numbered(LS_SHAPE(BATCH, LENGTH, WIDTH)), *words = ls_pack(x, &p);
    float packed[WORDS][WIDTH], back[BATCH * LENGTH][WIDTH];
    CHECK(ls_dim(words, 0) == WORDS && ls_read(words, packed, sizeof packed));
    CHECK(ls_read(ls_unpack_clean(words, &p, on_device), back, sizeof back));
    for (int at = 0, word = 0; at < BATCH * LENGTH; at++) {
        bool is_word = word < WORDS && place[word] == at;
        CHECK_MSG(back[at][1] == (is_word ? (float)(2 * at + 2) : 0), "position %d: %g", at, (double)back[at][1]);
        if (is_word) CHECK(packed[word++][0] == (float)(2 * at + 1));
    }
}

static void gradients_of_words_come_from_their_places(void)
{
    ls_tensor *on_device;
    ls_packing p = packing(&on_device);
    ls_tensor *words = ls_set_requires_grad(ls_zeros(run, LS_F32, WORDS, WIDTH), true);
    ls_tensor *weights = numbered(LS_SHAPE(BATCH, LENGTH, WIDTH)); /* padding has some, too */
    ls_backward(run, ls_sum(ls_mul(ls_unpack(words, &p), weights)));
    float gradient[WORDS][WIDTH];
    CHECK(ls_read(ls_grad(words), gradient, sizeof gradient));
    for (int word = 0; word < WORDS; word++)
        CHECK_MSG(gradient[word][0] == (float)(2 * place[word] + 1), "word %d: %g", word, (double)gradient[word][0]);
}

static void gradients_of_places_come_from_their_words(void)
{
    ls_tensor *on_device;
    ls_packing p = packing(&on_device);
    ls_tensor *x = ls_set_requires_grad(ls_zeros(run, LS_F32, BATCH, LENGTH, WIDTH), true);
    ls_backward(run, ls_sum(ls_mul(ls_pack(x, &p), numbered(LS_SHAPE(WORDS, WIDTH)))));
    float gradient[BATCH * LENGTH][WIDTH];
    CHECK(ls_read(ls_grad(x), gradient, sizeof gradient));
    for (int word = 0; word < WORDS; word++)
        CHECK_MSG(gradient[place[word]][1] == (float)(2 * word + 2), "word %d: %g", word,
                  (double)gradient[place[word]][1]);
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    run = ls_init(NULL, NULL, .seed = 1);
    CHECK_RUN(words_come_back);
    CHECK_RUN(gradients_of_words_come_from_their_places);
    CHECK_RUN(gradients_of_places_come_from_their_words);
    CHECK_MSG(ls_error(run) == LS_OK, "%s", ls_error_message(run));
    ls_finish(run);
    return check_done();
}
