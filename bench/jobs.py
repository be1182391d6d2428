"""jobs.py - commands that run alone, or several at a time, each on its own cores."""
import os
import subprocess
import sys
import time


class Job:
    """A command that runs on some cores, in `processes` processes; `output` is all it printed."""

    def __init__(self, name, cores, command, log, processes=1, **environment):
        self.name, self.cores, self.command, self.log = name, cores, command, log
        self.processes, self.environment = processes, environment
        self.process, self.seconds = None, None

    def start(self, on):
        self.on, self.began = on, time.perf_counter()
        threads = str(max(1, len(on) // self.processes))
        self.process = subprocess.Popen(["taskset", "-c", ",".join(map(str, on)), *self.command],
                                        stdout=open(self.log, "w"), stderr=subprocess.STDOUT,
                                        env={**os.environ, "LOCKSTEP_NUM_THREADS": threads, "OMP_NUM_THREADS": threads,
                                             **self.environment})

    def has_ended(self):
        if self.process.poll() is None:
            return False
        self.seconds = time.perf_counter() - self.began
        failure = "" if self.succeeded() else f", FAILED, see {self.log}:\n{self.output[-2000:]}"
        print(f"{self.name}: {self.seconds:.1f} s on {len(self.on)} core{'s' * (len(self.on) > 1)}{failure}", file=sys.stderr,
              flush=True)
        return True

    def succeeded(self):
        return self.process is not None and self.process.returncode == 0

    @property
    def output(self):
        return self.log.read_text() if self.process else ""


def run(jobs, deadline, alone=False):
    """Run all jobs: as many at a time as there are cores for or, with `alone`, one after the other on all cores. Those that have
    not ended at the deadline (time.perf_counter()) are terminated, and the rest does not start."""
    free, waiting, running = sorted(os.sched_getaffinity(0)), list(jobs), []
    most = len(free)
    while waiting or running:
        for job in list(waiting):
            wanted = most if alone else min(job.cores, most)
            if len(free) >= wanted:
                job.start([free.pop(0) for _ in range(wanted)])
                running.append(job)
                waiting.remove(job)
        time.sleep(0.02)
        if time.perf_counter() > deadline:
            waiting = []
            for job in running:
                job.process.terminate()
                job.process.wait()
        for job in [j for j in running if j.has_ended()]:
            running.remove(job)
            free = sorted(free + job.on)
