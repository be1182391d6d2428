/* hub.h - the local cache of Hugging Face's tools. ls_hub_find() is public. */
#ifndef LOCKSTEP_FORMATS_HUB_H
#define LOCKSTEP_FORMATS_HUB_H

#include "base/message.h"

enum { LS_HUB_PATH = 4096 };

/* The folder of the cache that holds downloads ("hub") or tables made of them ("datasets"): HF_HUB_CACHE or
 * HF_DATASETS_CACHE, else in HF_HOME, XDG_CACHE_HOME/huggingface or ~/.cache/huggingface. */
void ls_hub_folder(const char *part, char to[LS_HUB_PATH]);

/* Some early names later got an owner: "squad" is "rajpurkar/squad". Returns the other name of a model or dataset
 * (kind: "models", "datasets"); NULL if it has none. */
const char *ls_hub_other_name(const char *kind, const char *id, char to[LS_HUB_PATH]);

typedef struct ls_hub_split {
    const char *name;   /* of the dataset, or a folder that its save_to_disk() made */
    const char *config; /* one of its configurations; NULL: the only one */
    const char *split;  /* "train", "validation", ... */
} ls_hub_split;

/* The path of the Arrow file that Hugging Face's `datasets` made of a split, the latest if there are several; if it is
 * in parts, that of the first. */
ls_status ls_hub_find_split(const ls_hub_split *which, char to[LS_HUB_PATH], ls_message *why);

/* Were all rows of a split read from the file that was found? An error if the cache counts others. */
ls_status ls_hub_check_rows(const char *path, const char *split, int64_t rows, ls_message *why);

#endif
