/* groups.c - collectives of the CUDA plug-in by NCCL: a group of one rank, whose results are its own data.
 *
 * What NCCL cannot do is left to the host. More ranks need more GPUs: NCCL allows one rank on each. */
#include <lockstep/group.h>

#include <dlfcn.h>

#include "check.h"
#include "device/device.h"

enum { COUNT = 1000 };

static ls_device *device;
static const ls_group_table *table;
static ls_message why;

static void *open_group(void)
{
    char id[LS_GROUP_ID_BYTES];
    void *group = NULL;
    CHECK_MSG(table->id(device->handle, id, &why) == LS_OK, "%s", why.text);
    CHECK_MSG(table->open(device->handle, id, 0, 1, &group, &why) == LS_OK, "%s", why.text);
    return group;
}

/* out = what a call makes of COUNT elements that begin with 1, 2, 3, ... */
static ls_status call(void *group, ls_comm_kind kind, ls_dtype dtype, ls_reduction op, const int64_t *counts,
                      const void *in, void *out)
{
    size_t bytes = COUNT * ls_dtype_size(dtype);
    ls_pool_block *a = ls_pool_take(device->pool, bytes), *b = ls_pool_take(device->pool, bytes);
    bool in_place = kind == LS_COMM_BROADCAST;
    ls_comm_call c = {.kind = kind,
                      .dtype = dtype,
                      .op = op,
                      .count = COUNT,
                      .counts = counts,
                      .in = a->address,
                      .out = in_place ? a->address : b->address};
    CHECK(ls_device_upload(device, a->address, in, bytes, &why) == LS_OK);
    CHECK_MSG(table->error(group, &why) == LS_OK, "%s", why.text);
    ls_status status = table->run(group, device->stream, &c, &why);
    CHECK(ls_device_download(device, out, c.out, bytes, &why) == LS_OK);
    ls_pool_give(device->pool, a);
    ls_pool_give(device->pool, b);
    return status;
}

/* Whatever the type, a group of one returns the bytes it is given. */
static void every_type_comes_back(void)
{
    static const ls_comm_kind kinds[] = {LS_COMM_ALL_REDUCE, LS_COMM_REDUCE, LS_COMM_REDUCE_SCATTER, LS_COMM_ALL_GATHER,
                                         LS_COMM_BROADCAST};
    static const ls_dtype dtypes[] = {LS_U8, LS_I8, LS_I32, LS_I64, LS_F16, LS_BF16, LS_F32, LS_F64};
    static uint8_t in[COUNT * 8], out[COUNT * 8];
    const int64_t parts[] = {COUNT};
    void *group = open_group();
    if (!group) return;
    for (size_t i = 0; i < sizeof in; i++)
        in[i] = (uint8_t)(i % 8 == 7 || i % 2 ? 0x3f : i % 61); /* no NaN in any type */
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
            for (int divided = 0; divided < 2; divided++) {
                bool has_parts = kinds[k] == LS_COMM_REDUCE_SCATTER || kinds[k] == LS_COMM_ALL_GATHER;
                memset(out, 0, sizeof out);
                ls_status status =
                    call(group, kinds[k], dtypes[d], LS_REDUCE_SUM, divided && has_parts ? parts : NULL, in, out);
                CHECK_MSG(status == LS_OK, "%d of %s: %s", (int)kinds[k], ls_dtype_name(dtypes[d]), why.text);
                CHECK_MSG(memcmp(in, out, COUNT * ls_dtype_size(dtypes[d])) == 0, "%d of %s differs", (int)kinds[k],
                          ls_dtype_name(dtypes[d]));
            }
    table->close(group);
}

static void means_are_of_floating_numbers(void)
{
    static float in[COUNT], out[COUNT];
    void *group = open_group();
    if (!group) return;
    for (int i = 0; i < COUNT; i++) in[i] = (float)(i + 1);
    CHECK(call(group, LS_COMM_ALL_REDUCE, LS_F32, LS_REDUCE_MEAN, NULL, in, out) == LS_OK);
    CHECK(memcmp(in, out, sizeof in) == 0);
    table->close(group);
}

static void the_rest_is_left_to_the_host(void)
{
    static float in[COUNT], out[COUNT];
    void *group = open_group();
    if (!group) return;
    CHECK(call(group, LS_COMM_ALL_REDUCE, LS_F32, LS_REDUCE_MAX, NULL, in, out) == LS_ERR_UNSUPPORTED); /* NaN */
    CHECK(call(group, LS_COMM_ALL_REDUCE, LS_I32, LS_REDUCE_MEAN, NULL, in, out) == LS_ERR_UNSUPPORTED);
    CHECK(call(group, LS_COMM_ALL_TO_ALL, LS_F32, LS_REDUCE_SUM, NULL, in, out) == LS_ERR_UNSUPPORTED);
    table->close(group);
}

static void a_group_that_was_given_up_says_so(void)
{
    ls_comm_call c = {.kind = LS_COMM_ALL_REDUCE, .dtype = LS_F32, .op = LS_REDUCE_SUM};
    void *group = open_group();
    if (!group) return;
    table->abort(group);
    CHECK(table->error(group, &why) == LS_ERR_PEER);
    CHECK_TEXT(why.text, "NCCL: the group was given up");
    CHECK(table->run(group, device->stream, &c, &why) == LS_ERR_PEER);
    table->close(group);
}

int main(int argc, char **argv)
{
    ls_status status;
    if (argc > 1) check_filter = argv[1];
    void *nccl = dlopen("libnccl.so.2", RTLD_LAZY);
    device = ls_device_open(CUDA_DEVICE, NULL, &status, &why);
    if (!device) return printf("FAIL %s\n", why.text), 1;
    table = device->table.group;
    char id[LS_GROUP_ID_BYTES];
    if (!nccl && table->id(device->handle, id, &why) == LS_ERR_UNSUPPORTED) return printf("SKIP %s\n", why.text), 77;
    CHECK_RUN(every_type_comes_back);
    CHECK_RUN(means_are_of_floating_numbers);
    CHECK_RUN(the_rest_is_left_to_the_host);
    CHECK_RUN(a_group_that_was_given_up_says_so);
    ls_device_close(device);
    return check_done();
}
