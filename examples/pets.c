/* pets.c - fine-tune a residual network on a folder of photos, and classify other photos with it.
 *
 *     pets --data_dir images --weights resnet50d.safetensors --output_dir out --mixed_precision bf16
 *     pets --output_dir out --predict new_photo.jpg
 *
 * Labels come from file names: beagle_32.jpg shows a beagle. An interrupted training resumes exactly at its last
 * checkpoint with --resume_from_checkpoint latest; on SIGTERM the program saves a checkpoint first. */
#include <lockstep.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "accuracy.h"
#include "saving.h"

typedef struct options {
    const char *data_dir, *pattern, *model, *weights;
    int64_t width, batch_size;
    int image_size, workers, epochs;
    double lr;
    bool by_folder, freeze, v1_strides, skip_bad, with_tracking;
    saving save;
    ls_names predict;
} options;

static bool read_flags(ls_run *run, int *argc, char ***argv, options *o)
{
    ls_flag flags[] = {
        LS_FLAG("data_dir", &o->data_dir, "folder of photos, named breed_number.jpg"),
        LS_FLAG("pattern", &o->pattern, "regular expression for file names; its first group is the label"),
        LS_FLAG("by_folder", &o->by_folder, "use the name of a photo's sub-folder as its label"),
        LS_FLAG("skip_bad", &o->skip_bad, "skip damaged files instead of stopping"),
        LS_FLAG("model", &o->model, "resnet18, resnet50d, ..."),
        LS_FLAG("weights", &o->weights, "pretrained weights: a safetensors or PyTorch file"),
        LS_FLAG("width", &o->width, "channels of the first stage: fewer make a faster network"),
        LS_FLAG("v1_strides", &o->v1_strides, "the weights are for the first published form of ResNet"),
        LS_FLAG("freeze", &o->freeze, "train only the classifier"),
        LS_FLAG("image_size", &o->image_size, "width and height of the network's input"),
        LS_FLAG("epochs", &o->epochs, "passes over the photos"),
        LS_FLAG("batch_size", &o->batch_size, "photos per step and process"),
        LS_FLAG("lr", &o->lr, "highest learning rate"),
        LS_FLAG("workers", &o->workers, "threads that read photos"),
        SAVING_FLAG(&o->save),
        LS_FLAG("with_tracking", &o->with_tracking, "record loss, rate and accuracy: TensorBoard, JSON lines, CSV"),
        LS_FLAG("predict", &o->predict, "classify these photos with the model in output_dir"),
    };
    if (!ls_flags_read(run, argc, argv, flags, .about = "fine-tune a residual network on a folder of photos"))
        return false;
    if (saving_fits(run, &o->save) && o->batch_size < 1)
        ls_set_error(run, LS_ERR_VALUE, "--batch_size is %lld; it must be at least 1", (long long)o->batch_size);
    return !ls_error(run);
}

/* ---- The model file: weights, and the settings needed to use them; a slash, which no label contains, ends each class
 * ---- */

static ls_module *new_model(ls_run *run, const options *o, int64_t classes)
{
    ls_module *model = ls_resnet_new(run, o->model, .classes = classes, .weights = o->weights, .width = o->width,
                                     .v1_strides = o->v1_strides);
    if (o->freeze) {
        ls_freeze(model);
        ls_unfreeze(ls_classifier(model));
    }
    return model;
}

static void save(ls_run *run, ls_module *model, const ls_dataset *pets, const options *o)
{
    size_t room = 1, used = 0;
    for (int64_t i = 0; i < ls_class_count(pets); i++) room += strlen(ls_class_name(pets, i)) + 1;
    char *names = calloc(room, 1), image_size[16], width[24];
    if (!names) exit(1);
    for (int64_t i = 0; i < ls_class_count(pets); i++)
        used += (size_t)snprintf(names + used, room - used, "%s/", ls_class_name(pets, i));
    snprintf(image_size, sizeof image_size, "%d", o->image_size);
    snprintf(width, sizeof width, "%lld", (long long)o->width);
    const ls_metadata about[] = {{"architecture", o->model}, {"image_size", image_size},
                                 {"width", width},           {"v1_strides", o->v1_strides ? "yes" : "no"},
                                 {"classes", names},         {NULL, NULL}};
    ls_save_model(run, model, ls_project_dir(run), .metadata = about);
    free(names);
}

/* Print the breed and its probability for every photo; false if one could not be read. */
static bool predict(ls_run *run, options *o)
{
    const ls_contents *saved = ls_contents_read(run, ls_project_dir(run));
    const char *names = "";
    for (int64_t i = 0; saved && i < saved->metadata_count; i++) {
        const ls_metadata *m = &saved->metadata[i];
        if (!strcmp(m->key, "architecture")) o->model = m->value;
        if (!strcmp(m->key, "image_size")) o->image_size = (int)strtol(m->value, NULL, 10);
        if (!strcmp(m->key, "width")) o->width = strtoll(m->value, NULL, 10);
        if (!strcmp(m->key, "v1_strides")) o->v1_strides = !strcmp(m->value, "yes");
        if (!strcmp(m->key, "classes")) names = m->value;
    }
    if (saved && !*names) {
        ls_set_error(run, LS_ERR_VALUE, "%s: the model file lists no classes; it was not trained by this program",
                     ls_project_dir(run));
        return false;
    }
    int64_t classes = 0;
    for (const char *c = names; *c; c++) classes += *c == '/';
    o->weights = ls_project_dir(run);
    ls_module *model = new_model(run, o, classes);
    ls_eval(model);
    if (ls_error(run)) return false;
    bool all = true;
    ls_no_grad_begin(run);
    for (int i = 0; i < o->predict.count; i++) {
        ls_mark mark = ls_scope_begin(run);
        ls_tensor *image = ls_image_read(run, o->predict.name[i], .transform = ls_resize(o->image_size));
        ls_tensor *chances = ls_softmax(ls_forward(model, ls_imagenet_normalize(image)), -1);
        int64_t best = (int64_t)ls_item(ls_argmax(chances));
        const char *name = names;
        for (int64_t skip = best; skip > 0 && *name; name++) skip -= *name == '/';
        double chance = ls_item(ls_max(chances));
        if (ls_error(run)) fprintf(stderr, "%s\n", ls_error_message(run));
        else printf("%s: %.*s (%.1f %%)\n", o->predict.name[i], (int)strcspn(name, "/"), name, 100 * chance);
        all = all && !ls_error(run);
        ls_clear_error(run); /* continue with the other photos */
        ls_scope_end(run, mark, NULL);
    }
    ls_no_grad_end(run);
    return all;
}

/* ---- Training ---- */

/* Normalised straight to the number type in which a prepared model computes. */
static ls_tensor *normalised(ls_tensor *photos)
{
    ls_tensor *x = NULL;
    ls_autocast(ls_run_of(photos), ls_mixed_precision(ls_run_of(photos))) x = ls_imagenet_normalize(photos);
    return x;
}

int main(int argc, char **argv)
{
    options o = {.data_dir = "images",
                 .model = "resnet50d",
                 .image_size = 224,
                 .width = 64,
                 .workers = LS_AUTO,
                 .batch_size = 64,
                 .epochs = 5,
                 .lr = 3e-2,
                 .freeze = true};
    ls_run *run = ls_init(&argc, &argv, .seed = 42, .project_dir = "out", .async_save = true, .total_limit = 2);
    if (!read_flags(run, &argc, &argv, &o)) return ls_finish(run);
    if (o.predict.count) {
        bool all = predict(run, &o);
        return ls_finish(run) || !all;
    }

    ls_dataset *pets = ls_image_folder_new(run, o.data_dir, .pattern = o.pattern, .by_folder = o.by_folder,
                                           .on_bad = o.skip_bad ? LS_ON_BAD_SKIP : LS_ON_BAD_FAIL);
    ls_dataset *train_set, *eval_set;
    ls_random_split(pets, 0.8, &train_set, &eval_set);
    ls_transform crop = ls_random_resized_crop(o.image_size, .min_scale = 0.5);
    ls_loader *train =
        ls_loader_new(run, train_set, .batch = o.batch_size, .shuffle = true, .workers = o.workers, .transform = crop);
    ls_loader *eval = ls_loader_new(run, eval_set, .batch = 2 * o.batch_size, .workers = o.workers,
                                    .transform = ls_resize(o.image_size));

    ls_module *model = new_model(run, &o, ls_class_count(pets));
    ls_optim *adam = ls_adam_new(run, model, .lr = o.lr / 25);
    ls_schedule *cycle = ls_one_cycle_schedule_new(adam, .max_lr = o.lr, .epochs = o.epochs,
                                                   .steps_per_epoch = ls_steps_per_epoch(train));
    ls_prepare(run, model, adam, cycle, train, eval);

    if (o.with_tracking) ls_tracker_new(run, "all", .name = "records");
    for (int epoch; ls_epoch(run, o.epochs, &epoch);) {
        ls_progress *bar = ls_progress_new(run, ls_len(train), .label = "train");
        for (ls_batch b; ls_progress_next(bar, train, &b);) {
            ls_tensor *loss = ls_cross_entropy(ls_forward(model, normalised(b.image)), b.label);
            ls_backward(run, loss);
            bool stepped = ls_step(adam);
            ls_schedule_step(cycle);
            ls_zero_grad(adam);

            ls_progress_show(bar, "loss", ls_item(loss));
            if (!stepped) continue; /* gradients accumulate, or were not finite */
            int64_t step = ls_optim_steps_taken(adam);
            ls_track(run, step, {"loss", ls_item(loss)}, {"lr", ls_optim_lr(adam)});
            bool stop = ls_should_stop(run);
            save_after_step(run, &o.save, step, stop);
            if (stop) return ls_finish(run); /* a restart continues with the next step */
        }
        ls_progress_free(bar);
        double percent = accuracy(run, model, eval, normalised);
        ls_track(run, ls_optim_steps_taken(adam), {"accuracy", percent});
        ls_print(run, "epoch %d: %.2f\n", epoch, percent);
        save_after_epoch(run, &o.save);
    }
    if (!ls_error(run)) save(run, model, pets, &o);
    bool damaged = strstr(ls_error_message(run), "LS_ON_BAD_SKIP"); /* a flag of this program */
    int code = ls_finish(run);
    if (damaged) fprintf(stderr, "pets: --skip_bad skips damaged files\n");
    return code;
}
