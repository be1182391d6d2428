/* tensorboard_program.c FOLDER - record one of everything, for opened_by_tensorboard.py. */
#include <lockstep.h>

int main(int argc, char **argv)
{
    ls_run *run = ls_init(&argc, &argv, .device = "cpu");
    ls_tracker_new(run, "tensorboard", .project_dir = argv[1], .name = "one");
    ls_track_config(run, {"lr", 0.25}, {"batch", 64});
    ls_track_config_text(run, "model", "small cnn");
    for (int step = 0; step < 3; step++) ls_track(run, step, {"loss", 1.0 / (1 + step)}, {"eval/accuracy", step});
    ls_track_text(run, 1, "note", "a *text*");
    float ramp[2 * 4 * 6];
    for (int i = 0; i < 48; i++) ramp[i] = (float)(i % 24) / 23;
    ls_track_image(run, 2, "samples", ls_from(run, LS_F32, LS_SHAPE(2, 1, 4, 6), ramp));
    ls_track_histogram(run, 2, "weights", ls_from(run, LS_F32, LS_SHAPE(48), ramp));
    return ls_finish(run);
}
