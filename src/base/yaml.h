/* yaml.h - the part of YAML that configuration files use, read into the same tree as JSON (json.h).
 *
 * Mappings and lists by indentation; [a, b] and {a: b} within a line; plain, 'single' and "double" quoted scalars;
 * null, true, false, numbers; comments; a leading ---. A file that is JSON is read as such. Everything else (anchors,
 * tags, block scalars, several documents, values over several lines) is refused with its line, never guessed at.
 *
 * The words yes, no, on and off are texts, also unquoted: YAML 1.1 makes truth values of them, YAML 1.2 does not. */
#ifndef LOCKSTEP_BASE_YAML_H
#define LOCKSTEP_BASE_YAML_H

#include "base/json.h"

/* The root, or NULL with the reason and its line ("line 3: ...") in `why`; ls_json_free() it. An empty file is null. */
ls_json *ls_yaml_read(const char *text, size_t length, ls_message *why);

#endif
