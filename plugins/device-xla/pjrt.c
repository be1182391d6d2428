/* pjrt.c - compiles and executes programs, and moves arrays between host and chip. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pjrt.h"

/* ---- compile options: a protocol buffer of numbers and nested messages, written by hand ---- */

enum { PACKED = 16384 }; /* as much as the numbers of PJRT_MOST_JOINT chips need */

typedef struct packed {
    uint8_t bytes[PACKED];
    size_t used;
} packed;

static void put_number(packed *p, uint64_t number)
{
    for (; number > 127; number >>= 7) p->bytes[p->used++] = (uint8_t)(number | 128);
    p->bytes[p->used++] = (uint8_t)number;
}

static void put_field(packed *p, uint64_t field, uint64_t number)
{
    put_number(p, field << 3);
    put_number(p, number);
}

static void put_message(packed *p, uint64_t field, const packed *message)
{
    put_number(p, field << 3 | 2);
    put_number(p, message->used);
    memcpy(p->bytes + p->used, message->bytes, message->used);
    p->used += message->used;
}

/* CompileOptionsProto of a program that a team's chips divide among them: each has a part of the computation. Joint
 * teams are replicas of it. */
static packed compile_options(const pjrt *p, pjrt_team team, const pjrt_joint *joint)
{
    enum { BUILD_OPTIONS = 3, DEVICE_ORDINAL = 1, REPLICAS = 4, PARTITIONS = 5, ASSIGNMENT = 9 };
    enum { USE_SPMD_PARTITIONING = 6, USE_SHARDY = 19 };
    enum { REPLICA_COUNT = 1, COMPUTATION_COUNT = 2, COMPUTATION = 3, REPLICA_IDS = 1 };
    packed assignment = {.used = 0}, build = {.used = 0}, options = {.used = 0};
    int replicas = joint ? joint->count : 1;
    put_field(&assignment, REPLICA_COUNT, (uint64_t)replicas);
    put_field(&assignment, COMPUTATION_COUNT, (uint64_t)team.count);
    for (int i = 0; i < team.count; i++) {
        packed ids = {.used = 0}, computation = {.used = 0};
        for (int r = 0; joint && r < replicas; r++) put_number(&ids, (uint64_t)joint->ids[r * PJRT_MOST_CHIPS + i]);
        if (!joint) put_number(&ids, (uint64_t)(p->chip_ids ? p->chip_ids[team.first + i] : team.first + i));
        put_message(&computation, REPLICA_IDS, &ids);
        put_message(&assignment, COMPUTATION, &computation);
    }
    put_field(&build, DEVICE_ORDINAL, UINT64_MAX); /* -1: as assigned */
    put_field(&build, REPLICAS, (uint64_t)replicas);
    put_field(&build, PARTITIONS, (uint64_t)team.count);
    put_message(&build, ASSIGNMENT, &assignment);
    if (team.count > 1) {
        put_field(&build, USE_SPMD_PARTITIONING, 1);
        put_field(&build, USE_SHARDY, 1);
    }
    put_message(&options, BUILD_OPTIONS, &build);
    return options;
}

/* ---- programs ---- */

static pjrt_program program_of(const char *text, size_t length)
{
    static const char format[] = "mlir";
    return (pjrt_program){.size = sizeof(pjrt_program),
                          .code = text,
                          .code_size = length,
                          .format = format,
                          .format_size = sizeof format - 1};
}

#define CANNOT_COMPILE "XLA cannot compile the program"

ls_status pjrt_compile(const pjrt *p, pjrt_team team, const pjrt_joint *joint, const char *text, size_t length,
                       pjrt_loaded **loaded, ls_message *why)
{
    packed options = compile_options(p, team, joint);
    pjrt_program program = program_of(text, length);
    pjrt_compile_args args = {
        .client = p->client, .program = &program, .options = options.bytes, .options_size = options.used};
    XLA_TRY(PJRT_CALL(p, Client_Compile, &args, CANNOT_COMPILE, why));
    *loaded = args.loaded;
    return LS_OK;
}

static void destroy(const pjrt *p, pjrt_position function, const void *object)
{
    ls_message ignored;
    pjrt_object_args args = {.object = object};
    if (object) pjrt_call(p, function, &args, sizeof args, "destroy", &ignored);
}

ls_status pjrt_compile_ahead(const pjrt *p, pjrt_team team, const char *text, size_t length, pjrt_needs *needs,
                             ls_message *why)
{
    packed options = compile_options(p, team, NULL);
    pjrt_program program = program_of(text, length);
    pjrt_ahead_args args = {
        .topology = p->topology, .program = &program, .options = options.bytes, .options_size = options.used};
    XLA_TRY(PJRT_CALL(p, Compile, &args, CANNOT_COMPILE, why));
    ls_status status = pjrt_measure(p, args.executable, needs, why);
    destroy(p, PJRT_Executable_Destroy, args.executable);
    return status;
}

void pjrt_unload(const pjrt *p, pjrt_loaded *loaded)
{
    destroy(p, PJRT_LoadedExecutable_Destroy, loaded);
}

ls_status pjrt_save(const pjrt *p, const pjrt_loaded *loaded, void **bytes, size_t *count, ls_message *why)
{
    pjrt_executable_args inner = {.loaded = loaded};
    XLA_TRY(PJRT_CALL(p, LoadedExecutable_GetExecutable, &inner, "save a program", why));
    pjrt_serialize_args args = {.executable = inner.executable};
    ls_status status = PJRT_CALL(p, Executable_Serialize, &args, "save a program", why);
    if (!status) {
        *bytes = malloc(args.byte_count);
        *count = args.byte_count;
        if (*bytes) memcpy(*bytes, args.bytes, args.byte_count);
        else status = xla_refuse(why, LS_ERR_MEMORY, "no memory to save a program of %zu bytes", args.byte_count);
        args.release(args.owner);
    }
    destroy(p, PJRT_Executable_Destroy, inner.executable);
    return status;
}

ls_status pjrt_restore(const pjrt *p, const void *bytes, size_t count, pjrt_loaded **loaded, ls_message *why)
{
    pjrt_deserialize_args args = {.client = p->client, .bytes = bytes, .byte_count = count};
    XLA_TRY(PJRT_CALL(p, Executable_DeserializeAndLoad, &args, "load a program", why));
    *loaded = args.loaded;
    return LS_OK;
}

ls_status pjrt_execute(const pjrt *p, pjrt_team team, pjrt_loaded *loaded, pjrt_buffer *const *in, size_t n_in,
                       pjrt_buffer **out, size_t n_out, bool is_joint, pjrt_event **done, ls_message *why)
{
    /* Those of all processes together have the same number in all of them. */
    enum { ALONE = 1 << 30 };
    static _Atomic uint32_t alone, together;
    int32_t launch = (int32_t)(is_joint ? ++together % ALONE : ALONE + ++alone % ALONE);
    pjrt_buffer *const *arguments[PJRT_MOST_CHIPS], **outputs[PJRT_MOST_CHIPS];
    for (size_t i = 0; i < (size_t)team.count; i++) {
        arguments[i] = in + i * n_in;
        outputs[i] = out + i * n_out;
    }
    pjrt_execute_options options = {.size = sizeof options, .launch_id = launch};
    pjrt_execute_args args = {.loaded = loaded,
                              .options = &options,
                              .arguments = arguments,
                              .chip_count = (size_t)team.count,
                              .argument_count = n_in,
                              .outputs = outputs,
                              .done = done};
    return PJRT_CALL(p, LoadedExecutable_Execute, &args, "XLA cannot run the program", why);
}

/* ---- arrays ---- */

ls_status pjrt_await(const pjrt *p, pjrt_event *event, const char *what, ls_message *why)
{
    pjrt_object_args args = {.object = event};
    ls_status status = PJRT_CALL(p, Event_Await, &args, what, why);
    destroy(p, PJRT_Event_Destroy, event);
    return status;
}

ls_status pjrt_upload(const pjrt *p, int chip, const void *from, pjrt_shape shape, pjrt_buffer **buffer,
                      ls_message *why)
{
    pjrt_upload_args args = {.client = p->client,
                             .data = from,
                             .type = (int32_t)shape.type,
                             .dims = shape.dim,
                             .ndim = (size_t)shape.ndim,
                             .semantics = PJRT_READ_DURING_CALL,
                             .chip = p->chips[chip]};
    XLA_TRY(PJRT_CALL(p, Client_BufferFromHostBuffer, &args, "copy to the device", why));
    ls_status status = pjrt_await(p, args.done, "copy to the device", why);
    if (status) pjrt_drop(p, args.buffer);
    else *buffer = args.buffer;
    return status;
}

ls_status pjrt_download(const pjrt *p, pjrt_buffer *buffer, int ndim, void *to, size_t bytes, ls_message *why)
{
    int64_t order[LS_MAX_DIMS];
    for (int i = 0; i < ndim; i++) order[i] = ndim - 1 - i;
    pjrt_layout layout = {.size = sizeof layout};
    layout.tiled.size = sizeof layout.tiled;
    layout.tiled.minor_to_major = order;
    layout.tiled.ndim = (size_t)ndim;
    pjrt_download_args args = {.buffer = buffer, .layout = &layout, .to = to, .to_size = bytes};
    XLA_TRY(PJRT_CALL(p, Buffer_ToHostBuffer, &args, "copy from the device", why));
    return pjrt_await(p, args.event, "copy from the device", why);
}

void pjrt_drop(const pjrt *p, pjrt_buffer *buffer)
{
    destroy(p, PJRT_Buffer_Destroy, buffer);
}
