"""commands.py - items that are whole commands: their duration, or the number they print.

`items()` gives name, unit and, for every competitor, a function that measures it once."""
import os
import pathlib
import shutil
import subprocess
import time

import peers

here = pathlib.Path(__file__).parent
# Every process has one thread; those of PyTorch get the memory settings that suit it best.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "LOCKSTEP_NUM_THREADS": "1"}
LIMIT = 300  # seconds after which a command has no value


def output(command, **environment):
    """What a command prints; None when it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, env={**os.environ, **environment})
    except subprocess.TimeoutExpired:
        return None
    return done.stdout if done.returncode == 0 else None


def duration(*commands, **environment):
    """Milliseconds until all commands have run, one after the other."""
    def measure():
        begin = time.perf_counter()
        for command in commands:
            if output(command, **environment) is None:
                return None
        return 1e3 * (time.perf_counter() - begin)
    return measure


def printed(command, **environment):
    """The number that a command prints last."""
    def measure():
        text = output(command, **environment)
        return float(text.split()[-1]) if text and text.split() else None
    return measure


def launchers(build, python, say):
    """How to start two processes, by whom."""
    found = {"lockstep": [str(build / "lockstep"), "launch", "-n", "2"]}
    folder = pathlib.Path(python).parent if python else pathlib.Path("/nowhere")
    for name, flags in {"torchrun": ["--standalone", "--nproc-per-node", "2", "--no-python"],
                        "accelerate": ["launch", "--cpu", "--num_processes", "2", "--num_machines", "1",
                                       "--mixed_precision", "no", "--dynamo_backend", "no", "--no_python"]}.items():
        program = shutil.which(str(folder / name))
        if program:
            found[name] = [program, *flags]
        else:
            say(f"{name} is not here (pip brings it)")
    return found


def items(build, python, say):
    launch = launchers(build, python, say)
    bench = str(build / "bench" / "lockstep_bench")
    result = [("launch/none/two processes that do nothing/2", "ms",
               {**{who: duration([*command, "true"]) for who, command in launch.items()},
                "true twice": duration(["true"], ["true"])})]

    first_step = [python, str(here / "first_step_torch.py")] if python else None
    result.append(("launch/f32/demo net, two processes, start to first step/2", "ms",
                   {who: duration([*command, *([bench, "--first-step"] if who == "lockstep" else first_step)], **ONE_THREAD)
                    for who, command in launch.items()}))

    for dtype in ("f32", "bf16"):
        case = ["resnet50d", "16", "96", dtype, "1"]
        torch = [python, str(here / "train_torch.py"), *case]
        tuned = {**ONE_THREAD, **peers.TUNED}
        competitors = {"lockstep": printed([*launch["lockstep"], bench, "--train", *case], **ONE_THREAD),
                       "1 process": printed(["taskset", "-c", "0", bench, "--train", *case], **ONE_THREAD)}
        if "torchrun" in launch:
            competitors["torch DDP"] = printed([*launch["torchrun"], *torch], **tuned)
            competitors["torch, 1 process"] = printed(torch, **tuned)
        result.append((f"train/{dtype}/resnet50d, 2 x 16 photos of 96, 2 processes/2", "img/s", competitors))
    return result
