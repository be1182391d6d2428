/* compiler.c - units into shared objects. */
#include "compiler.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "session/temporary.h"

#define FOLDER_NAME "lockstep-notebook-"

extern char **environ;

/* What every cell can use without including it. */
static const char included[] = "#include <lockstep/notebook.h>\n"
                               "#include <math.h>\n"
                               "#include <stdio.h>\n"
                               "#include <stdlib.h>\n"
                               "#include <string.h>\n"
                               "#include <time.h>\n"
                               "#include <unistd.h>\n";

/* Functions of these headers that are not of C, whose names people give to variables: they are hidden. */
static const char *const hidden[] = {"y0", "y1", "yn", "j0", "j1", "jn", "gamma", "index", "rindex"};

/* The same for the header and the cells: a precompiled header is used with the flags only that it was compiled with. */
static const char *const common_flags[] = {
    "-std=gnu17",
    "-O2",
    "-g1",                         /* lines, for a cell that crashes */
    "-gdwarf-4",                   /* in version 5, binutils 2.40 takes In[1] for the unit's own file */
    "-fno-optimize-sibling-calls", /* or the last call of a cell would hide which cell made it */
    "-fPIC",
    "-pipe",
    "-Wall",
    "-Wno-unused-value",
    "-Wno-builtin-declaration-mismatch",
    "-Werror=implicit-function-declaration",
    "-Werror=incompatible-pointer-types",
    "-Werror=int-conversion",
    "-fdiagnostics-color=never",
};

enum { MOST_ARGUMENTS = 128 };

typedef struct command {
    char *words[MOST_ARGUMENTS];
    size_t count;
} command;

static void add_word(command *to, const char *word, size_t length)
{
    if (to->count + 1 < MOST_ARGUMENTS) to->words[to->count++] = copy_bytes(word, length);
}

static void add_words(command *to, const char *words)
{
    for (const char *at = words + strspn(words, " \t"); *at; at += strspn(at, " \t")) {
        size_t length = strcspn(at, " \t");
        add_word(to, at, length);
        at += length;
    }
}

static command command_new(const compiler *c)
{
    command made = {0};
    const char *cc = getenv("CC");
    add_words(&made, cc && *cc ? cc : "cc");
    for (size_t i = 0; i < sizeof common_flags / sizeof *common_flags; i++)
        add_word(&made, common_flags[i], strlen(common_flags[i]));
    add_word(&made, "-I", 2);
    add_word(&made, c->include, strlen(c->include));
    return made;
}

static void command_free(command *what)
{
    for (size_t i = 0; i < what->count; i++) ls_sys_free(what->words[i]);
}

/* Start it in the compiler's folder, with its messages going to `output`; it leads a group, for it starts others. 0: it
 * could not be started. */
static pid_t start(const compiler *c, command *what, int output)
{
    pid_t process = 0;
    posix_spawnattr_t group;
    posix_spawnattr_init(&group);
    posix_spawnattr_setflags(&group, POSIX_SPAWN_SETPGROUP); /* of its own number */
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addchdir_np(&actions, c->folder);
    posix_spawn_file_actions_adddup2(&actions, output, 1);
    posix_spawn_file_actions_adddup2(&actions, output, 2);
    if (posix_spawnp(&process, what->words[0], &actions, &group, what->words, environ) != 0) process = 0;
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&group);
    return process;
}

/* ---- The header ---- */

void compiler_listen_header(compiler *c)
{
    char ignored[4096];
    ssize_t got = read(c->messages, ignored, sizeof ignored);
    if (got > 0 || (got < 0 && errno == EINTR)) return;
    waitpid(c->preparing, NULL, 0);
    close(c->messages);
    c->preparing = 0;
    c->messages = -1;
}

static void stop_header(compiler *c)
{
    if (c->preparing) kill(-c->preparing, SIGKILL);
    while (c->preparing) compiler_listen_header(c);
}

/* In the background: it takes as long as several cells. If it fails, cells compile all the same, but slower. */
static void prepare_header(compiler *c)
{
    stop_header(c); /* of other flags */
    command compile = command_new(c);
    add_words(&compile, text_view(&c->flags));
    add_words(&compile, "-x c-header cell.h -o cell.h.gch");
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) == 0) {
        c->preparing = start(c, &compile, ends[1]);
        close(ends[1]);
        if (c->preparing) c->messages = ends[0];
        else close(ends[0]);
    }
    command_free(&compile);
}

static bool write_file(const compiler *c, const char *name, const char *contents, ls_message *why)
{
    char path[LONGEST_LIBRARY];
    snprintf(path, sizeof path, "%s/%s", c->folder, name);
    return ls_file_write(path, contents, strlen(contents), false, why);
}

static bool write_header(const compiler *c, ls_message *why)
{
    enum { HIDDEN = sizeof hidden / sizeof *hidden };
    string header = {0};
    for (int i = 0; i < HIDDEN; i++) text_print(&header, "#define %s ls_hidden_%s\n", hidden[i], hidden[i]);
    text_add(&header, included);
    for (int i = 0; i < HIDDEN; i++) text_print(&header, "#undef %s\n", hidden[i]);
    bool ok = write_file(c, "cell.h", header.bytes, why);
    text_free(&header);
    return ok;
}

/* ---- The folder ---- */

static int remove_entry(const char *path, const struct stat *status, int kind, struct FTW *walk)
{
    (void)status, (void)kind, (void)walk;
    return remove(path);
}

static void remove_folder(const char *path)
{
    nftw(path, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

/* A kernel holds the lock of its folder as long as it lives. -1: another one does, or there is none. */
static int lock_folder(const char *folder, int flags)
{
    char path[LONGEST_LIBRARY];
    snprintf(path, sizeof path, "%s/kernel", folder);
    int lock = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
    if (lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) == 0) return lock;
    if (lock >= 0) close(lock);
    return -1;
}

/* Folders of this user whose kernels were killed. A young one may be about to be locked. */
static void remove_abandoned(const char *temporary)
{
    enum { MINUTE = 60 };
    DIR *folders = opendir(temporary);
    for (struct dirent *entry; folders && (entry = readdir(folders));) {
        char path[LONGEST_FOLDER];
        struct stat about;
        if (strncmp(entry->d_name, FOLDER_NAME, strlen(FOLDER_NAME)) != 0) continue;
        if (snprintf(path, sizeof path, "%s/%s", temporary, entry->d_name) >= (int)sizeof path) continue;
        if (lstat(path, &about) < 0 || !S_ISDIR(about.st_mode) || about.st_uid != geteuid()) continue;
        if (time(NULL) - about.st_mtime < MINUTE) continue;
        int lock = lock_folder(path, 0);
        if (lock < 0) continue;
        remove_folder(path);
        close(lock);
    }
    if (folders) closedir(folders);
}

bool compiler_open(compiler *c, const char *include, ls_message *why)
{
    *c = (compiler){.include = include, .messages = -1, .lock = -1};
    const char *temporary = temporary_folder();
    int length = snprintf(c->folder, sizeof c->folder, "%s/" FOLDER_NAME "XXXXXX", temporary);
    if (length >= (int)sizeof c->folder) errno = ENAMETOOLONG;
    if (length >= (int)sizeof c->folder || !mkdtemp(c->folder))
        return ls_message_set(why, "no folder for cells in TMPDIR: %s: %s", c->folder, strerror(errno)), false;
    c->lock = lock_folder(c->folder, O_CREAT);
    remove_abandoned(temporary);
    bool ok = write_header(c, why);
    if (ok) prepare_header(c);
    return ok;
}

void compiler_close(compiler *c)
{
    stop_header(c);
    remove_folder(c->folder);
    if (c->lock >= 0) close(c->lock);
    text_free(&c->flags);
}

void compiler_set_flags(compiler *c, const char *flags)
{
    text_clear(&c->flags);
    text_add(&c->flags, flags);
    prepare_header(c);
}

/* ---- Cells ---- */

/* Start it, with its messages coming to the kernel. */
static bool begin(compiler *c, command *what, string *messages)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0) return text_print(messages, "no pipe to the compiler: %s", strerror(errno)), false;
    c->running = start(c, what, ends[1]);
    close(ends[1]);
    if (c->running) {
        c->messages = ends[0];
        return true;
    }
    close(ends[0]);
    text_print(messages, "%s cannot be started: install a C compiler (Debian: gcc), or name one in CC\n",
               what->words[0]);
    return false;
}

bool compiler_begin(compiler *c, const compilation *what, char path[LONGEST_LIBRARY], string *messages)
{
    char name[32], cell[32];
    ls_message why;
    snprintf(name, sizeof name, "c%d.c", what->number);
    snprintf(cell, sizeof cell, "In[%d]", what->shown_as);
    if (!write_file(c, cell, what->code, &why) || !write_file(c, name, what->unit, &why)) {
        text_add(messages, why.text);
        return false;
    }
    command compile = command_new(c);
    char files[128];
    snprintf(files, sizeof files, "-include cell.h -x c %s -x none -shared -nostdlib -o c%d.so", name, what->number);
    add_words(&compile, files);
    add_words(&compile, text_view(&c->flags)); /* last, where libraries belong */
    add_words(&compile, "-lgcc");
    bool ok = begin(c, &compile, messages);
    command_free(&compile);
    snprintf(path, LONGEST_LIBRARY, "%s/c%d.so", c->folder, what->number);
    return ok;
}

bool compiler_listen(const compiler *c, string *messages)
{
    char piece[4096];
    ssize_t got = read(c->messages, piece, sizeof piece);
    if (got > 0) text_put(messages, piece, (size_t)got);
    return got > 0 || (got < 0 && errno == EINTR);
}

void compiler_stop(const compiler *c)
{
    if (c->running) kill(-c->running, SIGKILL);
}

bool compiler_end(compiler *c)
{
    int status = 0;
    while (waitpid(c->running, &status, 0) < 0 && errno == EINTR) continue;
    if (WIFSIGNALED(status)) { /* what it has started comes to the kernel */
        compiler_stop(c);
        while (waitpid(-c->running, NULL, 0) > 0) continue;
    }
    close(c->messages);
    c->running = 0;
    c->messages = -1;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* ---- Lines ---- */

bool compiler_find_line(const compiler *c, const char *library, uint64_t offset, int *cell, int *line)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0) return false;
    command find = {0};
    char address[32], said[1024];
    snprintf(address, sizeof address, "0x%llx", (unsigned long long)offset);
    add_words(&find, "addr2line -e");
    add_words(&find, library);
    add_words(&find, address);
    pid_t process = start(c, &find, ends[1]);
    close(ends[1]);
    size_t length = 0;
    for (ssize_t got; (got = read(ends[0], said + length, sizeof said - 1 - length)) > 0;) length += (size_t)got;
    said[length] = '\0';
    close(ends[0]);
    if (process) waitpid(process, NULL, 0);
    command_free(&find);
    const char *place = strstr(said, "In["); /* FOLDER/In[3]:4 */
    return place && sscanf(place, "In[%d]:%d", cell, line) == 2;
}
