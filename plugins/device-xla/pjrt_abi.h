/* pjrt_abi.h - the part of the PJRT C interface that this plug-in uses, declared from its layout.
 *
 * A library exports GetPjrtApi(), which returns a table: a header, then pointers to functions. Every function takes
 * one pointer to a structure of arguments, {size, extension, fields...}, and returns NULL or an error that the
 * caller destroys. Both the table and the structures only ever grow at the end, so positions and fields never
 * change. A library refuses a structure smaller than its own and ignores what a larger one has beyond: pjrt_enter()
 * passes them in zero-filled blocks of PJRT_BLOCK bytes. Sizes are those of version 0.81, the oldest that is
 * supported. */
#ifndef LOCKSTEP_XLA_PJRT_ABI_H
#define LOCKSTEP_XLA_PJRT_ABI_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { PJRT_MAJOR = 0, PJRT_OLDEST_MINOR = 81, PJRT_BLOCK = 320 };

typedef struct pjrt_error pjrt_error;
typedef struct pjrt_event pjrt_event;
typedef struct pjrt_client pjrt_client;
typedef struct pjrt_chip pjrt_chip; /* PJRT calls it a device */
typedef struct pjrt_buffer pjrt_buffer;
typedef struct pjrt_executable pjrt_executable; /* a compiled program */
typedef struct pjrt_loaded pjrt_loaded;         /* the same, ready to run on a chip */
typedef struct pjrt_topology pjrt_topology;     /* chips that a program can be compiled for, without having them */

typedef pjrt_error *pjrt_function(void *arguments);

typedef struct pjrt_table {
    size_t size;
    void *extension;
    struct {
        size_t size;
        void *extension;
        int32_t major, minor;
    } version;
    pjrt_function *function[];
} pjrt_table;
static_assert(offsetof(pjrt_table, function) == 40, "position of the first function");

/* Call a function, by its position, with a structure of so many bytes; what it returns is returned. */
static inline pjrt_error *pjrt_enter(const pjrt_table *table, size_t function, void *args, size_t bytes)
{
    union {
        size_t size;
        char bytes[PJRT_BLOCK];
    } block = {.bytes = {0}};
    memcpy(block.bytes, args, bytes);
    block.size = sizeof block;
    pjrt_error *error = table->function[function](&block);
    memcpy(args, block.bytes, bytes);
    return error;
}

/* PJRT_FUNCTION(name, its position in the table) */
#define PJRT_FUNCTION_LIST(PJRT_FUNCTION)                                                                              \
    PJRT_FUNCTION(Error_Destroy, 0)                                                                                    \
    PJRT_FUNCTION(Error_Message, 1)                                                                                    \
    PJRT_FUNCTION(Error_GetCode, 2)                                                                                    \
    PJRT_FUNCTION(Plugin_Initialize, 3)                                                                                \
    PJRT_FUNCTION(Event_Destroy, 5)                                                                                    \
    PJRT_FUNCTION(Event_Await, 8)                                                                                      \
    PJRT_FUNCTION(Client_Create, 10)                                                                                   \
    PJRT_FUNCTION(Client_Destroy, 11)                                                                                  \
    PJRT_FUNCTION(Client_PlatformName, 12)                                                                             \
    PJRT_FUNCTION(Client_PlatformVersion, 14)                                                                          \
    PJRT_FUNCTION(Client_Devices, 15)                                                                                  \
    PJRT_FUNCTION(Client_AddressableDevices, 16)                                                                       \
    PJRT_FUNCTION(Client_Compile, 20)                                                                                  \
    PJRT_FUNCTION(Client_BufferFromHostBuffer, 22)                                                                     \
    PJRT_FUNCTION(DeviceDescription_Id, 23)                                                                            \
    PJRT_FUNCTION(DeviceDescription_Kind, 26)                                                                          \
    PJRT_FUNCTION(Device_GetDescription, 29)                                                                           \
    PJRT_FUNCTION(Executable_Destroy, 40)                                                                              \
    PJRT_FUNCTION(Executable_GetCostAnalysis, 46)                                                                      \
    PJRT_FUNCTION(Executable_Serialize, 49)                                                                            \
    PJRT_FUNCTION(LoadedExecutable_Destroy, 50)                                                                        \
    PJRT_FUNCTION(LoadedExecutable_GetExecutable, 51)                                                                  \
    PJRT_FUNCTION(LoadedExecutable_Execute, 55)                                                                        \
    PJRT_FUNCTION(Executable_DeserializeAndLoad, 56)                                                                   \
    PJRT_FUNCTION(Buffer_Destroy, 58)                                                                                  \
    PJRT_FUNCTION(Buffer_ToHostBuffer, 70)                                                                             \
    PJRT_FUNCTION(TopologyDescription_Create, 82)                                                                      \
    PJRT_FUNCTION(TopologyDescription_PlatformName, 84)                                                                \
    PJRT_FUNCTION(TopologyDescription_PlatformVersion, 85)                                                             \
    PJRT_FUNCTION(TopologyDescription_GetDeviceDescriptions, 86)                                                       \
    PJRT_FUNCTION(TopologyDescription_Attributes, 88)                                                                  \
    PJRT_FUNCTION(Compile, 89)                                                                                         \
    PJRT_FUNCTION(Executable_GetCompiledMemoryStats, 96)

typedef enum pjrt_position {
#define PJRT_FUNCTION(name, position) PJRT_##name = position,
    PJRT_FUNCTION_LIST(PJRT_FUNCTION)
#undef PJRT_FUNCTION
} pjrt_position;

/* Number types of buffers. */
typedef enum pjrt_type {
    PJRT_PRED = 1,
    PJRT_S8 = 2,
    PJRT_S32 = 4,
    PJRT_S64 = 5,
    PJRT_U8 = 6,
    PJRT_U32 = 8,
    PJRT_U64 = 9,
    PJRT_F16 = 10,
    PJRT_F32 = 11,
    PJRT_F64 = 12,
    PJRT_BF16 = 13,
} pjrt_type;

/* Codes of errors that mean something to the library. */
enum { PJRT_RESOURCE_EXHAUSTED = 8, PJRT_UNIMPLEMENTED = 12 };

#define PJRT_HEAD                                                                                                      \
    size_t size;                                                                                                       \
    void *extension
#define PJRT_SIZE(type, bytes) static_assert(sizeof(type) == (bytes), "layout of " #type)

/* Functions whose only argument is the object, which some of them destroy: Error_Destroy, Event_Await, ... */
typedef struct pjrt_object_args {
    PJRT_HEAD;
    const void *object;
} pjrt_object_args;
PJRT_SIZE(pjrt_object_args, 24);

/* Functions that return a text or a list of the object: Error_Message, Client_PlatformName, ... */
typedef struct pjrt_list_args {
    PJRT_HEAD;
    const void *object;
    const void *list; /* out */
    size_t length;    /* out */
} pjrt_list_args;
PJRT_SIZE(pjrt_list_args, 40);

typedef struct pjrt_description_args {
    PJRT_HEAD;
    const pjrt_chip *chip;
    const void *description; /* out */
} pjrt_description_args;
PJRT_SIZE(pjrt_description_args, 32);

typedef struct pjrt_id_args {
    PJRT_HEAD;
    const void *description;
    int32_t id; /* out */
} pjrt_id_args;
PJRT_SIZE(pjrt_id_args, 32);

typedef struct pjrt_code_args {
    PJRT_HEAD;
    const pjrt_error *error;
    int32_t code; /* out */
} pjrt_code_args;
PJRT_SIZE(pjrt_code_args, 32);

/* Functions for a store of keys that processes share. Values belong to `release`; errors are made by `error`. */
typedef pjrt_error *pjrt_callback_error(int code, const char *text, size_t length);

typedef struct pjrt_get_args {
    PJRT_HEAD;
    const char *key;
    size_t key_size;
    int32_t milliseconds;
    pjrt_callback_error *const *error;
    void *user;
    char *value;                  /* out */
    size_t value_size;            /* out */
    void (*release)(char *value); /* out */
} pjrt_get_args;
PJRT_SIZE(pjrt_get_args, 80);

typedef struct pjrt_try_get_args {
    PJRT_HEAD;
    const char *key;
    size_t key_size;
    pjrt_callback_error *const *error;
    void *user;
    char *value;                  /* out */
    size_t value_size;            /* out */
    void (*release)(char *value); /* out */
} pjrt_try_get_args;
PJRT_SIZE(pjrt_try_get_args, 72);

typedef struct pjrt_put_args {
    PJRT_HEAD;
    const char *key;
    size_t key_size;
    const char *value;
    size_t value_size;
    pjrt_callback_error *const *error;
    void *user;
} pjrt_put_args;
PJRT_SIZE(pjrt_put_args, 64);

typedef struct pjrt_create_args {
    PJRT_HEAD;
    const struct pjrt_value *options;
    size_t option_count;
    pjrt_error *(*get)(pjrt_get_args *args);
    void *get_user;
    pjrt_error *(*put)(pjrt_put_args *args);
    void *put_user;
    pjrt_client *client; /* out */
    pjrt_error *(*try_get)(pjrt_try_get_args *args);
    void *try_get_user;
} pjrt_create_args;
PJRT_SIZE(pjrt_create_args, 88);

typedef struct pjrt_program {
    PJRT_HEAD;
    const char *code;
    size_t code_size;
    const char *format;
    size_t format_size;
} pjrt_program;
PJRT_SIZE(pjrt_program, 48);

typedef struct pjrt_compile_args {
    PJRT_HEAD;
    pjrt_client *client;
    const pjrt_program *program;
    const void *options;
    size_t options_size;
    pjrt_loaded *loaded; /* out */
} pjrt_compile_args;
PJRT_SIZE(pjrt_compile_args, 56);

enum { PJRT_READ_DURING_CALL = 0 }; /* of host memory */

typedef struct pjrt_upload_args {
    PJRT_HEAD;
    pjrt_client *client;
    const void *data;
    int32_t type; /* pjrt_type */
    const int64_t *dims;
    size_t ndim;
    const int64_t *byte_strides;
    size_t stride_count;
    int32_t semantics;
    pjrt_chip *chip;
    void *memory, *layout;
    pjrt_event *done;    /* out */
    pjrt_buffer *buffer; /* out */
} pjrt_upload_args;
PJRT_SIZE(pjrt_upload_args, 120);

/* Row-major without tiles. */
typedef struct pjrt_layout {
    PJRT_HEAD;
    struct {
        PJRT_HEAD;
        const int64_t *minor_to_major;
        size_t ndim;
        const void *tile_dims, *tile_sizes;
        size_t tile_count;
    } tiled;
    int32_t type;
} pjrt_layout;
PJRT_SIZE(pjrt_layout, 80);

typedef struct pjrt_download_args {
    PJRT_HEAD;
    pjrt_buffer *buffer;
    const pjrt_layout *layout;
    void *to;
    size_t to_size;
    pjrt_event *event; /* out */
} pjrt_download_args;
PJRT_SIZE(pjrt_download_args, 56);

/* Members that this plug-in leaves 0 have no names. */
typedef struct pjrt_execute_options {
    PJRT_HEAD;
    void *callbacks[4];
    int32_t launch_id;
    char rest[PJRT_BLOCK - 52];
} pjrt_execute_options;
static_assert(offsetof(pjrt_execute_options, launch_id) == 48, "position of launch_id");
PJRT_SIZE(pjrt_execute_options, PJRT_BLOCK);

typedef struct pjrt_execute_args {
    PJRT_HEAD;
    pjrt_loaded *loaded;
    const pjrt_execute_options *options;
    pjrt_buffer *const *const *arguments; /* [chips][arguments] */
    size_t chip_count, argument_count;
    pjrt_buffer **const *outputs; /* [chips][outputs], filled in */
    pjrt_event **done;            /* [chips], filled in */
    pjrt_chip *chip;
} pjrt_execute_args;
PJRT_SIZE(pjrt_execute_args, 80);

typedef struct pjrt_executable_args {
    PJRT_HEAD;
    const pjrt_loaded *loaded;
    pjrt_executable *executable; /* out */
} pjrt_executable_args;
PJRT_SIZE(pjrt_executable_args, 32);

typedef struct pjrt_serialize_args {
    PJRT_HEAD;
    const pjrt_executable *executable;
    const void *bytes; /* out */
    size_t byte_count; /* out */
    void *owner;       /* out: of the bytes */
    void (*release)(void *owner);
} pjrt_serialize_args;
PJRT_SIZE(pjrt_serialize_args, 56);

typedef struct pjrt_deserialize_args {
    PJRT_HEAD;
    pjrt_client *client;
    const void *bytes;
    size_t byte_count;
    pjrt_loaded *loaded; /* out */
    const void *options;
    size_t options_size;
} pjrt_deserialize_args;
PJRT_SIZE(pjrt_deserialize_args, 64);

/* ---- without chips ---- */

typedef struct pjrt_topology_args {
    PJRT_HEAD;
    const char *name;
    size_t name_size;
    const void *options;
    size_t option_count;
    pjrt_topology *topology; /* out */
} pjrt_topology_args;
PJRT_SIZE(pjrt_topology_args, 56);

typedef struct pjrt_ahead_args {
    PJRT_HEAD;
    const pjrt_topology *topology;
    const pjrt_program *program;
    const void *options;
    size_t options_size;
    pjrt_client *client;
    pjrt_executable *executable; /* out */
} pjrt_ahead_args;
PJRT_SIZE(pjrt_ahead_args, 64);

/* In bytes of one chip. Of the host's memory, compiled programs use none. */
typedef struct pjrt_memory_args {
    PJRT_HEAD;
    const pjrt_executable *executable;
    int64_t code, arguments, results, aliased, temporaries; /* out */
    int64_t of_host[5];
    int64_t peak;
} pjrt_memory_args;
PJRT_SIZE(pjrt_memory_args, 112);

enum { PJRT_VALUE_INTEGER = 1, PJRT_VALUE_FLOAT = 3 };

/* An attribute of a topology, a property of a program, or an option of a client. */
typedef struct pjrt_value {
    PJRT_HEAD;
    const char *name;
    size_t name_size;
    int32_t type;
    union {
        int64_t integer;
        float real;
    } value;
    size_t count;
} pjrt_value;
PJRT_SIZE(pjrt_value, 56);

typedef struct pjrt_cost_args {
    PJRT_HEAD;
    const pjrt_executable *executable;
    size_t count;             /* out */
    const pjrt_value *values; /* out: the executable's */
} pjrt_cost_args;
PJRT_SIZE(pjrt_cost_args, 40);

#endif
