/* plugin.c - the CUDA plug-in as the library meets it, with or without a GPU. */
#include <lockstep.h>

#include <dlfcn.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../plugins/device-cuda/count.h"
#include "check.h"

static bool has_gpu;

static void without_a_gpu_it_says_so(void)
{
    setenv("CUDA_VISIBLE_DEVICES", "", 1);
    ls_run *run = ls_init(NULL, NULL, .device = CUDA_DEVICE);
    CHECK(ls_error(run) == LS_ERR_DEVICE);
    CHECK_MSG(strstr(ls_error_message(run), "0 such devices are usable here") != NULL, "%s", ls_error_message(run));
    CHECK(ls_finish(run) == 1);
    unsetenv("CUDA_VISIBLE_DEVICES");
}

static void visible_gpus_are_counted_as_cuda_does(void)
{
    CHECK(cuda_visible(NULL, 4) == 4);
    CHECK(cuda_visible("", 4) == 0);
    CHECK(cuda_visible("2", 4) == 1);
    CHECK(cuda_visible("3,1", 4) == 2);
    CHECK(cuda_visible(" 3, 1", 4) == 2);
    CHECK(cuda_visible("1,7,2", 4) == 1); /* what comes after one that is not there is not seen */
    CHECK(cuda_visible("-1", 4) == 0);
    CHECK(cuda_visible("0,4294967297", 4) == 1);
    CHECK(cuda_visible("NoDevFiles", 4) == 0);
    CHECK(cuda_visible("GPU-8932f937-d72c-4106-c12f-20bd9faed9f6,MIG-1", 4) == 2);
}

static void gpus_count_without_their_driver(void)
{
    static const char *const files[] = {"gpu_files/dxg", "gpu_files/nvidia-uvm", "gpu_files/nvidiactl",
                                        "gpu_files/nvidia0", "gpu_files/nvidia12"};
    enum { FILES = sizeof files / sizeof *files };
    CHECK(cuda_present("gpu_files", true) == 0); /* no such folder */
    mkdir("gpu_files", 0700);
    for (int i = 0; i < FILES; i++) {
        close(open(files[i], O_CREAT | O_WRONLY, 0600));
        CHECK(cuda_present("gpu_files", false) == (i < 3 ? 0 : i - 2));
        CHECK(cuda_present("gpu_files", true) == (i < 3 ? 1 : i - 2));
    }
    for (int i = 0; i < FILES; i++) remove(files[i]);
    rmdir("gpu_files");
}

static void a_gpu_is_described_by_what_it_lacks(void)
{
    void (*describe)(int index, char *text, size_t size) = NULL;
    void *plugin = dlopen(CUDA_DEVICE, RTLD_LAZY | RTLD_LOCAL);
    void *symbol = plugin ? dlsym(plugin, "ls_plugin_describe") : NULL;
    char text[256] = "";
    memcpy(&describe, &symbol, sizeof symbol);
    CHECK(describe != NULL);
    if (describe) describe(0, text, sizeof text);
    const char *wanted = cuda_driver_error() ? ", which cannot be used: libcuda.so.1: " : "driver ";
    CHECK_MSG(strstr(text, wanted), "\"%s\" has no \"%s\"", text, wanted);
}

static void a_visible_gpu_has_a_word(void)
{
    char word[64];
    CHECK(cuda_visible_word(NULL, 2, word, sizeof word));
    CHECK_TEXT(word, "2");
    CHECK(cuda_visible_word("3, 1 ,GPU-8932", 1, word, sizeof word));
    CHECK_TEXT(word, "1");
    CHECK(cuda_visible_word("3,1,GPU-8932", 2, word, sizeof word));
    CHECK_TEXT(word, "GPU-8932");
    CHECK(!cuda_visible_word("3,1", 2, word, sizeof word));
}

static void adds_on_the_gpu(void)
{
    if (!has_gpu) CHECK_SKIP("no GPU is usable here");
    ls_run *run = ls_init(NULL, NULL, .device = CUDA_DEVICE);
    ls_tensor *sum = ls_add(ls_ones(run, LS_F32, 3), ls_ones(run, LS_F32, 3));
    CHECK_NEAR(ls_item(ls_sum(sum)), 6, 0);
    CHECK_TEXT(ls_error_message(run), "");
    CHECK(ls_finish(run) == 0);
}

static void bad_indices_are_reported_with_their_operator(void)
{
    if (!has_gpu) CHECK_SKIP("no GPU is usable here");
    const int64_t rows[] = {0, 7, 1}, classes[] = {0, 3, 1};
    ls_run *run = ls_init(NULL, NULL, .device = CUDA_DEVICE);
    ls_tensor *table = ls_ones(run, LS_F32, 3, 4);
    double sum = ls_item(ls_sum(ls_embedding(table, ls_from(run, LS_I64, LS_SHAPE(3), rows))));
    CHECK(isnan(sum) && ls_error(run) == LS_ERR_VALUE);
    CHECK_MSG(strstr(ls_error_message(run), "embedding: index 7 is out of range for 3 rows"), "%s",
              ls_error_message(run));
    ls_clear_error(run);
    ls_item(ls_cross_entropy(ls_ones(run, LS_F32, 3, 3), ls_from(run, LS_I64, LS_SHAPE(3), classes)));
    CHECK_MSG(strstr(ls_error_message(run), "cross_entropy: target 3 is out of range for 3 classes"), "%s",
              ls_error_message(run));
    ls_clear_error(run);
    CHECK_NEAR(ls_item(ls_sum(table)), 12, 0); /* and all goes on */
    CHECK(ls_finish(run) == 0);
}

static void a_forked_process_is_told_what_to_do(void)
{
    if (!has_gpu) CHECK_SKIP("no GPU is usable here");
    ls_run *run = ls_init(NULL, NULL, .device = CUDA_DEVICE);
    CHECK_TEXT(ls_error_message(run), "");
    pid_t child = fork();
    if (child == 0) {
        ls_run *own = ls_init(NULL, NULL, .device = CUDA_DEVICE);
        _exit(strstr(ls_error_message(own), "was forked after") ? 0 : 1);
    }
    int status = 1;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(ls_finish(run) == 0);
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    has_gpu = cuda_count() > 0;
    CHECK_RUN(without_a_gpu_it_says_so);
    CHECK_RUN(visible_gpus_are_counted_as_cuda_does);
    CHECK_RUN(gpus_count_without_their_driver);
    CHECK_RUN(a_gpu_is_described_by_what_it_lacks);
    CHECK_RUN(a_visible_gpu_has_a_word);
    CHECK_RUN_FORK(a_forked_process_is_told_what_to_do);
    CHECK_RUN(adds_on_the_gpu);
    CHECK_RUN(bad_indices_are_reported_with_their_operator);
    return check_done();
}
