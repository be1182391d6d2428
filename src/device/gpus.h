/* gpus.h - devices of this host before they are opened: how many there are, and which.
 *
 * Nothing here starts a driver: the process may still fork. Plug-ins are loaded for a question and unloaded again. */
#ifndef LOCKSTEP_DEVICE_GPUS_H
#define LOCKSTEP_DEVICE_GPUS_H

#include "device/device.h"

#define LS_GPU_PLUGIN "cuda"

/* How many GPUs a program would find; 0: the plug-in or the hardware is missing. -1 and the reason if both are there,
 * but the plug-in cannot be loaded. Without hardware the plug-in is not loaded, which would take many milliseconds. */
int ls_gpus_count(ls_message *why);

/* Is there one of the files that a driver creates, "/dev/a:/dev/b"? */
bool ls_driver_is_there(const char *files);

/* How many of a plug-in's devices are usable; -1 and the reason if the plug-in cannot be loaded. */
int ls_device_count(const char *plugin, ls_message *why);
/* Device `index` of a plug-in in a line for people, which differs from those of the host's other devices: what its
 * ls_plugin_describe() says, else "NAME:INDEX". */
void ls_device_describe(const char *plugin, int index, char *text, size_t size);
/* The same of an opened device. False, and nothing is written, if its plug-in cannot say. */
bool ls_device_identify(const ls_device *device, char *text, size_t size);

/* The index that a name ends in; -1: it has none. */
int ls_device_index(const char *name);
/* Was the device opened by this name? "cuda" stands for any index. */
bool ls_device_answers(const ls_device *device, const char *name);

#endif
