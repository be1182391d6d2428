#!/usr/bin/env python3
"""Training launched from a cell: options, refusals, what the ranks print, restarts, interrupts, a model made before.

    launch.py COMMAND        (lockstep)
"""
import os
import re
import socket
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import jupyter

jupyter.need("jupyter_client")

RANK = 'int rank(void) { return atoi(getenv("RANK")); }\n'

FAILED = "LaunchError: ls_launch: the job failed with code %d"
REFUSED = FAILED % 2


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Launch(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.notebook = jupyter.Notebook()
        cls.folder = tempfile.TemporaryDirectory()

    @classmethod
    def tearDownClass(cls):
        cls.notebook.end()
        cls.folder.cleanup()

    def setUp(self):
        self.notebook.run("%reset")
        self.ok(RANK)

    def ok(self, code):
        outcome = self.notebook.run(code)
        self.assertEqual(outcome.status, "ok", outcome.error())
        return outcome

    def fails(self, code, error):
        """The value of the cell is shown, and the cell is an error all the same."""
        outcome = self.notebook.run(code)
        self.assertEqual((outcome.status, outcome.error()), ("error", error))
        self.assertEqual(outcome.messages[-1][0], "error", "after the cell's output")
        return outcome

    def begin_and_await(self, code, words, count):
        """Start a cell; go on when it has printed these words so many times."""
        begun = self.notebook.begin(code)
        while count > 0:
            kind, content = self.notebook.next(begun)
            count -= content["text"].count(words) if kind == "stream" else 0
        return begun

    def test_every_option_reaches_the_workers(self):
        self.ok('int tell(void *user) {\n'
                '    static const char *const names[] = {"WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",\n'
                '        "ACCELERATE_MIXED_PRECISION", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_MAX_RESTARTS", "OWN"};\n'
                '    for (int i = 0; rank() == 0 && i < 8; i++) printf("%s=%s\\n", names[i], getenv(names[i]));\n'
                '    return 0;\n}\nconst char *const more[] = {"OWN=yes", NULL};')
        port = free_port()
        outcome = self.ok('ls_launch(tell, NULL, .num_processes = 2, .num_hosts = 1, .host_rank = 0,\n'
                          '          .master_addr = "localhost", .master_port = %d, .mixed_precision = "bf16",\n'
                          '          .run_id = "job7", .max_restarts = 3, .join_timeout = 60, .last_call = 1,\n'
                          '          .environment = more)' % port)
        self.assertEqual(outcome.result(), "0", outcome.stream("stderr"))
        self.assertEqual(outcome.stream(), "Launching training on 2 CPUs.\nWORLD_SIZE=2\nLOCAL_WORLD_SIZE=2\n"
                         "MASTER_ADDR=localhost\nMASTER_PORT=%d\nACCELERATE_MIXED_PRECISION=bf16\n"
                         "TORCHELASTIC_RUN_ID=job7\nTORCHELASTIC_MAX_RESTARTS=3\nOWN=yes\n" % port)

    def test_a_refusal_names_the_cure(self):
        self.ok("#include <pthread.h>\nint nothing(void *user) { return 0; }\nvoid *wait(void *user) { pause(); return user; }")
        for options, words in (
                ("", "give the number of processes: .num_processes ="),
                (", .num_processes = 0", "must be from 1 to 4096"),
                (", .num_processes = 2, .num_hosts = 2, .host_rank = 2, .master_addr = \"a\"",
                 "must be less than the number of hosts, 2"),
                (", .num_processes = 2, .num_hosts = 2", "need to specify the main process IP"),
                (", .num_processes = 2, .mixed_precision = \"fp17\"", "must be no, fp16, bf16 or fp8"),
                (", .num_processes = 2, .max_restarts = -1", "must not be negative"),
                (", .num_processes = 2, .num_hosts = 2, .endpoint = \"a:70000\"", "give host:port")):
            outcome = self.fails("ls_launch(nothing, NULL%s)" % options, REFUSED)
            self.assertEqual((outcome.result(), outcome.stream()), ("2", ""), options)
            self.assertIn(words, outcome.stream("stderr"))
        self.ok("ls_run *run = ls_init(NULL, NULL);")
        outcome = self.fails("ls_launch(nothing, NULL, .num_processes = 2)", REFUSED)
        self.assertEqual(outcome.result(), "2")
        self.assertIn("call ls_init() inside the launched function, or ls_finish() this run", outcome.stream("stderr"))
        self.assertEqual(self.ok("ls_finish(run);\nls_launch(nothing, NULL, .num_processes = 2)").result(), "0")
        outcome = self.fails("pthread_t thread; pthread_create(&thread, NULL, wait, NULL);\n"
                             "ls_launch(nothing, NULL, .num_processes = 2)", REFUSED)
        self.assertEqual(outcome.result(), "2")
        self.assertIn("launch before starting threads", outcome.stream("stderr"))

    def test_lines_of_other_ranks_are_marked(self):
        self.ok('int say(void *user) { printf("out\\n"); if (rank()) fprintf(stderr, "err"); return 0; }')
        outcome = self.ok("ls_launch(say, NULL, .num_processes = 3)")
        self.assertEqual(sorted(outcome.stream().splitlines()[1:]), ["[rank 1] out", "[rank 2] out", "out"])
        self.assertEqual(sorted(outcome.stream("stderr").splitlines()), ["[rank 1] err", "[rank 2] err"])
        self.assertEqual(self.ok("ls_launch(say, NULL, .num_processes = 2, .prefix = false)").stream(),
                         "Launching training on 2 CPUs.\nout\nout\n")
        outcome = self.ok('ls_launch(say, NULL, .num_processes = 2, .prefix_main = true, .prefix_template = "${local_rank}>")')
        self.assertEqual(sorted(outcome.stream().splitlines()[1:]), ["0>out", "1>out"])

    def test_one_process_runs_in_the_session(self):
        self.ok("int count = 0;\nint once(void *user) { count++; return 3; }")
        outcome = self.fails("ls_launch(once, NULL, .num_processes = 1)", FAILED % 3)
        self.assertEqual(outcome.result(), "3")
        self.assertEqual(self.ok("count").result(), "1")

    def test_failures_are_told_and_restarted(self):
        left = os.path.join(self.folder.name, "left")
        with open(left, "w") as file:
            file.write("...")
        # One character is taken by each attempt, which then fails, as in accelerate's own test.
        self.ok('#include <sys/stat.h>\nint take(void *user) {\n    struct stat about;\n    if (rank()) return 0;\n'
                '    ls_notebook_update("attempt", "text/plain", getenv("TORCHELASTIC_RESTART_COUNT"), 1);\n'
                '    return stat(user, &about) == 0 && about.st_size > 0 && truncate(user, about.st_size - 1) == 0;\n}')
        call = 'ls_launch(take, "%s", .num_processes = 2, .max_restarts = %d)'
        outcome = self.ok(call % (left, 3))
        self.assertEqual(outcome.result(), "0")
        self.assertIn("restart 3 of 3", outcome.stream("stderr"))
        shown = [m["data"]["text/plain"] for kind, m in outcome.messages if kind.endswith("display_data")]
        self.assertEqual(shown, ["0", "1", "2", "3"])
        self.assertEqual(len(outcome.of_kind("display_data")), 1, "a restarted worker shows things in the same place")
        with open(left, "w") as file:
            file.write("...")
        outcome = self.fails(call % (left, 2), FAILED % 1)
        self.assertEqual(outcome.result(), "1")
        self.assertIn("first cause: rank 0", outcome.stream("stderr"))

    def test_a_crash_of_one_rank_ends_the_others(self):
        self.ok('int crash(void *user) { if (rank() == 0) { fprintf(stderr, "rank 0 does not like to sleep\\n"); abort(); }'
                ' sleep(1000); return 0; }')
        outcome = self.fails("int code = ls_launch(crash, NULL, .num_processes = 2);\ncode", FAILED % 134)
        self.assertEqual(self.ok("code").result(), "134", "the cell ran to its end")
        self.assertEqual(outcome.result(), "134")
        self.assertIn("rank 0 does not like to sleep", outcome.stream("stderr"))
        self.assertIn("was killed by SIGABRT", outcome.stream("stderr"))

    def test_an_interrupt_reaches_all_ranks(self):
        self.ok('int polite(void *user) {\n    ls_run *run = ls_init(NULL, NULL);\n    printf("runs\\n");\n'
                '    while (!ls_should_stop(run)) usleep(1000);\n    printf("saved\\n");\n    return ls_finish(run);\n}')
        begun = self.begin_and_await("ls_launch(polite, NULL, .num_processes = 2)", "runs", 2)
        self.notebook.manager.interrupt_kernel()
        outcome = self.notebook.finish(begun)
        self.assertEqual((outcome.status, outcome.result()), ("error", "130"))
        self.assertEqual(outcome.error(), "Interrupted: ls_launch: the job was interrupted, code 130")
        self.assertEqual(outcome.stream().count("saved"), 2)
        self.assertEqual(len(jupyter.processes(self.notebook)), 1)

    def test_the_second_interrupt_ends_all_ranks(self):
        self.ok('int before = 1;\nint rude(void *user) { printf("runs\\n"); for (;;) pause(); return 0; }')
        begun = self.begin_and_await("before = 2; ls_launch(rude, NULL, .num_processes = 2)", "runs", 2)
        self.assertEqual(len(jupyter.processes(self.notebook)), 5) # snapshot, cell, supervisor and two ranks
        self.notebook.manager.interrupt_kernel()
        self.notebook.manager.interrupt_kernel()
        self.assertIn("Interrupted", self.notebook.finish(begun).error())
        self.assertEqual(self.ok("before").result(), "1")
        self.assertTrue(jupyter.settles(lambda: len(jupyter.processes(self.notebook)) == 1))

    def test_nothing_outlives_a_killed_kernel(self):
        other = jupyter.Notebook()
        other.run(RANK + 'int forever(void *user) { printf("runs\\n"); for (;;) pause(); return 0; }')
        asked, seen = other.begin("ls_launch(forever, NULL, .num_processes = 2, .shutdown_timeout = 1)"), 0
        while seen < 2:
            kind, content = other.next(asked)
            seen += content["text"].count("runs") if kind == "stream" else 0
        mine = jupyter.processes(other)
        self.assertEqual(len(mine), 5)
        other.manager.shutdown_kernel(now=True)
        other.client.stop_channels()
        self.assertTrue(jupyter.all_end(mine))

    def test_a_model_of_an_earlier_cell_is_inherited(self):
        self.ok("ls_run *outer = ls_init(NULL, NULL, .device = \"cpu\", .seed = 7);\n"
                "ls_module *model = ls_sequential_new(outer, ls_linear_new(outer, 4, 3), ls_linear_new(outer, 3, 2));")
        self.ok("double total(ls_run *run, ls_module *of) {\n"
                "    return ls_item(ls_sum(ls_forward(of, ls_ones(run, LS_F32, 1, 4))));\n}")
        before = float(self.ok("total(outer, model)").result())
        self.ok('int learn(void *user) {\n    ls_run *run = ls_init(NULL, NULL);\n'
                '    ls_module *mine = ls_launched_model(run);\n    ls_optim *sgd = ls_sgd_new(run, mine, .lr = 0.1);\n'
                '    ls_prepare(run, mine, sgd);\n    printf("%.6f\\n", total(run, mine));\n'
                '    ls_backward(run, ls_sum(ls_forward(mine, ls_ones(run, LS_F32, 1, 4))));\n    ls_step(sgd);\n'
                '    printf("%.6f\\n", total(run, mine));\n    return ls_finish(run);\n}')
        outcome = self.ok("ls_launch(learn, NULL, .num_processes = 2, .model = model)")
        self.assertEqual(outcome.result(), "0", outcome.stream("stderr"))
        told = [float(n) for n in re.findall(r"-?\d+\.\d{6}", outcome.stream())]
        self.assertEqual(len(told), 4)
        self.assertEqual(sum(abs(n - before) < 1e-5 for n in told), 2, (before, told))
        self.assertAlmostEqual(float(self.ok("total(outer, model)").result()), before, places=6)


if __name__ == "__main__":
    folder = jupyter.install(sys.argv.pop(1))
    unittest.main(verbosity=1)
