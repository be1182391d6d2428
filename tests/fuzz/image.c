/* image.c - pictures, under a transform that the first byte chooses. */
#include "data/image/image.h"

#include "fuzz/fuzz.h"

enum { MOST_PIXELS = 400000 };

static void *room(void *user, int64_t height, int64_t width, ls_message *why)
{
    (void)why;
    void **memory = user;
    return *memory = malloc((size_t)(height * width) * 3 * sizeof(float));
}

static ls_transform chosen(unsigned choice)
{
    int size = 8 + (int)(choice >> 3);
    switch (choice & 7) {
    case 0: return ls_to_tensor(.dtype = LS_U8);
    case 1: return ls_random_resized_crop(size);
    case 2: return ls_resize(size);
    case 3: return ls_compose(ls_resize_shorter(size), ls_center_crop(20));
    case 4: return ls_compose(ls_random_resized_crop(size, .filter = LS_FILTER_BICUBIC), ls_random_flip());
    case 5: return ls_center_crop(30 + size);
    case 6: return ls_resize(size, .filter = LS_FILTER_LANCZOS);
    default: return ls_to_tensor(.dtype = LS_F32);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    if (size < 1) return 0;
    char *copy = fuzz_copy(bytes + 1, size - 1);
    ls_message why;
    int64_t width, height;
    if (ls_image_measure(copy, size - 1, &width, &height, &why) == LS_OK && width <= MOST_PIXELS / height) {
        ls_transform transform = chosen(bytes[0]);
        transform.max_pixels = MOST_PIXELS;
        transform.fast = bytes[0] & 1;
        transform.upright = bytes[0] >> 4 & 1;
        void *memory = NULL;
        uint64_t random[2] = {bytes[0], size};
        ls_image_out out = {.room = room, .user = &memory};
        ls_image_decode_transform(copy, size - 1, &transform, random, out, &why);
        free(memory);
    }
    free(copy);
    return 0;
}
