#!/usr/bin/env python3
"""One job launched from two notebooks, each on a host of its own: two processes per host train together.

    hosts.py COMMAND HOSTS        (lockstep, and the program that makes hosts on one machine)
"""
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import jupyter

jupyter.need("jupyter_client")

# Every process tells the sum of all ranks, which only those that can talk to each other know.
TRAIN = """
int train(void *user)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_module *net = ls_linear_new(run, 2, 1);
    ls_optim *sgd = ls_sgd_new(run, net, .lr = 0.1);
    ls_prepare(run, net, sgd);
    ls_backward(run, ls_mean(ls_forward(net, ls_full(run, LS_F32, ls_rank(run), 1, 2))));
    double gradient = ls_item(ls_mean(ls_grad(ls_state_find(ls_parameters(net), "weight"))));
    char host[16];
    gethostname(host, sizeof host);
    printf("rank %d of %d on %s: gradient %g\\n", ls_rank(run), ls_world_size(run), host, gradient);
    return ls_finish(run);
}
"""
STATIC = '.num_hosts = 2, .host_rank = %d, .master_addr = "a", .master_port = 4100'
ELASTIC = '.num_hosts = 2, .elastic = true, .endpoint = "a:4200", .run_id = "notebooks", .join_timeout = 300'


class Hosts(unittest.TestCase):
    def setUp(self):
        self.notebooks = [jupyter.Notebook("lockstep-" + host, folder.name + "/" + host) for host in "ab"]
        for notebook in self.notebooks:
            self.assertEqual(notebook.run(TRAIN).status, "ok")

    def tearDown(self):
        for notebook in self.notebooks:
            notebook.end()

    def launch(self, *options):
        """Run the call in both notebooks; what each told."""
        begun = [notebook.begin("ls_launch(train, NULL, .num_processes = 2, %s)" % own)
                 for notebook, own in zip(self.notebooks, options)]
        return [notebook.finish(one) for notebook, one in zip(self.notebooks, begun)]

    def test_ranks_of_both_notebooks_train_together(self):
        for options in ((STATIC % 0, STATIC % 1), (ELASTIC, ELASTIC)):
            outcomes = self.launch(*options)
            for outcome in outcomes:
                self.assertEqual(outcome.result(), "0", outcome.stream("stderr"))
            told = "".join(outcome.stream() for outcome in outcomes)
            for rank in range(4):
                self.assertRegex(told, r"rank %d of 4 on [ab]: gradient 1\.5\n" % rank)
            self.assertNotIn(" on b:", outcomes[0].stream())
            self.assertNotIn(" on a:", outcomes[1].stream())

    def test_an_interrupt_in_one_notebook_ends_the_job(self):
        for notebook in self.notebooks:
            notebook.run('int wait(void *user) { ls_run *run = ls_init(NULL, NULL); printf("runs\\n");'
                         ' while (!ls_should_stop(run)) usleep(1000); return ls_finish(run); }')
        begun = [notebook.begin("ls_launch(wait, NULL, .num_processes = 1, %s)" % (STATIC % i))
                 for i, notebook in enumerate(self.notebooks)]
        for notebook, one in zip(self.notebooks, begun):
            while "runs" not in notebook.next(one)[1].get("text", ""):
                pass
        self.notebooks[1].manager.interrupt_kernel()
        for notebook, one in zip(self.notebooks, begun):
            outcome = notebook.finish(one)
            self.assertEqual((outcome.status, outcome.result()), ("error", "130"), outcome.stream("stderr"))
            self.assertEqual(len(jupyter.processes(notebook)), 1)


if __name__ == "__main__":
    command, hosts = os.path.abspath(sys.argv.pop(1)), os.path.abspath(sys.argv.pop(1))
    if not os.environ.get("BESIDE_HOSTS"):
        possible = subprocess.run([hosts, "1", "true"], capture_output=True, text=True)
        if possible.returncode != 0:
            print("SKIP hosts.py: " + (possible.stderr.splitlines() or ["hosts cannot be made"])[0])
            sys.exit(77)
        os.environ["BESIDE_HOSTS"] = "2"
        os.execv(hosts, [hosts, "2", sys.executable, os.path.abspath(__file__), command, hosts] + sys.argv[1:])
    folder = jupyter.install(command)
    for host in "ab":
        jupyter.wrap("lockstep-" + host, [hosts, "on", host])
    unittest.main(verbosity=1)
