"""load.py - what else the machine does while something is measured, and how to keep it out.

Numbers of a shared machine are worth what is known about it: `Watch` tells how much of a core went to others."""
import os

TICK = os.sysconf("SC_CLK_TCK")


def take_priority():
    """Let this process and all it starts go before everybody else's; False where that is not allowed."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
    except OSError:
        return False
    return True


def give_priority_back():
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def busy():
    """Seconds that all cores together have worked, or have been taken away by the host."""
    with open("/proc/stat") as stat:
        user, nice, system, _, _, irq, softirq, steal = (int(n) for n in stat.readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / TICK


def processes():
    """pid -> (parent, seconds of it and of the children it has waited for)."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat") as stat:
                fields = stat.read().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        found[int(pid)] = (int(fields[1]), sum(int(n) for n in fields[11:15]) / TICK)
    return found


def own():
    """Seconds of this process and of all below it."""
    found = processes()

    def is_ours(pid):
        while pid in found and pid != os.getpid():
            pid = found[pid][0]
        return pid == os.getpid()
    return sum(seconds for pid, (_, seconds) in found.items() if is_ours(pid))


class Watch:
    """with Watch() as w: ...; then w.others is the share of one core that others took."""

    def __enter__(self):
        self.began, self.busy, self.own = os.times().elapsed, busy(), own()
        return self

    def __exit__(self, *_):
        elapsed = max(os.times().elapsed - self.began, 1e-3)
        self.others = max(0.0, busy() - self.busy - (own() - self.own)) / elapsed
