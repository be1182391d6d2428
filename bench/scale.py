"""scale.py - predict how training scales to many hosts: a model of a data-parallel step.

    python3 bench/scale.py                    the tables of docs/scale.md
    python3 bench/scale.py call --hosts 3 --bytes 26214400 --rate 10 --ranks 1    one all-reduce, in seconds
    python3 bench/scale.py simgrid            the same against a simulation, where SimGrid is installed

The model follows the code. Gradients become complete layer by layer during the backward pass, each after a time proportional
to its layer's arithmetic. They fill buckets (parallel/buckets.c) that one thread reduces in turn. A bucket is divided into
pieces, and a piece into one part per rank (comm/hosts/pieces.c): the ranks of a host sum a part in shared memory, its holder
sends it to the owner, which sums over hosts and sends the result back. So a host sends and receives 2 (H - 1) / H times the
bytes of a bucket, in messages of one part. A network is four numbers: bytes per second of a host, latency of a message, and
how long a core is busy per message and per byte. Needs only Python 3."""
import argparse
import dataclasses
import math
import pathlib
import subprocess
import tempfile

MIB = 1 << 20


@dataclasses.dataclass
class Network:
    gigabits: float         # per second and host, all its network cards together
    latency: float = 20e-6  # seconds per message, through two switches
    overhead: float = 2e-6  # seconds that a core is busy per message, at each end
    per_byte: float = 1.5e-10  # and per byte: the copies of sockets
    share: float = 0.94     # fraction of the rate available for data: 1448 of 1538 bytes of a packet

    def rate(self):
        return self.gigabits * 1e9 / 8 * self.share


def rdma(gigabits):
    """Network cards that access memory by themselves."""
    return Network(gigabits, latency=5e-6, overhead=0.5e-6, per_byte=0)


@dataclasses.dataclass
class Host:
    speed: float            # relative to the measured host
    cores: int              # for computation
    ranks: int = 2          # processes, each with its own communication thread
    sum_rate: float = 25e9  # bytes of a bucket per second that the ranks of a host sum in shared memory
    fold_rate: float = 12e9  # bytes per second that one rank reads when it sums over hosts
    jitter: float = 0.01    # relative standard deviation of compute time between hosts

    def has_spare_core(self):
        """With eight or more cores per rank, one is reserved for its communication thread; otherwise that shares one."""
        return self.cores >= 8 * self.ranks

    def slowdown(self):
        return self.cores / (self.cores - self.ranks) if self.has_spare_core() else 1.0


@dataclasses.dataclass
class Work:
    name: str
    layers: list      # of the forward pass: (parameters, arithmetic in any unit)
    seconds: float    # per step on the measured host
    optimizer: float  # of them, after the gradients are complete
    buffers: int      # bytes that rank 0 broadcasts after a step


def resnet50():
    """Convolutions with their batch norms, and the classifier: parameters, multiplications per image of 224."""
    layers, size, width = [(3 * 64 * 49 + 128, 3 * 64 * 49 * 112 ** 2)], 56, 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        mid = 64 << stage
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            layers.append((width * mid + 2 * mid, width * mid * size ** 2))
            size //= stride
            layers.append((9 * mid * mid + 2 * mid, 9 * mid * mid * size ** 2))
            layers.append((4 * mid * mid + 8 * mid, 4 * mid * mid * size ** 2))
            if not block:
                layers.append((4 * width * mid + 8 * mid, 4 * width * mid * size ** 2))
            width = 4 * mid
    return [*layers, (2048 * 1000 + 1000, 2048 * 1000)]


def bert_large(tokens=384):
    """Embeddings, 24 layers of attention and two linear maps, the head: multiplications per token."""
    hidden, middle = 1024, 4096
    attention = [(hidden * hidden + hidden, hidden * hidden + (hidden * tokens // 2 if i < 2 else 0)) for i in range(4)]
    layer = [*attention, (2 * hidden, 0), (hidden * middle + middle, hidden * middle),
             (hidden * middle + hidden, hidden * middle), (2 * hidden, 0)]
    return [(30522 * hidden, 0), (512 * hidden, 0), (4 * hidden, 0), *(24 * layer), (2 * hidden + 2, 2 * hidden)]


def works():
    """Steps measured on two cores of a Neoverse-V1 in bf16. BERT-large by the time of a layer of BERT-base, 12 x 384 tokens,
    and the arithmetic of both: 8.96 TFLOP in a step, 0.215 in the layer. AdamW moves 28 bytes a parameter at 73 GB/s."""
    adam = 28 / 73e9
    return [Work("ResNet-50, 64 photos of 224 a host", resnet50(), 4.41, 25.6e6 * adam, 4 * 53120),
            Work("BERT-large, 12 x 384 tokens a host", bert_large(), 0.515 * 8.96 / 0.215, 334e6 * adam, 0)]


def buckets(layers, first=MIB, most=25 * MIB):
    """Bytes of each bucket, and the fraction of the backward pass after which it is complete, as in ls_buckets_make()."""
    whole, done, result, filled = sum(work for _, work in layers), 0.0, [], 0
    for parameters, work in reversed(layers):
        if not result or filled >= (first if len(result) == 1 else most):
            result.append([0, 0.0])
            filled = 0
        filled += 4 * parameters
        done += work
        result[-1] = [filled, done / whole]
    return result


def piece_of(ranks):
    """Bytes in flight at once, as in make_room() of comm/hosts."""
    return min(max(MIB, ranks * MIB // 4), 16 * MIB)


def all_reduce(size, hosts, network, host, half=False):
    """All-reduce of f32, sent unchanged or, with `half`, in 16 bits: seconds, and CPU seconds of each rank."""
    local = size / host.sum_rate if host.ranks > 1 else 0.0
    if hosts == 1:
        return local, local
    # Halves are summed in f32 and rounded once: partial sums of several ranks on a host are sent to the owner in f32.
    there, back = (1.0 if host.ranks > 1 else 0.5, 0.5) if half else (1.0, 1.0)
    wire = (there + back) * size * (hosts - 1) / hosts / network.rate()
    pieces = max(1, math.ceil(size * back / piece_of(hosts * host.ranks)))
    # Per rank: a message to and from a rank of every other host, in both phases.
    messages = 4 * (hosts - 1) * network.overhead
    busy = messages * pieces + 2 * (there + back) * size / host.ranks * network.per_byte
    busy += size / host.ranks / host.fold_rate + local
    # Pieces overlap, except for the greeting and both transfers of the first piece.
    return 3 * network.latency + messages + max(wire, busy), busy


def short_call(hosts, network, few=16):
    """Seconds of a call with few bytes: hosts exchange values directly or, if they are many, forward them in rounds."""
    rounds, messages = (1, hosts - 1) if hosts <= few else (math.ceil(math.log2(hosts)), 1)
    return rounds * (network.latency + 2 * messages * network.overhead)


def step(work, hosts, network, host, half=False):
    """Seconds of a step, and of one without any communication."""
    alone = work.seconds / host.speed
    optimizer = work.optimizer / host.speed
    compute = (alone - optimizer) * host.slowdown()
    # Expected maximum of so many normally distributed times, above the mean.
    compute *= 1 + host.jitter * math.sqrt(2 * math.log(hosts))
    forward, backward, stolen, end = compute / 3, compute * 2 / 3, 0.0, 0.0
    for size, ready in buckets(work.layers):
        seconds, busy = all_reduce(size, hosts, network, host, half)
        end = max(end, forward + backward * ready + stolen) + seconds
        stolen += 0.0 if host.has_spare_core() else busy
    after = 0.0
    if hosts > 1:  # which gradients are in use; running statistics from rank 0
        after = 2 * short_call(hosts, network) + 2 * work.buffers / network.rate()
    return max(forward + backward + stolen, end) + after + optimizer, alone


RAILS = (1, 2, 4, 8)
HOSTS = (2, 4, 16, 64, 256, 1024)
MACHINES = [("two cores, as measured", Host(1, cores=2)), ("64 such cores", Host(32, cores=64))]
NETWORKS = [("25 Gb/s, TCP", Network(25)), ("100 Gb/s, TCP", Network(100)), ("100 Gb/s, RDMA", rdma(100))]


def percent(share):
    return f"{100 * share:.0f} %"


def tables():
    for work in works():
        for machine, host in MACHINES:
            print(f"**{work.name}; {machine}: {work.seconds / host.speed:.3g} s a step**\n")
            print("| network | " + " | ".join(f"{h} hosts" for h in HOSTS) + " |\n" + "|---" * (len(HOSTS) + 1) + "|")
            for name, network in NETWORKS:
                for half in (False, True):
                    line = []
                    for hosts in HOSTS:
                        seconds, alone = step(work, hosts, network, host, half)
                        line.append(percent(alone / seconds))
                    print(f"| {name}{', bf16 gradients' if half else ''} | " + " | ".join(line) + " |")
            print()


def rails():
    """How many ranks a host should have: each handles its share between hosts, and costs a core."""
    print("| 64 cores a host, 256 hosts | " + " | ".join(f"{r} rank{'s' * (r > 1)}" for r in RAILS) + " |")
    print("|---" * (len(RAILS) + 1) + "|")
    for work in works():
        for name, network in NETWORKS:
            line = []
            for ranks in RAILS:
                seconds, alone = step(work, 256, network, Host(32, cores=64, ranks=ranks))
                line.append(percent(alone / seconds))
            print(f"| {work.name.split(',')[0]}, {name} | " + " | ".join(line) + " |")


PLATFORM = """<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1"><zone id="world" routing="Full">
<cluster id="c" prefix="h" suffix="" radical="0-{last}" speed="1Gf" bw="{rate}Bps" lat="{latency}s" sharing_policy="SPLITDUPLEX"/>
</zone></platform>
"""


def simulate(size, hosts, network, piece):
    """The messages of an all-reduce by SimGrid's SMPI, hosts with one rank each: seconds."""
    with tempfile.TemporaryDirectory() as folder:
        at = pathlib.Path(folder)
        subprocess.run(["smpicc", "-O2", "-o", at / "program", pathlib.Path(__file__).with_name("scale_smpi.c")], check=True)
        # A link to a switch and one from it: half of the latency each.
        (at / "platform.xml").write_text(PLATFORM.format(last=hosts - 1, rate=network.rate(), latency=network.latency / 2))
        (at / "hosts").write_text("".join(f"h{i}\n" for i in range(hosts)))
        settings = {"smpi/privatization": "dlopen", "smpi/simulate-computation": "no", "smpi/bw-factor": "0:1",
                    "smpi/lat-factor": "0:1", "network/crosstraffic": "no", "network/TCP-gamma": "1e12",
                    **{f"smpi/{way}": f"0:{network.overhead}:0" for way in ("os", "ois", "or")}}
        done = subprocess.run(["smpirun", "-np", str(hosts), "-platform", at / "platform.xml", "-hostfile", at / "hosts",
                               *(f"--cfg={name}:{value}" for name, value in settings.items()), "--log=root.thres:critical",
                               at / "program", str(size), str(piece)], capture_output=True, text=True, check=True)
        return float(done.stdout.split()[-1])


def against_simgrid():
    print("| hosts | rate | bytes | model | SimGrid |\n|---|---|---|---|---|")
    size = 25 * MIB
    for hosts, gigabits in ((2, 25), (3, 25), (4, 100), (8, 100), (16, 25), (64, 25), (64, 100)):
        network = Network(gigabits, per_byte=0)
        seconds, _ = all_reduce(size, hosts, network, Host(1, 2, ranks=1, fold_rate=1e15))
        print(f"| {hosts} | {gigabits} Gb/s | {size // MIB} MiB | {1e3 * seconds:.2f} ms | "
              f"{1e3 * simulate(size, hosts, network, piece_of(hosts)):.2f} ms |", flush=True)


def main():
    parser = argparse.ArgumentParser(description="how training would scale to more hosts than one has")
    parser.add_argument("what", nargs="?", choices=("tables", "call", "simgrid"), default="tables")
    parser.add_argument("--hosts", type=int, default=2)
    parser.add_argument("--ranks", type=int, default=2, help="processes per host")
    parser.add_argument("--bytes", type=int, default=25 * MIB)
    parser.add_argument("--rate", type=float, default=25, help="gigabits per second of a host")
    parser.add_argument("--half", action="store_true", help="send numbers in 16 bits")
    options = parser.parse_args()
    if options.what == "tables":
        tables()
        rails()
    elif options.what == "simgrid":
        against_simgrid()
    else:
        print(f"{all_reduce(options.bytes, options.hosts, Network(options.rate), Host(1, 2 * options.ranks, ranks=options.ranks), options.half)[0]:.6g}")


if __name__ == "__main__":
    main()
