/* classifier.c - find the last layer of a network by the names that models give it. */
#include <string.h>

#include <lockstep/models.h>

#include "nn/layers.h"

ls_module *ls_classifier(const ls_module *model)
{
    static const char *const names[] = {"fc", "classifier", "head"};
    if (!model) return NULL;
    for (size_t n = 0; n < sizeof names / sizeof *names; n++)
        for (int i = 0; i < model->child_count; i++)
            if (strcmp(model->children[i].name, names[n]) == 0) return model->children[i].module;
    ls_fail(&model->object.run->errors, LS_ERR_VALUE, "ls_classifier: %s has no child fc, classifier or head",
            model->kind);
    return NULL;
}
