#!/usr/bin/env python3
"""Cells through Jupyter's client: values that stay, redefinitions, errors, crashes, interrupts, what is shown.

    kernel.py COMMAND        (lockstep)
"""
import base64
import glob
import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import jupyter

jupyter.need("jupyter_client")


def png_size(encoded):
    """Width and height of a PNG file in base 64."""
    png = base64.b64decode(encoded)
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    return int.from_bytes(png[16:20], "big"), int.from_bytes(png[20:24], "big")


def private_memory(pids):
    """Bytes in memory of processes, where what several of them share counts once."""
    total = 0
    for pid in pids:
        with open("/proc/%d/smaps_rollup" % pid) as file:
            total += sum(int(line.split()[1]) for line in file if line.startswith("Pss_Anon"))
    return total << 10


class EndlessCompilation:
    """A cell whose compiler runs until it is stopped: it waits for a pipe to be written."""

    def __init__(self, notebook):
        self.folder = tempfile.TemporaryDirectory()
        pipe = self.folder.name + "/endless.h"
        os.mkfifo(pipe)
        notebook.run("1") # the header that all cells begin with is compiled
        before = jupyter.processes(notebook)
        self.begun = notebook.begin('int unreached = 1;\n#include "%s"\n' % pipe)
        self.pipe = os.open(pipe, os.O_WRONLY) # returns when the compiler opens it
        self.processes = [pid for pid in jupyter.processes(notebook) if pid not in before]

    def ends(self):
        ended = jupyter.all_end(self.processes)
        os.close(self.pipe)
        self.folder.cleanup()
        return ended


class Cells(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.notebook = jupyter.Notebook()

    @classmethod
    def tearDownClass(cls):
        cls.notebook.end()

    def ok(self, code):
        outcome = self.notebook.run(code)
        self.assertEqual(outcome.status, "ok", outcome.error())
        return outcome

    def fails(self, code):
        outcome = self.notebook.run(code)
        self.assertEqual(outcome.status, "error")
        self.assertTrue(outcome.error(), "an error is told to everybody as well")
        return outcome

    def shows(self, code, value):
        self.assertEqual(self.ok(code).result(), value)

    def test_values_stay_and_are_shown(self):
        self.ok("int n = 6;\nint *p = &n;")
        self.ok("n++;")
        self.shows("*p * 6", "42")
        self.shows("n > 3 && true", "1")
        self.shows('"text"', "text")
        self.shows("1 / 3.0", "0.3333333")
        self.shows("(char)'a'", "'a'")
        self.shows("LS_SHAPE(2, 3)", "[2,3]")
        self.shows("struct two { int a, b; } two = {1, 2};\ntwo", "a struct of 8 bytes: name a member to see its value")
        self.assertIsNone(self.ok("n;").result())

    def test_output_comes_while_the_cell_runs(self):
        begun = self.notebook.begin('printf("first\\n"); while (access("/dev/null/never", F_OK) && !ls_notebook_interrupted())'
                                    ' usleep(1000);')
        while self.notebook.next(begun)[0] != "stream":
            pass
        self.notebook.manager.interrupt_kernel()
        self.assertEqual(self.notebook.finish(begun).status, "ok")

    def test_output_is_in_order(self):
        outcome = self.ok('printf("a"); ls_notebook_display("text/plain", "b", 1); fputs("c", stdout);')
        self.assertEqual([kind for kind, _ in outcome.messages if kind != "execute_input" and kind != "status"],
                         ["stream", "display_data", "stream"])
        self.assertEqual(self.ok('fputs("gr\\303\\274n", stderr);').stream("stderr"), "grün")

    def test_a_cell_prints_whatever_the_one_before_closed(self):
        for code in ("close(1); close(2);", "fclose(stdout); fclose(stderr);", "fclose(stdout);",
                     'freopen("/dev/null", "w", stdout);', 'freopen("/dev/null/never", "w", stdout);',
                     "stdout = stderr;", "dup2(1, 2);"):
            self.ok(code)
            outcome = self.ok('printf("out\\n"); fprintf(stderr, "err\\n");')
            self.assertEqual((outcome.stream(), outcome.stream("stderr")), ("out\n", "err\n"), code)

    def test_definitions_can_be_changed(self):
        self.ok("double g(double x) { return 2 * x; }")
        self.ok("static double caller(void) { return g(1); }")
        self.ok("double g(double x) { return 3 * x; }")
        self.shows("g(1)", "3")
        self.shows("caller()", "2")
        for code in ("int again = 1;", "int again = 2;", "double again = 2.5;"):
            self.ok(code)
        self.shows("again", "2.5")
        self.ok("#define SIZE 2\nint sized[SIZE] = {1, 2};")
        self.assertIn("sized", self.ok("#define SIZE 3").stream("stderr"))
        self.assertIn("sized", self.fails("sized[0]").error())

    def test_names_of_libraries_can_be_used(self):
        self.ok("int step(int x) { return x + 1; }\nint index = 3;")
        self.shows("step(index)", "4")

    def test_initialisers_of_all_kinds(self):
        self.ok("const int five = 5; int numbers[] = {1, 2, 3}; char word[8] = \"abc\"; float grid[2][2] = {{1}, {2, 3}};")
        self.ok("struct { int a; double b; } pair = {.b = sqrt(4)}; int *heap = malloc(sizeof *heap);")
        self.shows("five + (int)(sizeof numbers / sizeof *numbers) + (int)strlen(word)", "11")
        self.shows("grid[1][1] + pair.b", "5")
        self.ok("*heap = 1;")

    def test_errors_point_at_the_line(self):
        self.assertIn("In[", self.fails("int a1;\n\nmissing(1);").error())
        outcome = self.fails("int a2;\n  a2 = missing;\n")
        self.assertRegex(outcome.error(), r"In\[\d+\]:2:8: error: .missing. undeclared")
        self.assertIn("error", self.fails("int = 3;").error())
        self.assertIn("undeclared", self.fails("a2").error())
        self.assertIn("In[%d]:2: the comment" % (self.ok("1").reply["execution_count"] + 1),
                      self.fails('printf("never");\n/* begun\n').error())
        self.assertRegex(self.fails('int a3;\nputs("begun);\n').error(), r"In\[\d+\]:2:6: error: missing terminating")
        self.assertIn("incompatible", self.fails("int *q1 = 0; double *q2 = q1;").error())

    def test_a_cell_may_have_a_thousand_variables(self):
        self.ok("\n".join("int many_%d = %d;" % (i, i) for i in range(1000)))
        self.shows("many_0 + many_500 + many_999", "1499")

    def test_a_missing_symbol_is_an_error(self):
        self.assertIn("no_such_function", self.fails("void no_such_function(void);\nno_such_function();").error())

    def test_crashes_leave_the_session_as_it_was(self):
        self.ok("int kept = 1;")
        for code, how in (("*(volatile int *)0 = 1;", "Segmentation fault"), ("abort();", "Aborted"),
                          ("exit(3);", r"exit\(3\)"), ("int *q = &kept; raise(9);", "Killed")):
            outcome = self.fails("#include <signal.h>\nkept = 2; int lost = 1;\n" + code)
            self.assertRegex(outcome.error(), how)
            self.assertIn("as it was before the cell", outcome.error())
            self.shows("kept", "1")
            self.assertIn("undeclared", self.fails("lost").error())

    def test_a_crash_tells_its_line(self):
        for code, line, quoted in (("int x = 1;\n  *(volatile int *)0 = x;", 2, "*(volatile int *)0 = x;"),
                                   ("\n\nabort();", 3, "abort();"),
                                   ("free((void *)16);", 1, "free((void *)16);"),
                                   ('#include <signal.h>\nraise(SIGFPE);', 2, "raise(SIGFPE);")):
            outcome = self.fails(code)
            number = outcome.reply["execution_count"]
            self.assertIn(" at In[%d]:%d:\n    %s\n" % (number, line, quoted), outcome.error())

    def test_handlers_of_a_cell_outlive_it(self):
        self.ok("#include <signal.h>\nint handled = 0;\nvoid handle(int number) { handled = number; }")
        self.ok("signal(SIGFPE, handle);")
        self.ok("raise(SIGFPE);")
        self.shows("handled == SIGFPE", "1")
        self.ok("signal(SIGFPE, SIG_DFL);")

    def test_a_crash_in_a_function_tells_the_line_of_its_cell(self):
        number = self.ok("int written(int *to)\n{\n    *to = 1;\n    return 0;\n}").reply["execution_count"]
        self.assertIn(" at In[%d]:3:\n    *to = 1;\n" % number, self.fails("written(0)").error())
        number = self.ok("__attribute__((noinline)) int deep(int n)\n{\n"
                         "    return n * deep(n + 1) + deep(n);\n}").reply["execution_count"]
        self.assertIn("Segmentation fault at In[%d]:" % number, self.fails("deep(1)").error())

    def test_the_second_interrupt_ends_a_cell(self):
        self.ok("int before = 1;")
        begun = self.notebook.begin('before = 2; printf("runs\\n"); for (;;);')
        while self.notebook.next(begun)[0] != "stream":
            pass
        self.notebook.manager.interrupt_kernel()
        self.notebook.manager.interrupt_kernel()
        self.assertIn("Interrupted", self.notebook.finish(begun).error())
        self.shows("before", "1")

    def test_the_first_interrupt_stops_the_compiler(self):
        self.ok("int kept_meanwhile = 1;")
        compilation = EndlessCompilation(self.notebook)
        self.notebook.manager.interrupt_kernel()
        self.assertIn("Interrupted: the compiler was stopped", self.notebook.finish(compilation.begun).error())
        self.assertTrue(compilation.ends())
        self.shows("kept_meanwhile", "1")
        self.assertIn("undeclared", self.fails("unreached").error())

    def test_a_cell_is_interrupted_while_the_header_is_compiled(self):
        self.ok("1")
        with tempfile.TemporaryDirectory() as folder:
            pipe = folder + "/endless.h"
            os.mkfifo(pipe)
            self.ok("%flags -include " + pipe)
            begun = self.notebook.begin("int too_early = 1;")
            end = os.open(pipe, os.O_WRONLY) # returns when the compiler opens it
            self.notebook.manager.interrupt_kernel()
            self.assertIn("Interrupted: the compiler was stopped", self.notebook.finish(begun).error())
            self.ok("%flags none")
            os.close(end)
        self.assertIn("undeclared", self.fails("too_early").error())

    def test_a_place_is_updated(self):
        outcome = self.ok('for (int i = 0; i < 3; i++) { char t[8]; snprintf(t, 8, "%d", i);'
                          ' ls_notebook_update("bar", "text/plain", t, strlen(t)); }')
        self.assertEqual(len(outcome.of_kind("display_data")), 1)
        self.assertEqual([m["data"]["text/plain"] for m in outcome.of_kind("update_display_data")], ["1", "2"])
        self.assertRegex(outcome.of_kind("display_data")[0]["transient"]["display_id"], "^cell .*: bar$")

    def test_pictures(self):
        outcome = self.ok('ls_notebook_display("image/png", "\\0\\1\\2\\3", 4);')
        self.assertEqual(outcome.of_kind("display_data")[0]["data"], {"image/png": "AAECAw==", "text/plain": "(a picture)"})
        outcome = self.ok('ls_notebook_display("text/markdown", "**bold**", 8);')
        self.assertEqual(outcome.of_kind("display_data")[0]["data"], {"text/markdown": "**bold**", "text/plain": "**bold**"})
        self.assertIn("not a picture", self.ok('ls_notebook_picture("x.txt")').stream("stderr"))

    def test_magics(self):
        self.assertRegex(self.ok("%time\nusleep(10);").stream(), r"ran \d+\.\d+ s, compiled")
        self.assertRegex(self.ok("int listed;\n") and self.ok("%who").stream(), r"listed +variable +In")
        self.assertIn("%time", self.fails("%tiem").error())
        self.ok("%flags -DFROM_FLAGS=9")
        self.shows("FROM_FLAGS", "9")
        self.ok("%flags none")
        self.fails("FROM_FLAGS")

    def test_names_are_completed_and_explained(self):
        self.ok("int a_long_name;")
        reply = self.notebook.ask("complete_request", code="x = a_long", cursor_pos=10)
        self.assertEqual((reply["matches"], reply["cursor_start"]), (["a_long_name"], 4))
        reply = self.notebook.ask("complete_request", code='"ü" ls_cross_ent', cursor_pos=16)
        self.assertIn("ls_cross_entropy", reply["matches"])
        self.assertEqual((reply["cursor_start"], reply["cursor_end"]), (4, 16))
        reply = self.notebook.ask("inspect_request", code="ls_describe(net)", cursor_pos=4, detail_level=0)
        self.assertIn("table of layers", reply["data"]["text/plain"])
        self.assertFalse(self.notebook.ask("inspect_request", code="nonsense", cursor_pos=3, detail_level=0)["found"])

    def test_help_is_shown_in_the_pager(self):
        self.ok("/* Twice the number. */\nint twice(int n) { return 2 * n; }")
        for name, words in (("twice", "int twice"), ("ls_describe", "table of layers")):
            payload = self.ok("%help " + name).reply["payload"]
            self.assertEqual([p["source"] for p in payload], ["page"])
            self.assertIn(words, payload[0]["data"]["text/plain"])
        self.assertIn("neither defined by a cell", self.fails("%help nonsense").error())
        self.assertEqual(self.ok("1").reply["payload"], [])

    def test_what_a_cell_shows_is_removed(self):
        outcome = self.ok('ls_notebook_update("a", "text/plain", "1", 1); ls_notebook_clear();'
                          ' ls_notebook_update("a", "text/plain", "2", 1);')
        kinds = [kind for kind, _ in outcome.messages if kind not in ("execute_input", "status")]
        self.assertEqual(kinds, ["display_data", "clear_output", "display_data"])

    def test_history(self):
        self.ok("int in_history;")
        reply = self.notebook.ask("history_request", hist_access_type="tail", n=1, raw=True, output=False)
        self.assertEqual(reply["history"][0][2], "int in_history;")

    def test_an_unsigned_message_is_ignored(self):
        session = self.notebook.client.session
        key, session.key = session.key, b"another key"
        self.notebook.client.execute("int never = 1;")
        session.key = key
        self.assertIn("undeclared", self.fails("never").error())

    def test_a_message_that_cannot_be_read_is_answered(self):
        self.assertRegex(self.fails('puts("a\0b");').error(), r"^MessageError: .*the character U\+0000 is not accepted")
        reply = self.notebook.ask("complete_request", code="pri\0", cursor_pos=3)
        self.assertEqual((reply["status"], reply["ename"]), ("error", "MessageError"))
        self.shows("1 + 1", "2")

    def test_a_cell_reads_from_the_user(self):
        begun = self.notebook.begin('int typed; char word[20];\nscanf("%d %19s", &typed, word);', allow_stdin=True)
        for line in ("12", "words"):
            self.assertEqual(self.notebook.client.get_stdin_msg(timeout=120)["msg_type"], "input_request")
            self.notebook.client.input(line)
        self.assertEqual(self.notebook.finish(begun).status, "ok")
        self.shows("typed", "12")
        self.shows("word", "words")
        outcome = self.ok("getchar()")
        self.assertEqual(outcome.result(), "-1")
        self.assertIn("cannot ask", outcome.stream("stderr"))

    def test_cells_behind_an_error_are_not_run(self):
        with tempfile.TemporaryDirectory() as folder:
            code = 'int ran = 1; while (access("%s/go", F_OK)) usleep(1000);\nusleep(100000); abort();' % folder
            begun = [self.notebook.begin(one) for one in (code, "int unreached = 2;")]
            open(folder + "/go", "w").close()
            statuses = [self.notebook.finish(one).status for one in begun]
        self.assertEqual(statuses, ["error", "aborted"])
        begun = self.notebook.begin("abort();", stop_on_error=False), self.notebook.begin("3")
        self.assertEqual([self.notebook.finish(one).status for one in begun], ["error", "ok"])

    def test_a_silent_cell_leaves_no_trace(self):
        count = self.ok("1").reply["execution_count"]
        asked = self.notebook.begin("2", silent=True)
        self.assertIsNone(self.notebook.finish(asked).result())
        self.assertEqual(self.ok("1").reply["execution_count"], count + 1)


class Sessions(unittest.TestCase):
    def setUp(self):
        self.notebook = jupyter.Notebook()

    def tearDown(self):
        self.notebook.end()

    def test_values_are_lost_with_threads_and_definitions_kept(self):
        run = self.notebook.run
        run("#include <pthread.h>\nint value = 5;\nint seven(void) { return 7; }\nvoid *sleeper(void *a) { pause(); return a; }")
        run("pthread_t thread; pthread_create(&thread, NULL, sleeper, NULL);")
        error = run("abort();").error()
        self.assertIn("had threads", error)
        self.assertIn("values of all variables are lost", error)
        self.assertEqual(run("seven() + value").result(), "7")

    def assert_lost(self, how):
        """The next cell tells that values are lost and does not run; the one after it finds the definitions."""
        error = self.notebook.run("kept = 1;").error()
        self.assertRegex(error, "the session ended before this cell: .*" + how)
        self.assertIn("values of all variables are lost, definitions are kept", error)
        self.assertEqual(self.notebook.run("seven() + kept").result(), "7")

    def test_a_session_that_is_killed_between_cells_is_missed(self):
        self.notebook.run("int kept = 5;\nint seven(void) { return 7; }")
        os.kill(jupyter.processes(self.notebook)[0], signal.SIGKILL)
        self.assert_lost("Killed by SIGKILL")
        os.kill(jupyter.processes(self.notebook)[0], signal.SIGKILL)
        self.notebook.run("%reset")
        self.assertEqual(self.notebook.run("1 + 1").result(), "2", "nothing that was wanted is lost")

    def test_a_thread_that_crashes_between_cells_is_noticed(self):
        with tempfile.TemporaryDirectory() as folder:
            self.notebook.run('#include <pthread.h>\nint kept = 5;\nint seven(void) { return 7; }\n'
                              'void *crash(void *go) { while (access(go, F_OK)) usleep(1000); abort(); return go; }')
            outcome = self.notebook.run('pthread_t thread; pthread_create(&thread, NULL, crash, "%s/go");\ngetpid()' % folder)
            open(folder + "/go", "w").close()
            self.assertTrue(jupyter.all_end([int(outcome.result())]))
        self.assert_lost("Aborted")

    def test_a_copy_that_is_killed_with_its_cell_is_no_question_of_threads(self):
        self.notebook.run("int kept = 5;")
        before = jupyter.processes(self.notebook)
        begun = self.notebook.begin('printf("runs\\n"); for (;;);')
        while self.notebook.next(begun)[0] != "stream":
            pass
        os.kill(before[0], signal.SIGKILL)
        error = self.notebook.finish(begun).error()
        self.assertRegex(error, "Crash: Killed by SIGKILL: .*out of memory")
        self.assertIn("copy of the session that was made before the cell has ended, too", error)
        self.assertNotIn("threads", error)

    def test_a_process_that_a_cell_forks_ends_with_the_cell(self):
        outcome = self.notebook.run("int kept = 5;\npid_t other = fork();\nif (!other) kept = 6;\nother")
        self.assertEqual(outcome.status, "ok", outcome.error())
        self.assertEqual(len(outcome.of_kind("execute_result")), 1)
        self.assertNotEqual(outcome.result(), "0")
        for value in ("5", "6", "7"):
            self.assertEqual(self.notebook.run("kept++").result(), value)
        self.assertTrue(jupyter.settles(lambda: len(jupyter.processes(self.notebook)) == 1))

    def test_there_is_one_copy_while_a_cell_runs_and_none_after(self):
        run = self.notebook.run
        run("enum { SIZE = 64 << 20 };\nchar *memory = malloc(SIZE);\nmemset(memory, 1, SIZE);")
        self.assertEqual(len(jupyter.processes(self.notebook)), 1)
        before = private_memory(jupyter.processes(self.notebook))
        self.assertTrue(60 << 20 < before < 200 << 20, before)
        pause = 'printf("runs\\n"); while (!ls_notebook_interrupted()) usleep(1000);'
        for code, copies in ((pause, 1), ("memset(memory, 2, SIZE); " + pause, 2)):
            begun = self.notebook.begin(code)
            while self.notebook.next(begun)[0] != "stream":
                pass
            both = jupyter.processes(self.notebook)
            self.assertEqual(len(both), 2)
            self.assertLess(abs(private_memory(both) - copies * before), before / 4)
            self.notebook.manager.interrupt_kernel()
            self.notebook.finish(begun)
        for i in range(10):
            run("memset(memory, %d, SIZE);" % i)
        self.assertEqual(len(jupyter.processes(self.notebook)), 1)
        self.assertLess(private_memory(jupyter.processes(self.notebook)), 1.25 * before)

    def test_a_session_is_not_copied_without_memory_for_two(self):
        with tempfile.TemporaryDirectory() as place:
            with open(place + "/meminfo", "w") as file:
                file.write("MemTotal: 524288 kB\nMemAvailable: 262144 kB\n")
            mount = "mount --bind %s/meminfo /proc/meminfo" % place
            if subprocess.run(["unshare", "-m", "sh", "-c", mount], capture_output=True).returncode != 0:
                self.skipTest("mounts are not allowed")
            jupyter.wrap("lockstep-small", ["unshare", "-m", "sh", "-c", mount + ' && exec "$@"', "sh"])
            other = jupyter.Notebook("lockstep-small")
        other.run("int value = 5;")
        self.assertIn("values and definitions are kept", other.run("abort();").error())
        other.run("char *memory = malloc(300 << 20);\nmemset(memory, 1, 300 << 20);")
        self.assertIn("needed more memory than is free", other.run("abort();").error())
        other.end()

    def test_a_crash_after_training_keeps_definitions(self):
        run = self.notebook.run
        run("ls_run *run = ls_init(NULL, NULL); int value = 5;\nint seven(void) { return 7; }")
        run("ls_tensor *a = ls_randn(run, LS_F32, 512, 512);\nls_matmul(a, a);")
        error = run("abort();").error()
        if "had threads" not in error:
            self.skipTest("one CPU: training starts no threads")
        self.assertEqual(run("seven() + value").result(), "7")

    def test_a_training_step(self):
        run = self.notebook.run
        outcome = run("ls_run *run = ls_init(NULL, NULL);\nls_module *net = ls_linear_new(run, 4, 2);\nnet")
        self.assertIn("10 parameters", outcome.result())
        outcome = run("ls_tensor *x = ls_ones(run, LS_F32, 3, 4);\nls_forward(net, x)")
        self.assertIn("[3,2] f32", outcome.result())
        outcome = run("ls_arange(run, LS_I32, 20, 0, 1)")
        table = outcome.of_kind("execute_result")[0]["data"]["text/html"]
        self.assertIn("<td>10</td><td>11</td><td>&hellip;</td>", table)
        self.assertIn("[20] i32, cpu", table)
        for code in ("ls_zeros(run, LS_F32, 2, 3, 4)", "ls_zeros(run, LS_BF16, 2)", "ls_zeros(run, LS_F32, 0)"):
            outcome = run(code)
            self.assertEqual(list(outcome.of_kind("execute_result")[0]["data"]), ["text/plain"], code)

    def test_a_curve_grows_while_the_cell_runs(self):
        code = ('ls_run *run = ls_init(NULL, NULL);\nfor (int i = 0; i < 8; i++) {\n'
                '    ls_notebook_curve(run, "loss", i, 1.0 / (1 + i));\n    usleep(%d);\n}\n%s')
        outcome = self.notebook.run(code % (100000, "ls_finish(run);"))
        self.assertEqual((outcome.status, len(outcome.of_kind("display_data"))), ("ok", 1), outcome.error())
        pictures = [m["data"]["image/svg+xml"] for m in outcome.of_kind("update_display_data")]
        self.assertGreaterEqual(len(pictures), 2)
        self.assertIn("loss", pictures[-1])
        outcome = self.notebook.run("%time\n" + code % (0, "")) # the run goes on: drawn at the end of the cell
        again = [m["data"]["image/svg+xml"] for m in outcome.of_kind("update_display_data")]
        self.assertEqual(again[-1], pictures[-1])
        ran = float(re.search(r"ran (\d+\.\d+) s", outcome.stream()).group(1))
        self.assertLessEqual(len(again), 1 + ran / 0.3)

    def test_tensors_are_shown_as_pictures(self):
        run = self.notebook.run
        run("ls_run *run = ls_init(NULL, NULL);")
        outcome = run("ls_ones(run, LS_F32, 2, 3, 8, 9)")
        forms = outcome.of_kind("execute_result")[0]["data"]
        self.assertIn("[2,3,8,9] f32", forms["text/plain"])
        width, height = png_size(forms["image/png"])
        self.assertEqual((width, height), (2 * 9 * 11 + 2, 8 * 11))
        for shape, shown in (("1, 8, 8", True), ("4, 8, 8", False), ("1, 7, 8", False), ("40, 1, 28, 28", True)):
            outcome = run("ls_zeros(run, LS_U8, %s)" % shape)
            self.assertEqual("image/png" in outcome.of_kind("execute_result")[0]["data"], shown, shape)
        outcome = run("ls_notebook_image(ls_zeros(run, LS_BF16, 1, 20, 10)); ls_notebook_image(ls_zeros(run, LS_F32, 3));")
        self.assertEqual(png_size(outcome.of_kind("display_data")[0]["data"]["image/png"]), (50, 100))
        self.assertIn("not a picture", outcome.stream("stderr"))

    def test_a_run_survives_pictures_without_room(self):
        run = self.notebook.run
        run("#include <signal.h>\n#include <sys/resource.h>\nls_run *run = ls_init(NULL, NULL);")
        run("signal(SIGXFSZ, SIG_IGN); setrlimit(RLIMIT_FSIZE, &(struct rlimit){1 << 17, RLIM_INFINITY});")
        forms = run("ls_rand(run, LS_F32, 3, 300, 300)").of_kind("execute_result")[0]["data"]
        self.assertIn("[3,300,300] f32", forms["text/plain"])
        self.assertNotIn("image/png", forms)
        self.assertIn("no error", run('printf("%s\\n", ls_error(run) ? ls_error_message(run) : "no error");').stream())

    def test_pictures_of_files_are_shown(self):
        with tempfile.TemporaryDirectory() as folder:
            code = ('ls_run *run = ls_init(NULL, NULL);\nls_plot *plot = ls_plot_new(run);\n'
                    'ls_plot_add(plot, "a", (ls_curve){"a", 2, (double[]){0, 1}, (double[]){1, 2}});\n')
            for kind in ("svg", "png"):
                code += 'ls_plot_write(plot, "%s/a.%s"); ls_notebook_picture("%s/a.%s");\n' % (folder, kind, folder, kind)
            shown = [m["data"] for m in self.notebook.run(code).of_kind("display_data")]
        self.assertIn("<svg", shown[0]["image/svg+xml"])
        self.assertGreater(png_size(shown[1]["image/png"])[0], 100)

    def test_a_progress_bar_is_updated_in_place(self):
        loop = ('ls_progress *epochs = ls_progress_new(run, 2, .label = "epochs");\n'
                'for (int e = 0; e < 2; e++) {\n'
                '    ls_progress *bar = ls_progress_new(run, 30, .label = "train");\n'
                '    for (int i = 0; i < 30; i++) { usleep(20000); ls_progress_show(bar, "loss", i); ls_progress_step(bar, 1); }\n'
                '    ls_progress_free(bar);\n    ls_progress_step(epochs, 1);\n}\nls_progress_free(epochs);\n')
        outcome = self.notebook.run("%time\nls_run *run = ls_init(NULL, NULL);\n" + loop)
        self.assertEqual(len(outcome.of_kind("display_data")), 3)
        self.assertEqual(outcome.stream("stderr"), "")
        last = {}
        for kind, m in outcome.messages:
            if kind.endswith("display_data"):
                last[m["transient"]["display_id"]] = m["data"]["text/plain"]
        epochs, first, second = [last[key] for key in sorted(last)]
        self.assertRegex(epochs, r"^epochs 100% \[=+\] 2/2 ")
        for bar in (first, second):
            self.assertRegex(bar, r"^train 100% \[=+\] 30/30 .* loss 29$")
        updates = len(outcome.of_kind("update_display_data"))
        ran = float(re.search(r"ran (\d+\.\d+) s", outcome.stream()).group(1))
        others = 5 # the last lines of three bars, and two steps of the outer one
        self.assertTrue(8 < updates <= others + ran / 0.1, (updates, ran))
        # In a launched job rank 0 shows it.
        self.notebook.run("ls_finish(run);\nint train(void *user) {\nls_run *run = ls_init(NULL, NULL);\n" + loop +
                          "return ls_finish(run);\n}")
        outcome = self.notebook.run("ls_launch(train, NULL, .num_processes = 2)")
        self.assertEqual((outcome.result(), len(outcome.of_kind("display_data"))), ("0", 3))

    def test_an_error_is_told_by_the_cell_that_caused_it(self):
        run = self.notebook.run
        run("ls_run *run = ls_init(NULL, NULL);\nls_tensor *a = ls_ones(run, LS_F32, 2, 3);")
        outcome = run('printf("before\\n");\nls_tensor *b = ls_matmul(a, a);')
        self.assertEqual((outcome.status, outcome.stream(), outcome.stream("stderr")), ("error", "before\n", ""))
        self.assertRegex(outcome.error(), r"^RunError: .*matmul: \[2,3\]")
        self.assertIn("begin a new run", outcome.error())
        self.assertEqual(outcome.messages[-1][0], "error", "after the cell's output")
        outcome = run("ls_tensor *c = ls_add(a, b);")
        self.assertEqual((outcome.status, outcome.error()), ("ok", ""), "once, and the cell's variables are there")
        self.assertEqual(run("ls_clear_error(run);\nls_item(ls_sum(a))").result(), "6")
        self.assertIn("matmul", run("b = ls_matmul(a, a);").error())
        self.assertEqual(run("ls_finish(run);").status, "ok", "told before")
        outcome = run("run = ls_init(NULL, NULL);\na = ls_ones(run, LS_F32, 2, 3);\nls_matmul(a, a);\nls_finish(run);")
        self.assertIn("matmul", outcome.error())
        run("run = ls_init(NULL, NULL);")
        self.assertEqual(run("ls_item(ls_ones(run, LS_F32, 1))").result(), "1")

    def test_a_training_loop_is_stopped_and_begins_again(self):
        loop = ('ls_run *run = ls_init(NULL, NULL); int steps = 0;\nprintf("runs\\n");\n'
                'while (!ls_should_stop(run) && steps < %d) { steps++; usleep(100); }\nls_finish(run);')
        begun = self.notebook.begin(loop % 100000000)
        while self.notebook.next(begun)[0] != "stream":
            pass
        self.notebook.manager.interrupt_kernel()
        self.assertEqual(self.notebook.finish(begun).status, "ok")
        self.notebook.run(loop % 7)
        self.assertEqual(self.notebook.run("steps").result(), "7")

    def test_a_training_loop_is_stopped_before_it_begins(self):
        self.notebook.run("%reset") # nobody has asked ls_should_stop() yet
        begun = self.notebook.begin('ls_run *run = ls_init(NULL, NULL); int steps = 0;\nprintf("runs\\n");\n'
                                    'while (!ls_notebook_interrupted()) usleep(1000);\n'
                                    'while (!ls_should_stop(run) && steps < 1000) steps++;\nls_finish(run);')
        while self.notebook.next(begun)[0] != "stream":
            pass
        self.notebook.manager.interrupt_kernel()
        self.assertEqual(self.notebook.finish(begun).status, "ok")
        self.assertEqual(self.notebook.run("steps").result(), "1")

    def test_a_function_is_launched_from_a_cell(self):
        run = self.notebook.run
        run('int train(void *user) { ls_run *run = ls_init(NULL, NULL); printf("rank %d of %d: %d\\n", ls_rank(run),'
            ' ls_world_size(run), ++*(int *)user); return ls_finish(run); }\nint argument = 42;')
        outcome = run("ls_launch(train, &argument, .num_processes = 2)")
        self.assertEqual(outcome.result(), "0")
        for rank in (0, 1):
            self.assertIn("rank %d of 2: 43" % rank, outcome.stream())
        self.assertEqual(run("argument").result(), "42")

    def test_reset_forgets_everything(self):
        self.notebook.run("int gone = 1;")
        self.notebook.run("%reset")
        self.assertIn("undeclared", self.notebook.run("gone").error())
        self.assertEqual(self.notebook.run("1 + 1").result(), "2")

    def test_cells_are_compiled_below_tmpdir(self):
        with tempfile.TemporaryDirectory() as folder:
            os.environ["TMPDIR"] = folder
            other = jupyter.Notebook()
            del os.environ["TMPDIR"]
            self.assertEqual(other.run("1 + 1").result(), "2")
            self.assertEqual(len(glob.glob(folder + "/lockstep-notebook-*/c1.so")), 1)
            other.end()
            self.assertEqual(os.listdir(folder), [])

    def test_an_empty_tmpdir_is_as_none(self):
        with unittest.mock.patch.dict(os.environ, TMPDIR=""):
            other = jupyter.Notebook()
            self.assertEqual(other.run("1 + 1").result(), "2")
            self.assertEqual(glob.glob("/lockstep-notebook-*"), [])
            other.end()

    def test_folders_of_killed_kernels_are_removed(self):
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.dict(os.environ, TMPDIR=folder):
            killed, alive = jupyter.Notebook(), jupyter.Notebook()
            self.assertEqual(killed.run("1").result(), "1")
            os.kill(killed.manager.provisioner.pid, signal.SIGKILL)
            killed.end()
            os.mkdir(folder + "/lockstep-notebook-others")
            folders = lambda: glob.glob(folder + "/lockstep-notebook-*")
            self.assertEqual(len(folders()), 3)
            for path in folders():
                os.utime(path, (0, 0))
            last = jupyter.Notebook()
            self.assertEqual(last.run("1").result(), "1")
            self.assertEqual(len(folders()), 3) # of the two that live, and one that is not a kernel's
            self.assertEqual(alive.run("2").result(), "2")
            alive.end()
            last.end()
            self.assertEqual(folders(), [folder + "/lockstep-notebook-others"])

    def test_nothing_is_left_behind(self):
        for code, kills in (("int x = 1;", True), ("if (fork() == 0) pause();", False)):
            other = jupyter.Notebook()
            for cell in (code, "int y = 2;"):
                other.run(cell)
            mine = [other.manager.provisioner.pid] + jupyter.processes(other)
            self.assertGreaterEqual(len(mine), 2)
            other.manager.shutdown_kernel(now=kills)
            other.client.stop_channels()
            self.assertTrue(jupyter.all_end(mine))

    def test_a_kernel_ends_while_it_compiles(self):
        for terminates in (True, False):
            other = jupyter.Notebook()
            compilation = EndlessCompilation(other)
            other.client.stop_channels()
            if terminates:
                os.kill(other.manager.provisioner.pid, signal.SIGTERM)
                self.assertTrue(jupyter.settles(lambda: not other.manager.is_alive()))
            other.manager.shutdown_kernel(now=terminates)
            self.assertTrue(compilation.ends())

    def test_nothing_outlives_jupyter(self):
        # A Jupyter of its own, which is killed: with the kernel idle, in a cell, and in a launched training.
        for code in ("int y = 2;", "for (;;) pause();",
                     "int f(void *u) { for (;;) pause(); }\nls_launch(f, NULL, .num_processes = 2, .shutdown_timeout = 1);"):
            script = ("import jupyter, time\nnotebook = jupyter.Notebook()\nnotebook.run('int x = 1;')\n"
                      "notebook.begin(%r)\ntime.sleep(2)\n"
                      "print(notebook.manager.provisioner.pid, *jupyter.processes(notebook), flush=True)\ntime.sleep(1000)\n"
                      % code)
            server = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True,
                                      env=dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)))
            mine = [int(word) for word in server.stdout.readline().split()]
            self.assertGreaterEqual(len(mine), 2)
            server.kill()
            server.communicate()
            self.assertTrue(jupyter.all_end(mine), code)

    def test_nothing_outlives_a_killed_kernel(self):
        other = jupyter.Notebook()
        other.run("int x = 1;")
        begun = other.begin('printf("runs\\n"); for (;;);')
        while other.next(begun)[0] != "stream":
            pass
        mine = jupyter.processes(other)
        self.assertEqual(len(mine), 2)
        os.kill(other.manager.provisioner.pid, 9)
        self.assertTrue(jupyter.all_end(mine))
        other.client.stop_channels()
        other.manager.shutdown_kernel(now=True)


if __name__ == "__main__":
    folder = jupyter.install(sys.argv.pop(1))
    unittest.main(verbosity=1)
