/* document.h - what the page shows, as JSON. */
#ifndef LOCKSTEP_WATCH_DOCUMENT_H
#define LOCKSTEP_WATCH_DOCUMENT_H

#include "base/json.h"
#include "watch/runs.h"

/* {"folder": "mnist", "now": 1790000000.5, "more": false, "closed": "", "runs": [{"id": "a%20b", "name": "a b",
 * "version": "0f...", "life": "1a..."}, ...]}. Requests name a run by its id. */
void ls_document_put_list(ls_json_writer *w, const char *key, ls_watched_folder *folder);

/* {"id": "a", "name": "a", "version": "0f...", "problem": null, "config": {...}, "count": 2, "series": [{"name":
 * "loss", "count": 10, "last": 0.5, "x": [...], "y": [...]}, ...], "system": [...], "times": {"x": [...], "y": [...]}}
 */
void ls_document_put_run(ls_json_writer *w, const char *key, const ls_watched_folder *folder, ls_watched_run *run);

/* The run's own signs of life, as in its file, or null. */
void ls_document_put_status(ls_json_writer *w, const char *key, const ls_watched_folder *folder,
                            const ls_watched_run *run);

#endif
