/* exchange.c - processes of mpiexec, mpirun and srun tell each other bytes: under a process manager made here, which
 * speaks both versions of PMI, and under the real ones where they are installed. */
#include "launch/mpis.h"
#include "launch/shell.h"

#include "launch/bootstrap/exchange.h"
#include "launch/bootstrap/pmi.h"

#include <pthread.h>

enum { RANKS = 3, KEYS = 64 };

/* ---- A process manager ---- */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    char key[KEYS][64], value[KEYS][1100];
    int keys, arrived, generation, finalized;
    const char *init_answer; /* in place of the usual one */
    int value_most;
} manager = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

/* NULL: nobody has put it. */
static const char *value_of(const char *key)
{
    for (int i = 0; i < manager.keys; i++)
        if (strcmp(manager.key[i], key) == 0) return manager.value[i];
    return NULL;
}

static bool keep(const char *key, const char *value)
{
    if ((int)strlen(value) >= manager.value_most || manager.keys == KEYS) return false;
    strcpy(manager.key[manager.keys], key);
    strcpy(manager.value[manager.keys++], value);
    return true;
}

static void wait_for_all(void)
{
    int generation = manager.generation;
    if (++manager.arrived == RANKS) manager.arrived = 0, manager.generation++;
    pthread_cond_broadcast(&manager.changed);
    while (manager.generation == generation) pthread_cond_wait(&manager.changed, &manager.lock);
}

/* A line is answered as Hydra does. */
static void answer_first_version(const char *line, FILE *to)
{
    char space[64], key[64], value[1100];
    if (strcmp(line, "cmd=get_maxes\n") == 0)
        fprintf(to, "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=%d\n", manager.value_most);
    else if (strcmp(line, "cmd=get_my_kvsname\n") == 0) fputs("cmd=my_kvsname kvsname=kvs_7\n", to);
    else if (sscanf(line, "cmd=put kvsname=%63s key=%63s value=%1099s", space, key, value) == 3 &&
             strcmp(space, "kvs_7") == 0 && keep(key, value))
        fputs("cmd=put_result rc=0 msg=success\n", to);
    else if (sscanf(line, "cmd=get kvsname=%63s key=%63s", space, key) == 2) {
        const char *found = value_of(key);
        if (found) fprintf(to, "cmd=get_result rc=0 msg=success value=%s\n", found);
        else fprintf(to, "cmd=get_result rc=-1 msg=key_%s_not_found value=unknown\n", key);
    } else if (strcmp(line, "cmd=barrier_in\n") == 0) {
        wait_for_all();
        fputs("cmd=barrier_out rc=0\n", to);
    } else if (strcmp(line, "cmd=finalize\n") == 0) {
        manager.finalized++;
        fputs("cmd=finalize_ack rc=0\n", to);
    } else fprintf(to, "cmd=what rc=-1\n");
}

/* A message with its length in front is answered as Slurm does. */
static void answer_second_version(const char *message, FILE *to)
{
    char key[64], value[1100], answer[1200];
    int rank;
    if (sscanf(message, "cmd=fullinit;pmijobid=0;pmirank=%d;threaded=FALSE;", &rank) == 1)
        snprintf(answer, sizeof answer,
                 "cmd=fullinit-response;rc=0;pmi-version=2;pmi-subversion=0;rank=%d;size=%d;appnum=-1;debugged=FALSE;"
                 "pmiverbose=FALSE;",
                 rank, RANKS);
    else if (sscanf(message, "cmd=kvs-put;key=%63[^;];value=%1099[^;];", key, value) == 2 && keep(key, value))
        snprintf(answer, sizeof answer, "cmd=kvs-put-response;rc=0;");
    else if (strcmp(message, "cmd=kvs-fence;") == 0) {
        wait_for_all();
        snprintf(answer, sizeof answer, "cmd=kvs-fence-response;rc=0;");
    } else if (sscanf(message, "cmd=kvs-get;srcid=-1;key=%63[^;];", key) == 1) {
        const char *found = value_of(key);
        snprintf(answer, sizeof answer, "cmd=kvs-get-response;rc=0;found=%s;%s%s%s", found ? "TRUE" : "FALSE",
                 found ? "value=" : "", found ? found : "", found ? ";" : "");
    } else if (strcmp(message, "cmd=finalize;") == 0) {
        manager.finalized++;
        snprintf(answer, sizeof answer, "cmd=finalize-response;rc=0;");
    } else snprintf(answer, sizeof answer, "cmd=what;rc=3;");
    fprintf(to, "%-6zu%s", strlen(answer), answer);
}

static bool read_counted(FILE *from, char *message, size_t room)
{
    char count[7] = "";
    if (fread(count, 1, 6, from) != 6) return false;
    size_t size = strtoul(count, NULL, 10);
    if (size >= room || fread(message, 1, size, from) != size) return false;
    message[size] = '\0';
    return true;
}

/* Both begin with a line that says which version it is. */
static void *serve(void *socket)
{
    FILE *from = fdopen(*(int *)socket, "r"), *to = fdopen(dup(*(int *)socket), "w");
    char line[4096];
    int version = 0;
    while (version == 2 ? read_counted(from, line, sizeof line) : fgets(line, sizeof line, from) != NULL) {
        pthread_mutex_lock(&manager.lock);
        if (version == 2) answer_second_version(line, to);
        else if (version == 1) answer_first_version(line, to);
        else if (sscanf(line, "cmd=init pmi_version=%d pmi_subversion=", &version) == 1 && manager.init_answer)
            fprintf(to, "%s\n", manager.init_answer);
        else fprintf(to, "cmd=response_to_init pmi_version=%d pmi_subversion=%d rc=0\n", version, version == 1);
        pthread_mutex_unlock(&manager.lock);
        fflush(to);
    }
    fclose(from);
    fclose(to);
    return NULL;
}

typedef struct rank {
    pthread_t server, client;
    const ls_pmi_dialect *dialect;
    int number, theirs, ours;
    size_t size;
    ls_status status;
    bool right;
} rank;

static void *take_part(void *argument)
{
    rank *r = argument;
    ls_message why = {""};
    ls_pmi pmi;
    unsigned char mine[2000], all[RANKS * 2000];
    r->status = ls_pmi_open(&pmi, r->dialect, r->ours, r->number, RANKS, 60, &why);
    r->right = true;
    for (int round = 0; round < 2 && !r->status; round++) {
        memset(mine, 16 * r->number + round, r->size);
        r->status = ls_pmi_all_gather(&pmi, mine, r->size, all, 60, &why);
        for (size_t i = 0; i < RANKS * r->size; i++) r->right = r->right && all[i] == 16 * (int)(i / r->size) + round;
    }
    if (r->status) fprintf(stderr, "rank %d: %s\n", r->number, why.text);
    ls_pmi_close(&pmi);
    close(r->ours);
    return NULL;
}

static void connect_rank(rank *r, int number)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) exit(1);
    *r = (rank){.number = number, .theirs = pair[0], .ours = pair[1]};
    pthread_create(&r->server, NULL, serve, &r->theirs);
}

/* Bytes that fit in one value, that take several, and none. */
static void exchanges_by(const ls_pmi_dialect *dialect)
{
    static const size_t sizes[] = {8, 511, 2000, 0};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        manager.keys = manager.finalized = 0;
        manager.value_most = sizes[s] == 8 && dialect == &ls_pmi_1 ? 16 : 1024;
        rank ranks[RANKS];
        for (int i = 0; i < RANKS; i++) {
            connect_rank(&ranks[i], i);
            ranks[i].size = sizes[s];
            ranks[i].dialect = dialect;
            pthread_create(&ranks[i].client, NULL, take_part, &ranks[i]);
        }
        for (int i = 0; i < RANKS; i++) {
            pthread_join(ranks[i].client, NULL);
            pthread_join(ranks[i].server, NULL);
            CHECK(ranks[i].status == LS_OK && ranks[i].right);
        }
        CHECK(manager.finalized == RANKS);
    }
}

static void exchanges_by_pmi1(void)
{
    exchanges_by(&ls_pmi_1);
}

static void exchanges_by_pmi2(void)
{
    exchanges_by(&ls_pmi_2);
}

static void says_what_went_wrong(void)
{
    ls_pmi pmi;
    ls_message why = {""};
    rank one;
    unsigned char mine[8] = {0}, all[RANKS * 8];
    manager.init_answer = "cmd=response_to_init rc=-1";
    connect_rank(&one, 0);
    CHECK(ls_pmi_open(&pmi, &ls_pmi_1, one.ours, 0, RANKS, 60, &why) == LS_ERR_PEER);
    CHECK(strstr(why.text, "pmi_subversion=1\": \"cmd=response_to_init rc=-1\""));
    close(one.ours);
    pthread_join(one.server, NULL);
    manager.init_answer = NULL;

    /* The others never come: a deadline. */
    manager.value_most = 1024;
    manager.arrived = manager.keys = 0;
    connect_rank(&one, 0);
    CHECK(ls_pmi_open(&pmi, &ls_pmi_1, one.ours, 0, RANKS, 60, &why) == LS_OK);
    CHECK(ls_pmi_all_gather(&pmi, mine, 8, all, 0.1, &why) == LS_ERR_PEER);
    CHECK(strstr(why.text, "rank 0 of 3: no answer in time"));
    pthread_mutex_lock(&manager.lock);
    manager.arrived = 0;
    manager.generation++;
    pthread_cond_broadcast(&manager.changed);
    pthread_mutex_unlock(&manager.lock);
    close(one.ours);
    pthread_join(one.server, NULL);

    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) return;
    close(pair[0]);
    CHECK(ls_pmi_open(&pmi, &ls_pmi_1, pair[1], 1, RANKS, 60, &why) == LS_ERR_PEER);
    CHECK(strstr(why.text, "rank 1 of 3: the process manager is gone"));
    close(pair[1]);

    /* Another number of processes than the environment said. */
    connect_rank(&one, 0);
    CHECK(ls_pmi_open(&pmi, &ls_pmi_2, one.ours, 0, RANKS + 1, 60, &why) == LS_ERR_PEER);
    CHECK(strstr(why.text, "PMI: 3 processes, but the environment says 4"));
    CHECK(ls_pmi_open(&pmi, &ls_pmi_2, one.ours, 0, RANKS, 0.1, &why) == LS_ERR_PEER); /* not twice */
    close(one.ours);
    pthread_join(one.server, NULL);

    ls_exchange *exchange;
    ls_identity who = {.source = "nobody", .world = 1, .bootstrap = LS_BOOTSTRAP_ALONE, .pmi_fd = -1};
    CHECK(ls_exchange_open(&exchange, &who, 60, &why) == LS_ERR_UNSUPPORTED && !exchange);
    CHECK(strstr(why.text, "nobody started one process"));
}

/* ---- The real ones ---- */

static void exchanges(void)
{
    const char *mpirun = mpi_in_use->mpiexec;
#ifdef LS_SANITIZE_THREAD
    if (mpi_is(OPEN_MPI)) CHECK_SKIP("the thread sanitizer does not follow the threads of libpmix");
#endif
    char line[128];
    static const int sizes[] = {8, 3000};
    for (int s = 0; s < 2; s++) {
        CHECK(run("%s -n 3 " WORKER " %d </dev/null", mpirun, sizes[s]) == 0);
        for (int i = 0; i < 3; i++) {
            snprintf(line, sizeof line, "%s %d/3 right\n", mpi_in_use->source, i);
            CHECK(says(line));
        }
    }
    run("%s -n 2 " WORKER " 8 absent </dev/null", mpirun);
    CHECK(says(mpi_is(OPEN_MPI) ? "Open MPI 0/2 PMIx: rank 0 of 2: not every rank"
                                : "Hydra 0/2 PMI: rank 0 of 2: no answer in time"));
}

int main(int argc, char **argv)
{
    begin_shell(argc, argv);
    signal(SIGPIPE, SIG_IGN); /* the manager answers clients that have given up */
    CHECK_RUN(exchanges_by_pmi1);
    CHECK_RUN(exchanges_by_pmi2);
    CHECK_RUN(says_what_went_wrong);
    setenv("ASAN_OPTIONS", "detect_leaks=0", 1); /* libpmix keeps what it has */
    CHECK_RUN_MPIS(exchanges);
    return check_done();
}
