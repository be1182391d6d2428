/* same_files.c - processes that read other samples than the first are refused, though they have as many; copies of the
 * same files are not. */
#include <lockstep.h>

#include "check.h"
#include "folder.h"
#include "team.h"

#define FOLDER "same_files_test"

static void write_file(const char *folder, const char *name, const char *text, size_t size)
{
    char path[256];
    snprintf(path, sizeof path, FOLDER "/%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    fwrite(text, 1, size, file);
    fclose(file);
}

#define QUESTION(text, start)                                                                                          \
    "{\"data\": [{\"id\": \"q\", \"question\": \"good\", \"context\": \"good bad good\", "                             \
    "\"answers\": {\"text\": [\"" text "\"], \"answer_start\": [" #start "]}}]}"
#define PHOTO_HEAD "\0\0\10\3\0\0\0\1\0\0\0\1\0\0\0\2"
#define LABEL_HEAD "\0\0\10\1\0\0\0\1"

/* What a process reads; `folder` has one of the files below. */
static ls_dataset *open_table(ls_run *run, const char *folder)
{
    char path[256];
    snprintf(path, sizeof path, "%s/table.tsv", folder);
    return ls_text_dataset_new(ls_tokenizer_new(run, FOLDER "/vocab.txt"), path, .text = "text", .label = "label");
}

static ls_dataset *open_part(ls_run *run, const char *folder)
{
    return ls_subset_new(open_table(run, folder), (int64_t[]){1, 0}, 2);
}

static ls_dataset *open_questions(ls_run *run, const char *folder)
{
    char path[256];
    snprintf(path, sizeof path, "%s/questions.json", folder);
    return ls_qa_windows_dataset(
        ls_qa_windows_new(ls_tokenizer_new(run, FOLDER "/vocab.txt"), ls_questions_read(run, path)));
}

static ls_dataset *open_digits(ls_run *run, const char *folder)
{
    char images[256], labels[256];
    snprintf(images, sizeof images, "%s/images", folder);
    snprintf(labels, sizeof labels, "%s/labels", folder);
    return ls_mnist_new(run, images, labels);
}

static ls_dataset *open_photos(ls_run *run, const char *folder)
{
    char path[256];
    snprintf(path, sizeof path, "%s/photos", folder);
    return ls_image_folder_new(run, path);
}

static bool get_nothing(int64_t index, ls_sample *sample, void *user)
{
    (void)index, (void)sample, (void)user;
    return true;
}

/* The program gives the hash: here that of one letter of the folder's name. */
static ls_dataset *open_own(ls_run *run, const char *folder)
{
    return ls_dataset_new(run, .count = 3, .get = get_nothing, .fields = {{.name = "x", .dtype = LS_F32}},
                          .contents = folder[strlen(FOLDER) + 1] == 'c' ? 'a' : (uint64_t)folder[strlen(FOLDER) + 1]);
}

typedef struct sight {
    const char *file, *first, *other; /* and its text in the folders a and b */
    size_t size;
    ls_dataset *(*open)(ls_run *run, const char *folder);
    const char *name; /* in the message of process 0 */
} sight;

#define TEXTS(first, other) first, other, sizeof(first) - 1
static const sight sights[] = {
    {"table.tsv", TEXTS("text\tlabel\ngood\t1\nbad\t0\n", "text\tlabel\ngood\t1\ngood\t0\n"), open_table,
     "a/table.tsv"},
    {"table.tsv", TEXTS("text\tlabel\ngood\t1\nbad\t0\n", "text\tlabel\ngood\t0\nbad\t1\n"), open_table, "a/table.tsv"},
    {"table.tsv", TEXTS("text\tlabel\ngood\t1\nbad\t0\n", "text\tlabel\ngood\t0\nbad\t1\n"), open_part, "a/table.tsv"},
    {"questions.json", TEXTS(QUESTION("good", 0), QUESTION("good", 9)), open_questions, "a/questions.json"},
    {"images", TEXTS(PHOTO_HEAD "ab", PHOTO_HEAD "ac"), open_digits, "a/images"},
    {"labels", TEXTS(LABEL_HEAD "\1", LABEL_HEAD "\2"), open_digits, "a/images"},
    {NULL, NULL, NULL, 0, open_own, "a dataset"},
};

static const sight *tried;
static const char *folders[2]; /* of each process */

static void prepare_files(ls_run *run)
{
    ls_dataset *set = tried->open(run, folders[ls_rank(run)]);
    CHECK_MSG(set, "%s", ls_error_message(run));
    ls_loader *loader =
        tried->open == open_photos ? ls_loader_new(run, set, .transform = ls_resize(8)) : ls_loader_new(run, set);
    ls_prepare(run, loader);
    const char *said = ls_error_message(run);
    if (strcmp(folders[1], FOLDER "/c") == 0) {
        CHECK_MSG(ls_error(run) == LS_OK, "%s", said);
        return;
    }
    CHECK_MSG(ls_error(run) == LS_ERR_VALUE && strstr(said, " differ in processes 0 and 1, though both have "), "%s",
              said);
    if (ls_rank(run) == 0) CHECK_MSG(strstr(said, tried->name), "%s: %s", tried->name, said);
}

/* Folder a has what process 0 reads, b something else, and c a copy of a. */
static void prepare_in_folders(const sight *s)
{
    tried = s;
    folders[0] = FOLDER "/a";
    folders[1] = FOLDER "/b";
    team_run(2, prepare_files);
    folders[1] = FOLDER "/c";
    team_run(2, prepare_files);
}

static void make_folders(void)
{
    folder_fresh(FOLDER);
    for (int i = 0; i < 3; i++) {
        char path[64], name[2] = {"abc"[i], '\0'};
        snprintf(path, sizeof path, FOLDER "/%s", name);
        mkdir(path, 0777);
        write_file(name, "images", PHOTO_HEAD "ab", sizeof PHOTO_HEAD + 1);
        write_file(name, "labels", LABEL_HEAD "\1", sizeof LABEL_HEAD);
    }
    static const char vocabulary[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\ngood\nbad\n";
    write_file(".", "vocab.txt", vocabulary, sizeof vocabulary - 1);
}

static void other_samples_in_as_many_are_refused(void)
{
    for (size_t i = 0; i < sizeof sights / sizeof *sights; i++) {
        const sight *s = &sights[i];
        make_folders();
        if (s->file) {
            write_file("a", s->file, s->first, s->size);
            write_file("b", s->file, s->other, s->size);
            write_file("c", s->file, s->first, s->size);
        }
        prepare_in_folders(s);
    }
}

/* Not their pixels: reading all photos would take too long. */
static void photos_of_other_names_are_refused(void)
{
    make_folders();
    for (int i = 0; i < 3; i++) {
        char path[64];
        snprintf(path, sizeof path, FOLDER "/%c/photos", "abc"[i]);
        mkdir(path, 0777);
        write_file((char[]){"abc"[i], '\0'}, i == 1 ? "photos/cat_2.jpg" : "photos/cat_1.jpg", "", 0);
    }
    prepare_in_folders(&(sight){.open = open_photos, .name = "a/photos"});
}

int main(int argc, char **argv)
{
    check_filter = argc > 1 ? argv[1] : NULL;
    CHECK_RUN_FORK(other_samples_in_as_many_are_refused);
    CHECK_RUN_FORK(photos_of_other_names_are_refused);
    folder_remove(FOLDER);
    return check_done();
}
