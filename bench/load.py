"""load.py - measure other load on the machine, and take priority over it.

Numbers from a shared machine need context: `Watch` reports how much of a core other programs took."""
import os

TICK = os.sysconf("SC_CLK_TCK")


def take_priority():
    """Give this process and its children priority over all others; False if not permitted."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
    except OSError:
        return False
    return True


def give_priority_back():
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def busy():
    """Seconds that all cores together were busy, or stolen by the hypervisor."""
    with open("/proc/stat") as stat:
        user, nice, system, _, _, irq, softirq, steal = (int(n) for n in stat.readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / TICK


def processes():
    """pid -> (parent, CPU seconds of it and of reaped children)."""
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
    """CPU seconds of this process and its descendants."""
    found = processes()

    def is_ours(pid):
        while pid in found and pid != os.getpid():
            pid = found[pid][0]
        return pid == os.getpid()
    return sum(seconds for pid, (_, seconds) in found.items() if is_ours(pid))


class Watch:
    """with Watch() as w: ...; then w.others is the fraction of one core that other programs took."""

    def __enter__(self):
        self.began, self.busy, self.own = os.times().elapsed, busy(), own()
        return self

    def __exit__(self, *_):
        elapsed = max(os.times().elapsed - self.began, 1e-3)
        self.others = max(0.0, busy() - self.busy - (own() - self.own)) / elapsed
