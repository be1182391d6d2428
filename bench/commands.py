"""commands.py - benchmarks that run whole commands: their duration, or the number they print.

`items()` returns name, unit and, for every competitor, a function that measures it once."""
import os
import pathlib
import shutil
import subprocess
import time

import peers

here = pathlib.Path(__file__).parent
# Every process has one thread; PyTorch gets the memory settings that are best for it.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "LOCKSTEP_NUM_THREADS": "1"}
LIMIT = 300  # seconds after which a command is given up


def output(command, limit=LIMIT, **environment):
    """The output of a command; None if it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, env={**os.environ, **environment})
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
    """The launchers, and how each starts two processes."""
    found = {"lockstep": [str(build / "lockstep"), "launch", "-n", "2"]}
    folder = pathlib.Path(python).parent if python else pathlib.Path("/nowhere")
    for name, flags in {"torchrun": ["--standalone", "--nproc-per-node", "2", "--no-python"],
                        "accelerate": ["launch", "--cpu", "--num_processes", "2", "--num_machines", "1",
                                       "--mixed_precision", "no", "--dynamo_backend", "no", "--no_python"]}.items():
        program = shutil.which(str(folder / name))
        if program:
            found[name] = [program, *flags]
        else:
            say(f"{name} is not installed (pip install {'torch' if name == 'torchrun' else name})")
    return found


def between_hosts(build, size, rate):
    """An all-reduce between two virtual hosts on this machine (the tests' `hosts`), one core each: GB/s. The peers are plain
    sockets, which transfer the same bytes both ways, and Open MPI over TCP. rate: of the network, in tc's notation; "": limited
    by the cores only."""
    hosts, bench = build / "tests" / "hosts", build / "bench"
    if not hosts.exists() or not (shutil.which("ip") and shutil.which("tc")):
        return {}
    sockets = bench / "socket_peer"
    subprocess.run(["cc", "-O2", "-D_GNU_SOURCE", "-o", str(sockets), str(here / "socket_peer.c")], check=True)
    limit = "".join(f"tc qdisc replace dev host-{h} root tbf rate {rate} burst 256kb latency 20ms; " for h in "ab" if rate)
    launch = f"{build}/lockstep launch --nnodes 2 --nproc-per-node 1 --master-addr 10.83.0.1 --no-pin --node-rank"
    sums = f"{bench}/lockstep_bench --all-reduce {size} 1 0.5"
    lines = {"lockstep": [f"{launch} {rank} {sums}" for rank in (0, 1)],
             "sockets": [f"{sockets} {at} {size} 0.5" for at in ("-", "10.83.0.1")]}
    result = {}
    for who, (first, second) in lines.items():
        both = f"{limit}taskset -c 0 {hosts} on a {first} & taskset -c 1 {hosts} on b {second}; wait"
        result[who] = printed([str(hosts), "2", "sh", "-c", both], **ONE_THREAD)
    if (bench / "mpi_peer_openmpi").exists():
        mpirun = (f"mpirun.openmpi --allow-run-as-root --host a:1,b:1 -n 2 --bind-to none --mca plm_rsh_agent '{hosts} rsh' "
                  "--mca btl tcp,self --mca pml ob1 --mca btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0")
        result["openmpi"] = printed([str(hosts), "2", "sh", "-c",
                                     f"{limit}{hosts} on a {mpirun} {bench}/mpi_peer_openmpi {size} 1 0.5"])
    return {who: (lambda ask=ask: (lambda seconds: seconds and size * 1e-9 / seconds)(ask())) for who, ask in result.items()}


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

    result.append(("launch/none/kill -9 of a process, until the other knows/2", "ms",
                   {"lockstep": printed([bench, "--lost-peer"])}))
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
    for size, words in ((25 << 20, "25 MiB"), (100 << 20, "100 MiB")):
        for rate in ("", "10gbit"):
            competitors = between_hosts(build, size, rate)
            if competitors:
                case = f"all-reduce {words} between two{', 10 Gb/s' if rate else ''}"
                result.append((f"hosts/f32/{case}/2", "GB/s", competitors))
    return result
