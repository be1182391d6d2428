"""qa_job.py DEPLOY LOCKSTEP QA QA_FILES - deploy/qa.yaml, with pods that are processes here: the container's own command
and variables, what the operator adds to them, and the volumes as folders. The model is small, the questions are few."""
import json
import os
import random
import socket
import subprocess
import sys
import tempfile

import manifests

deploy, lockstep, qa, qa_files = sys.argv[1:]
if '"comm-ucx": not in this build' in subprocess.run([lockstep, "env"], capture_output=True, text=True).stdout:
    print("SKIP deploy_qa: pods reach each other by UCX, which this build lacks")
    sys.exit(77)
passed = failed = 0


def check(what, right, detail=""):
    global passed, failed
    passed, failed = passed + bool(right), failed + (not right)
    if not right:
        print(f"FAIL {what}: {detail}")


def free_port():
    """A port that is free, as is the next, below those of other tests and those that the system gives to clients."""
    while True:
        port = random.randrange(19000, 20000, 2)
        with socket.socket() as first, socket.socket() as second:
            try:
                first.bind(("", port))
                second.bind(("", port + 1))
                return port
            except OSError:
                pass


def container_of(job):
    container, = job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"]
    return container


def start_pod(job, folder, name, operator):
    """One pod; paths on its volumes are folders below `folder`."""
    container = container_of(job)
    words = container["command"] + container["args"]
    own = {key: value for key, value in manifests.variables(container).items() if value}
    for mount in container["volumeMounts"]:
        def here(text):
            return text.replace(mount["mountPath"] + "/", f"{folder}{mount['mountPath']}/", 1)
        words = [here(word) if word.startswith("/") else word for word in words]
        own = {key: here(value) if value.startswith("/") else value for key, value in own.items()}
    of_tests = {key: os.environ[key] for key in ("ASAN_OPTIONS", "TSAN_OPTIONS", "UCX_MEM_EVENTS")  # of sanitizers
                if key in os.environ}
    environment = {"PATH": f"{folder}/bin:{os.environ['PATH']}", "HOME": folder, "TMPDIR": folder, "HOSTNAME": name,
                   "PYTHONUNBUFFERED": "1", **of_tests, **own, **operator}
    with open(f"{folder}/{name}.log", "w", encoding="utf-8") as log:
        return subprocess.Popen(words, env=environment, stdout=log, stderr=subprocess.STDOUT, cwd=folder)


def logs(folder, pods):
    return [open(f"{folder}/pod{i}.log", encoding="utf-8").read() for i in range(pods)]


def elastic(job, port, which):
    """What the operator sets where there is an elasticPolicy and no Master."""
    policy = job["spec"]["elasticPolicy"]
    return {"PET_NPROC_PER_NODE": job["spec"]["nprocPerNode"],
            "PET_NNODES": f"{policy['minReplicas']}:{policy['maxReplicas']}", "PET_RDZV_BACKEND": policy["rdzvBackend"],
            "PET_RDZV_ID": policy["rdzvId"], "PET_MAX_RESTARTS": str(policy["maxRestarts"]),
            "PET_RDZV_ENDPOINT": f"127.0.0.1:{port}", "PET_RDZV_CONF": "last_call_timeout=6"}


def with_master(job, port, which):
    """The same with a Master and one Worker: ranks are those of pods."""
    return {"PET_NPROC_PER_NODE": "1", "PET_NNODES": "2", "PET_NODE_RANK": str(which), "RANK": str(which),
            "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "PET_MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
            "PET_MASTER_PORT": str(port)}


def run_job(job, folder, pods, operator):
    port = free_port()
    started = [start_pod(job, folder, f"pod{i}", operator(job, port, i)) for i in range(pods)]
    codes = [pod.wait() for pod in started]
    check("all pods end well", codes == [0] * pods, f"{codes}\n" + "\n".join(logs(folder, pods)))
    return logs(folder, pods)


def main(folder):
    with open(f"{deploy}/qa.yaml", encoding="utf-8") as file:
        job, = manifests.documents(file.read())
    os.makedirs(f"{folder}/bin")
    os.makedirs(f"{folder}/checkpoints")
    for name, target in ("lockstep", lockstep), ("qa", qa):
        os.symlink(target, f"{folder}/bin/{name}")
    subprocess.run([qa_files, f"{folder}/data/huggingface/hub", "google-bert--bert-large-uncased"], check=True,
                   stdout=subprocess.DEVNULL)
    out = f"{folder}/checkpoints/qa"
    answers = set()
    for operator in elastic, with_master:
        said = run_job(job, folder, 2, operator)
        # 87 windows in batches of 12 on two processes, twice
        check("two pods share the work", any("windows: 87, steps: 8\n" in text for text in said), said)
        check("the score is in the log", any(" of 11 questions" in text for text in said), said)
        check("the model is on the volume", os.path.getsize(f"{out}/model.safetensors") > 0)
        with open(f"{out}/predictions.json", encoding="utf-8") as file:
            text = file.read()
        check("every question is answered", len(json.loads(text)) == 11, text)
        answers.add(text)
        os.rename(out, f"{folder}/{operator.__name__}")
    check("both ways give the same answers", len(answers) == 1)

    # Rank 1 is lost once there is a checkpoint: all start again from it, and come to the same answers.
    container = container_of(job)
    container["args"][container["args"].index("--save_steps") + 1] = "3"
    os.rename(f"{folder}/bin/qa", f"{folder}/bin/the_qa")
    with open(f"{folder}/bin/qa", "w", encoding="utf-8") as script:
        script.write("#!/bin/sh\n[ $RANK$TORCHELASTIC_RESTART_COUNT = 10 ] || exec the_qa \"$@\"\nthe_qa \"$@\" &\n"
                     f"while [ ! -d {out}/checkpoints/checkpoint_0 ]; do sleep 0.01; done; kill -9 $! $$\n")
    os.chmod(f"{folder}/bin/qa", 0o755)
    said = run_job(job, folder, 2, elastic)
    check("the loss is told", any("restart 1 of 10" in text for text in said), said)
    with open(f"{out}/predictions.json", encoding="utf-8") as file:
        check("it changes nothing", file.read() in answers)
    os.rename(out, f"{folder}/lost")
    os.rename(f"{folder}/bin/the_qa", f"{folder}/bin/qa")

    # The pod's program without the launcher, as a job with a Master may start it.
    container["command"], container["args"] = container["args"][:1], container["args"][1:]
    said = run_job(job, folder, 2, with_master)
    check("a pod may run qa itself", any("windows: 87, steps: 8\n" in text for text in said), said)


with tempfile.TemporaryDirectory() as scratch:
    main(scratch)
print(f"{passed} passed, {failed} failed")
sys.exit(failed != 0)
