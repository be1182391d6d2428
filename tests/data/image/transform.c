/* transform.c - transforms as values: defaults, composition, and what is refused with which words. */
#include <lockstep.h>

#include "check.h"
#include "data/image/image.h"
#include "data/image/steps.h"

static const char *refusal(ls_transform t)
{
    static ls_message why;
    return ls_transform_check(&t, &why) == LS_OK ? "" : why.text;
}

static void options_become_steps(void)
{
    ls_transform t = ls_random_resized_crop(224, .min_scale = 0.5);
    CHECK(t.count == 1 && t.step[0].kind == LS_STEP_RANDOM_RESIZED_CROP && t.step[0].filter == LS_FILTER_BILINEAR);
    CHECK(t.step[0].height == 224 && t.step[0].width == 224);
    CHECK(t.step[0].value[0] == 0.5 && t.step[0].value[1] == 1 && t.step[0].value[2] == 0.75);
    t = ls_random_flip();
    CHECK(t.step[0].kind == LS_STEP_FLIP_HORIZONTAL && t.step[0].value[0] == 0.5);
    t = ls_random_flip(.vertical = true, .probability = 0);
    CHECK(t.step[0].kind == LS_STEP_FLIP_VERTICAL && t.step[0].value[0] == 0);
    t = ls_random_rotation(30, .fill = {1, 2, 3});
    CHECK(t.step[0].value[0] == -30 && t.step[0].value[1] == 30 && t.step[0].value[4] == 3);
    t = ls_normalize_image();
    CHECK(t.count == 0 && t.normalized && t.mean[0] == 0.485f && t.std[2] == 0.225f);
    t = ls_normalize_image(.mean = {0.5f, 0.5f, 0.5f});
    CHECK(t.mean[1] == 0.5f && t.std[1] == 0.224f);
}

static void compositions_keep_the_order(void)
{
    ls_transform t = ls_compose(ls_decode(.upright = true, .max_pixels = 1000), ls_resize_shorter(256),
                                ls_center_crop(224, .width = 192), ls_random_flip(), ls_to_tensor(.dtype = LS_U8));
    int64_t height = 0, width = 0;
    CHECK(t.count == 3 && t.step[0].kind == LS_STEP_RESIZE_SHORTER && t.step[2].kind == LS_STEP_FLIP_HORIZONTAL);
    CHECK(t.upright && !t.fast && ls_transform_max_pixels(&t) == 1000 && ls_transform_dtype(&t) == LS_U8);
    CHECK(ls_transform_size(&t, &height, &width) && height == 224 && width == 192);
    CHECK_TEXT(refusal(t), "");

    ls_transform nothing = {0};
    CHECK(!ls_transform_size(&nothing, &height, &width) && ls_transform_dtype(&nothing) == LS_F32);
    CHECK(!ls_transform_size(NULL, &height, &width) && ls_transform_check(NULL, NULL) == LS_OK);
    t = ls_compose(ls_resize(64), ls_resize_shorter(32));
    CHECK(!ls_transform_size(&t, &height, &width));
}

static void the_impossible_is_refused(void)
{
    CHECK_TEXT(refusal(ls_resize(0)), "resize: size 0 x 0: sides must be 1 to 65500");
    CHECK_TEXT(refusal(ls_resize_shorter(32, .width = 64)),
               "resize_shorter: takes one size; the other follows from the image");
    CHECK_TEXT(refusal(ls_random_resized_crop(224, .min_scale = 2)),
               "random_resized_crop: scale 2 to 1: must be ascending and above 0");
    CHECK_TEXT(refusal(ls_random_resized_crop(224, .max_ratio = 0.5)),
               "random_resized_crop: ratio 0.75 to 0.5: must be ascending and above 0");
    CHECK_TEXT(refusal(ls_resize(32, .filter = (ls_filter)9)), "resize: unknown filter 9");
    CHECK_TEXT(refusal(ls_random_flip(.probability = 1.5)), "random_flip: probability 1.5 is not in [0, 1]");
    CHECK_TEXT(refusal(ls_random_rotation(-10)), "random_rotation: 10 to -10 degrees: must be ascending");
    CHECK_TEXT(refusal(ls_random_rotation(10, .filter = LS_FILTER_BICUBIC)),
               "random_rotation: filter 3: must be nearest or bilinear");
    CHECK_TEXT(refusal(ls_color_jitter(.hue = 0.6)), "color_jitter: hue 0.6 must be in [0, 0.5]");
    CHECK_TEXT(refusal(ls_color_jitter(.contrast = -1)), "color_jitter: contrast -1 must be finite and not negative");
    CHECK_TEXT(refusal(ls_to_tensor(.dtype = LS_I64)), "to_tensor: i64: images must be f32 or u8");
    CHECK_TEXT(refusal(ls_normalize_image(.std = {-1, 1, 1})), "normalize_image: mean 0.485 and std -1 of channel 0");
    CHECK_TEXT(refusal(ls_decode(.max_pixels = -5)), "decode: max_pixels -5 would refuse every image");
    CHECK_TEXT(refusal(ls_compose(ls_resize(8), ls_resize(-1))), "resize: size -1 x -1: sides must be 1 to 65500");
    CHECK_TEXT(refusal(ls_compose(ls_normalize_image(), ls_normalize_image())),
               "compose: images would be normalised twice");
    CHECK_TEXT(refusal(ls_compose(ls_normalize_image(), ls_to_tensor(.dtype = LS_U8))),
               "normalize_image: bytes cannot be normalised; leave out to_tensor's u8");
    ls_transform many = ls_random_flip();
    for (int i = 0; i < 4; i++) many = ls_compose(many, many);
    CHECK_TEXT(refusal(many), "compose: more than 12 steps");
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    CHECK_RUN(options_become_steps);
    CHECK_RUN(compositions_keep_the_order);
    CHECK_RUN(the_impossible_is_refused);
    return check_done();
}
