/* index.h - checkpoints of several files: an index says which tensor is in which shard. */
#ifndef LOCKSTEP_FORMATS_INDEX_H
#define LOCKSTEP_FORMATS_INDEX_H

#include <lockstep/formats.h>

#include "formats/archive.h"

/* Does the file begin like JSON? */
bool ls_is_shard_index(const char *path);
bool ls_archive_open_index(ls_archive *archive, const char *path);
/* The checkpoint that Transformers would load from a folder, or the only file of tensors in it. */
bool ls_archive_open_folder(ls_archive *archive, const char *path);
/* One file of tensors, appended to what the archive holds. */
bool ls_archive_open_file(ls_archive *archive, const char *path);

/* Implements ls_state_write_sharded(); `who` is the public function, for messages. */
bool ls_state_write_shards(const ls_state *state, const char *folder, ls_state_write_opts opts, const char *who);

/* "10GB", "512KiB", "100", "1.5GB": bytes; -1 if it is not a size. KB, MB, GB, TB are powers of 1000, KiB, ... of
 * 1024. */
int64_t ls_size_from_text(const char *text);

/* Distribute tensors to shards in list order, as Transformers does: a new shard where the next tensor would not fit; a
 * tensor larger than the limit gets one of its own. Writes the shard (from 0) of each of `count` sizes and returns the
 * number of shards. */
int64_t ls_shard_split(int64_t count, const uint64_t *bytes, uint64_t limit, int64_t *shard);
/* The text of an index: {"metadata":{"total_size":N},"weight_map":{...}}, indented, names sorted, with a line break at
 * the end. The caller must ls_sys_free() it. NULL: out of memory. */
char *ls_shard_index(int64_t count, const char *const *names, const char *const *files, uint64_t total, size_t *length);

/* "model-00001-of-00004.safetensors": is this a shard of `stem` ("model") with `extension` (".safetensors")? */
bool ls_is_shard_name(const char *name, const char *stem, const char *extension);

#endif
