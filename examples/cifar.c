/* cifar.c - ResNet-20 on CIFAR-10, with the usual augmentation.
 *
 *     cifar --data_dir DIR      the binary version: data_batch_1.bin ... data_batch_5.bin, test_batch.bin
 *     cifar                     without data: small pictures of coloured shapes, made here
 *
 * Prints the accuracy of the averaged network on the test pictures after each epoch, stops when it no longer improves,
 * and keeps the best one in PROJECT_DIR/best. augmented.png there shows a batch as the network sees it. */
#include <lockstep.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "accuracy.h"
#include "saving.h"

/* ---- pictures ---- */

enum { SIDE = 32, PLANE = SIDE * SIDE, RECORD = 1 + 3 * PLANE, MOST_FILES = 5, PER_FILE = 10000 };

/* Records of a label and a picture: red, green and blue planes, as in the files. */
typedef struct pictures {
    int64_t count;
    uint8_t *records;
} pictures;

static bool get(int64_t index, ls_sample *sample, void *user)
{
    const uint8_t *record = ((const pictures *)user)->records + index * RECORD;
    uint8_t pixels[3 * PLANE];
    for (int i = 0; i < 3 * PLANE; i++) pixels[i] = record[1 + i % 3 * PLANE + i / 3];
    *(int64_t *)ls_sample_field(sample, 1) = record[0];
    return ls_sample_pixels(sample, 0, pixels);
}

static void forget(void *user)
{
    pictures *p = user;
    free(p->records);
    free(p);
}

static ls_dataset *dataset_of(ls_run *run, pictures *p)
{
    return ls_dataset_new(
        run, .count = p->count, .get = get, .user = p, .release = forget, .class_count = 10,
        .fields = {{.name = "image", .image = true, .shape = {3, SIDE, SIDE}}, {.name = "label", .dtype = LS_I64}});
}

static pictures *pictures_new(int64_t room)
{
    pictures *p = malloc(sizeof *p);
    uint8_t *records = malloc((size_t)(room * RECORD));
    if (!p || !records) abort();
    *p = (pictures){0, records};
    return p;
}

static ls_dataset *read_files(ls_run *run, const char *folder, const char *const *names, int count)
{
    pictures *p = pictures_new((int64_t)count * PER_FILE);
    for (int i = 0; i < count; i++) {
        char path[1024];
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        FILE *file = fopen(path, "rb");
        size_t bytes = file ? fread(p->records + p->count * RECORD, 1, (size_t)PER_FILE * RECORD, file) : 0;
        const char *problem = !bytes                       ? "cannot be read"
                              : bytes % RECORD             ? "ends inside a picture"
                              : file && fgetc(file) != EOF ? "has more pictures than such a file"
                                                           : NULL;
        if (file) fclose(file);
        if (problem) {
            ls_set_error(run, LS_ERR_IO, "%s %s: it should be a file of CIFAR-10's binary version", path, problem);
            forget(p);
            return NULL;
        }
        p->count += (int64_t)(bytes / RECORD);
    }
    return dataset_of(run, p);
}

/* Class: one of five shapes, bright or dark, at a random place of a noisy picture in a random colour. */
static ls_dataset *made_up(ls_run *run, int64_t count, uint64_t seed)
{
    pictures *p = pictures_new(count);
    for (p->count = 0; p->count < count; p->count++) {
        uint8_t *record = p->records + p->count * RECORD;
        int label = record[0] = (uint8_t)(p->count % 10);
        int draws[8];
        for (int i = 0; i < 8; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            draws[i] = (int)(seed >> 40) & 0xff;
        }
        int centre_x = 12 + draws[0] % 8, centre_y = 12 + draws[1] % 8;
        for (int i = 0; i < PLANE; i++) {
            int x = i % SIDE - centre_x, y = i / SIDE - centre_y, shape = label % 5;
            bool inside = abs(x) < 8 && abs(y) < 8 &&
                          (shape == 0   ? x * x + y * y < 50
                           : shape == 1 ? abs(x) < 3 || abs(y) < 3
                           : shape == 2 ? abs(x - y) < 3
                           : shape == 3 ? y % 4 < 2
                                        : x * x + y * y > 25);
            for (int c = 0; c < 3; c++) {
                seed = seed * 6364136223846793005u + 1442695040888963407u;
                int noise = (int)(seed >> 40) & 0x1f, colour = draws[2 + c] % 64;
                record[1 + c * PLANE + i] = (uint8_t)(noise + (inside == (label < 5) ? 150 + colour : colour));
            }
        }
    }
    return dataset_of(run, p);
}

/* ---- the network: https://arxiv.org/abs/1512.03385, section 4.2 ---- */

/* Two convolutions, and a way past them: every second pixel if they halve the size, with channels of zeros added. */
static ls_tensor *block_forward(ls_module *block, ls_tensor *x, void *user)
{
    (void)user;
    ls_tensor *y = ls_forward(ls_child(block, "bn1"), ls_forward(ls_child(block, "conv1"), x));
    y = ls_forward(ls_child(block, "conv2"), ls_relu(y));
    int64_t more = ls_dim(y, 1) - ls_dim(x, 1);
    if (more) {
        x = ls_slice(ls_slice(x, 2, 0, INT64_MAX, 2), 3, 0, INT64_MAX, 2);
        x = ls_pad(x, LS_SHAPE(0, more / 2, 0, 0), LS_SHAPE(0, more / 2, 0, 0), 0);
    }
    return ls_relu(ls_forward(ls_child(block, "bn2"), y, x)); /* the norm adds its second input */
}

static ls_module *conv3x3(ls_run *run, int64_t in, int64_t out, int64_t stride)
{
    ls_module *conv = ls_conv2d_new(run, in, out, 3, .stride = stride, .padding = 1, .bias = false);
    ls_init_kaiming_normal(ls_module_tensor(conv, "weight"), LS_GAIN_RELU, LS_FAN_OUT);
    return conv;
}

static ls_module *block_new(ls_run *run, int64_t in, int64_t out)
{
    ls_module *block = ls_module_new(run, "Block", block_forward, NULL);
    ls_module_add(block, "conv1", conv3x3(run, in, out, in == out ? 1 : 2));
    ls_module_add(block, "bn1", ls_batch_norm_new(run, out));
    ls_module_add(block, "conv2", conv3x3(run, out, out, 1));
    ls_module_add(block, "bn2", ls_batch_norm_new(run, out));
    return block;
}

static ls_module *resnet_new(ls_run *run, int blocks)
{
    ls_module *net = ls_sequential_new(run, conv3x3(run, 3, 16, 1), ls_batch_norm_new(run, 16), ls_relu_new(run));
    for (int64_t width = 16, in = 16; width <= 64; width *= 2)
        for (int i = 0; i < blocks; i++, in = width) ls_module_append(net, block_new(run, in, width));
    ls_module_append(net, ls_adaptive_avg_pool2d_new(run, 1, 1));
    ls_module_append(net, ls_flatten_new(run));
    ls_module_append(net, ls_linear_new(run, 64, 10));
    return net;
}

/* ---- training ---- */

int main(int argc, char **argv)
{
    const char *data_dir = NULL;
    int epochs = 100, blocks = 3;
    int64_t batch_size = 128, patience = 20, made = 2000;
    double lr = 0.1, weight_decay = 1e-4, ema_decay = 0.99;
    saving save = {.when = NULL};
    const ls_flag flags[] = {
        LS_FLAG("data_dir", &data_dir, "folder with CIFAR-10's .bin files; without it pictures are made up"),
        LS_FLAG("epochs", &epochs, "passes over the training pictures"),
        LS_FLAG("batch_size", &batch_size, "pictures per step"),
        LS_FLAG("lr", &lr, "highest learning rate"),
        LS_FLAG("weight_decay", &weight_decay, "weight decay of SGD"),
        LS_FLAG("blocks", &blocks, "blocks of each of three sizes: 3 make ResNet-20"),
        LS_FLAG("ema_decay", &ema_decay, "what the averaged network keeps in a step"),
        LS_FLAG("patience", &patience, "epochs without a better accuracy before training ends"),
        SAVING_FLAG(&save),
        LS_FLAG("made_pictures", &made, "how many to make up, without --data_dir"),
    };
    ls_run *run = ls_init(&argc, &argv, .seed = 42, .project_dir = "runs/cifar", .total_limit = 2);
    if (!ls_flags_read(run, &argc, &argv, flags, .about = "train ResNet-20 on CIFAR-10") || !saving_fits(run, &save))
        return ls_finish(run);

    static const char *const train_files[MOST_FILES] = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                                                        "data_batch_4.bin", "data_batch_5.bin"};
    static const char *const test_files[] = {"test_batch.bin"};
    ls_dataset *seen = data_dir ? read_files(run, data_dir, train_files, MOST_FILES) : made_up(run, made, 1);
    ls_dataset *unseen = data_dir ? read_files(run, data_dir, test_files, 1) : made_up(run, made / 4, 2);
    ls_transform normalize = ls_normalize_image(.mean = {0.491f, 0.482f, 0.447f}, .std = {0.247f, 0.243f, 0.262f});
    ls_transform augment = ls_compose(ls_random_crop(SIDE, .padding = 4), ls_random_flip());
    ls_loader *train = ls_loader_new(run, seen, .batch = batch_size, .shuffle = true, .drop_last = true,
                                     .transform = ls_compose(augment, normalize));
    ls_loader *test = ls_loader_new(run, unseen, .batch = 500, .transform = normalize);

    ls_module *net = resnet_new(run, blocks);
    ls_optim *sgd = ls_sgd_new(run, net, .lr = lr, .momentum = 0.9, .nesterov = true, .weight_decay = weight_decay);
    int64_t steps = ls_steps_per_epoch(train);
    ls_schedule *cosine = ls_warmup_cosine_schedule_new(sgd, steps, epochs * steps, .min_lr = lr / 1000);
    ls_prepare(run, net, sgd, cosine, train, test);

    ls_ema *ema = ls_ema_new(net, .decay = ema_decay);
    ls_early_stopping stop = {.patience = patience, .maximize = true};
    ls_register_for_checkpointing(run, "ema", .tensors = ls_ema_state(ema));
    ls_register_for_checkpointing(run, "stop", .data = &stop, .size = sizeof stop);

    char best[1100], picture[1100];
    snprintf(best, sizeof best, "%s/best", ls_project_dir(run));
    snprintf(picture, sizeof picture, "%s/augmented.png", ls_project_dir(run));
    for (int epoch; ls_epoch(run, epochs, &epoch);) {
        if (epoch == 0 && ls_is_main(run)) { /* as the network sees them, before they are normalised */
            ls_batch b;
            ls_loader *look = ls_loader_new(run, seen, .batch = 64, .transform = augment);
            if (ls_next(look, &b)) ls_image_write(b.image, picture);
            ls_loader_free(look);
        }
        ls_progress *bar = ls_progress_new(run, ls_len(train), .label = "train");
        for (ls_batch b; ls_progress_next(bar, train, &b);) {
            ls_tensor *loss = ls_cross_entropy(ls_forward(net, b.image), b.label, .label_smoothing = 0.1);
            ls_backward(run, loss);
            bool stepped = ls_step(sgd);
            if (stepped) ls_ema_update(ema);
            ls_schedule_step(cosine);
            ls_zero_grad(sgd);
            ls_progress_show(bar, "loss", ls_item(loss));
            if (!stepped) continue; /* gradients accumulate, or were not finite */
            save_after_step(run, &save, ls_optim_steps_taken(sgd), false);
        }
        ls_progress_free(bar);
        double percent = 0;
        bool end = false;
        ls_ema_apply(ema)
        {
            percent = accuracy(run, net, test, NULL);
            end = ls_early_stopping_step(&stop, percent);
            if (stop.improved) ls_save_model(run, net, best);
        }
        ls_print(run, "epoch %d: %.2f %%\n", epoch, percent);
        save_after_epoch(run, &save);
        if (end) break;
    }
    return ls_finish(run);
}
