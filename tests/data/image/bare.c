/* bare.c - a build without libjpeg and libpng says so. Their files are compiled here once more, under other names. */
#include "check.h"
#include "data/image/rows.h"

ls_status bare_jpeg_decode(const uint8_t *bytes, size_t size, ls_box box, int block, ls_picture *to, ls_message *why);
ls_status bare_jpeg_encode(const char *path, const uint8_t *rgb, int64_t width, int64_t height, int quality,
                           ls_message *why);
ls_status bare_png_decode(const uint8_t *bytes, size_t size, ls_box box, ls_picture *to, ls_message *why);

static void what_is_missing_is_named(void)
{
    ls_message why = {{0}};
    ls_box box = {0, 0, 1, 1};
    ls_picture none = {0};
    CHECK(bare_jpeg_decode(NULL, 0, box, 8, &none, &why) == LS_ERR_UNSUPPORTED && strstr(why.text, "libjpeg-dev"));
    CHECK(bare_jpeg_encode("x.jpg", NULL, 1, 1, 90, &why) == LS_ERR_UNSUPPORTED &&
          strstr(why.text, "x.jpg: this build"));
    CHECK(bare_png_decode(NULL, 0, box, &none, &why) == LS_ERR_UNSUPPORTED && strstr(why.text, "libpng-dev"));
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    CHECK_RUN(what_is_missing_is_named);
    return check_done();
}
