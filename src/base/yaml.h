/* yaml.h - the part of YAML that configuration files use, read into the same tree as JSON (json.h).
 *
 * Mappings and lists by indentation; [a, b] and {a: b} within a line; plain, 'single' and "double" quoted scalars;
 * null, true, false, numbers; comments; a leading ---. A file that is JSON is read as such. Everything else (anchors,
 * tags, block scalars, several documents, values over several lines) is an error that names the line.
 *
 * yes, no, on and off are texts, even unquoted: they are booleans in YAML 1.1 but not in YAML 1.2. */
#ifndef LOCKSTEP_BASE_YAML_H
#define LOCKSTEP_BASE_YAML_H

#include "base/json.h"

/* The root, or NULL with line and reason ("line 3: ...") in `why`; ls_json_free() it. An empty file is null. */
ls_json *ls_yaml_read(const char *text, size_t length, ls_message *why);

#endif
