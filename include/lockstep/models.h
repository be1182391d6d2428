/* models.h - well-known networks, one header for each family, and what they have in common.
 *
 *     ls_module *net = ls_resnet_new(run, "resnet50d", .classes = 37, .weights = "resnet50d.safetensors");
 *     ls_freeze(net);
 *     ls_unfreeze(ls_classifier(net));
 *     ls_tensor *logits = ls_forward(net, ls_imagenet_normalize(images)); */
#ifndef LOCKSTEP_MODELS_H
#define LOCKSTEP_MODELS_H

#include <lockstep/models/bert.h>
#include <lockstep/models/resnet.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The last layer of a classifying network: its child "fc", "classifier" or "head". */
LS_API ls_module *ls_classifier(const ls_module *model);

#ifdef __cplusplus
}
#endif
#endif
