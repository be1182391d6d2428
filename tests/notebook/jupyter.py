"""jupyter.py - a kernel under test, driven by Jupyter's own client, and the search for that client.

It may be installed, or fetched by tools/jupyter.sh into the folder jupyter/ beside the command; PYTHON_JUPYTER may name
an interpreter that has it. Tests are skipped where it is nowhere.
"""
import glob
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time


def need(*modules):
    """Go on in an interpreter that has these modules, or skip the test."""
    fetched = os.path.join(os.path.dirname(os.path.abspath(sys.argv[1])), "jupyter") if len(sys.argv) > 1 else ""
    if os.path.isdir(fetched) and fetched not in sys.path:
        sys.path.append(fetched)
    if all(importlib.util.find_spec(name) for name in modules):
        return
    other = os.environ.pop("PYTHON_JUPYTER", None)
    if other:
        os.execv(other, [other] + sys.argv)
    print("SKIP %s: %s is not installed" % (os.path.basename(sys.argv[0]), " or ".join(modules)))
    sys.exit(77)


def install(command):
    """Install the kernel's description into a folder of this process, by the command itself."""
    folder = tempfile.TemporaryDirectory(prefix="lockstep_test_")
    subprocess.run([command, "kernel", "install", "--prefix", folder.name], check=True, stdout=subprocess.DEVNULL)
    # A cell that crashes shall die of it, in a session that was built with a sanitizer as in any other.
    os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":handle_segv=0:handle_abort=0"
    os.environ["JUPYTER_PATH"] = folder.name + "/share/jupyter"
    os.environ["JUPYTER_RUNTIME_DIR"] = folder.name
    return folder


def wrap(name, command):
    """Another kernel, which a command starts."""
    kernels = os.path.join(os.environ["JUPYTER_PATH"], "kernels")
    with open(os.path.join(kernels, "lockstep", "kernel.json")) as file:
        spec = json.load(file)
    spec["argv"] = command + spec["argv"]
    os.makedirs(os.path.join(kernels, name), exist_ok=True)
    with open(os.path.join(kernels, name, "kernel.json"), "w") as file:
        json.dump(spec, file)


def children(pid):
    """All processes that descend from one."""
    found = []
    for path in glob.glob("/proc/%d/task/*/children" % pid):
        try:
            with open(path) as file:
                direct = [int(word) for word in file.read().split()]
        except FileNotFoundError:
            continue
        for child in direct:
            found += [child] + children(child)
    return found


def processes(notebook):
    """The session of a notebook and what it has started."""
    return children(notebook.manager.provisioner.pid)


def settles(condition):
    """Does a condition come true, soon or, on a busy machine, later?"""
    for _ in range(2400):
        if condition():
            return True
        time.sleep(0.05)
    return False


def all_end(pids):
    """Do all of these processes end?"""
    return settles(lambda: not any(os.path.exists("/proc/%d" % pid) for pid in pids))


class Outcome:
    """What came of a cell: its reply, and what was published meanwhile, in order."""

    def __init__(self):
        self.status = self.reply = None
        self.messages = []

    def stream(self, name="stdout"):
        return "".join(m["text"] for kind, m in self.messages if kind == "stream" and m["name"] == name)

    def result(self):
        found = [m["data"]["text/plain"] for kind, m in self.messages if kind == "execute_result"]
        return found[-1] if found else None

    def error(self):
        found = [m["ename"] + ": " + m["evalue"] for kind, m in self.messages if kind == "error"]
        return found[-1] if found else ""

    def of_kind(self, kind):
        return [m for k, m in self.messages if k == kind]


class Notebook:
    def __init__(self, kernel="lockstep", sockets=None):
        """`sockets`: the beginning of paths of sockets, for a kernel that no address of this host leads to."""
        from jupyter_client.manager import KernelManager
        self.manager = KernelManager(kernel_name=kernel, **({"transport": "ipc", "ip": sockets} if sockets else {}))
        self.manager.start_kernel()
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=120)

    def begin(self, code, **options):
        return self.client.execute(code, **dict({"allow_stdin": False}, **options))

    def next(self, asked):
        """The next thing published because of a cell, as (kind, content)."""
        while True:
            message = self.client.get_iopub_msg(timeout=120)
            if message["parent_header"].get("msg_id") == asked:
                return message["msg_type"], message["content"]

    def finish(self, asked):
        outcome = Outcome()
        while True:
            kind, content = self.next(asked)
            if kind == "status" and content["execution_state"] == "idle":
                break
            outcome.messages.append((kind, content))
        while True:
            reply = self.client.get_shell_msg(timeout=120)
            if reply["parent_header"].get("msg_id") == asked:
                break
        outcome.reply = reply["content"]
        outcome.status = reply["content"]["status"]
        return outcome

    def run(self, code):
        return self.finish(self.begin(code))

    def ask(self, kind, **content):
        """Any other request on the shell channel; the content of its reply."""
        message = self.client.session.msg(kind, content)
        self.client.shell_channel.send(message)
        while True:
            reply = self.client.get_shell_msg(timeout=120)
            if reply["parent_header"].get("msg_id") == message["header"]["msg_id"]:
                return reply["content"]

    def end(self):
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=False)
