/* write.c - pictures of tensors as PNG or JPEG files. */
#include <string.h>
#include <strings.h>

#include "base/memory.h"
#include "base/opts.h"
#include "data/image/paint.h"
#include "data/image/rows.h"
#include "tensor/context.h"

static ls_status encode(const char *path, const ls_painting *p, int quality, ls_message *why)
{
    const char *end = strrchr(path, '.');
    if (end && strcasecmp(end, ".png") == 0) return ls_png_encode(path, p->rgb, p->width, p->height, why);
    if (end && (strcasecmp(end, ".jpg") == 0 || strcasecmp(end, ".jpeg") == 0))
        return ls_jpeg_encode(path, p->rgb, p->width, p->height, quality, why);
    return ls_explain(why, LS_ERR_VALUE, "ls_image_write: %s: the name must end in .png, .jpg or .jpeg", path);
}

bool ls_image_write_sized(ls_tensor *x, const char *path, const ls_image_write_opts *given, size_t opts_size)
{
    ls_image_write_opts opts = LS_OPTS_READ(ls_image_write_opts, given, opts_size);
    ls_run *run = ls_run_of(x);
    ls_painting painting;
    if (ls_failed(run) || !ls_check_live(run, x, "ls_image_write")) return false;
    if (!path) return ls_image_refuse(x, "ls_image_write", "the name of the file is NULL");
    if (opts.quality < 1 || opts.quality > 100)
        return ls_image_refuse(x, "ls_image_write", "the quality must be from 1 to 100");
    if (!ls_image_paint(x, "ls_image_write", opts.columns, opts.padding, &painting)) return false;
    ls_message why = {{0}};
    ls_status status = encode(path, &painting, opts.quality, &why);
    if (status != LS_OK) ls_fail(&run->errors, status, "%s", why.text);
    ls_sys_free(painting.rgb);
    return status == LS_OK;
}
