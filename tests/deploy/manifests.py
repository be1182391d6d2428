"""manifests.py DEPLOY LOCKSTEP PETS QA - the files of deploy/ have the fields their kinds have, and fit together.

Fields are checked against tables of what each kind may and must hold, names against what they refer to, options
against what the programs say they take, packages of the image against those that the build asks for, and what
docs/clusters.md tells people to type against all that. Then each rule is broken once, to see that it is kept. Needs only Python's
own library, and so reads the plain YAML of these files itself."""
import json
import os
import re
import subprocess
import sys


class Wrong(Exception):
    pass


# ---- Reading: blocks of maps and lists, scalars, and lists in brackets, which are JSON ----


def scalar(text):
    if text[:1] in '["':
        return json.loads(text)
    if re.fullmatch(r"-?\d+", text):
        return int(text)
    return {"true": True, "false": False}.get(text, text)


def block(lines, indent):
    """What begins at lines[0], all of it indented by at least `indent`; takes the lines it has read."""
    is_list = lines[0][1].startswith("- ")
    value = [] if is_list else {}
    while lines and lines[0][0] == indent and lines[0][1].startswith("- ") == is_list:
        _, text = lines.pop(0)
        if is_list:
            lines.insert(0, (indent + 2, text[2:]))
            value.append(block(lines, indent + 2))
            continue
        match = re.fullmatch(r"([\w./-]+):(?: (.*))?", text)
        if not match:
            raise Wrong("cannot read: " + text)
        key, rest = match.groups()
        if key in value:
            raise Wrong(key + " is there twice")
        while rest and rest.startswith("[") and rest.count("[") > rest.count("]"):
            rest += lines.pop(0)[1]
        if rest:
            value[key] = scalar(rest)
        elif lines and lines[0][0] > indent:
            value[key] = block(lines, lines[0][0])
        else:
            raise Wrong(key + " is empty")
    if lines and lines[0][0] > indent:
        raise Wrong("indented too far: " + lines[0][1])
    return value


def documents(text):
    for part in re.split(r"^---$", text, flags=re.M):
        lines = [re.sub(r"\s+#.*|^#.*", "", line) for line in part.splitlines()]
        lines = [(len(line) - len(line.lstrip()), line.strip()) for line in lines if line.strip()]
        yield block(lines, 0)
        if lines:
            raise Wrong("cannot read: " + lines[0][1])


# ---- What kinds hold: a type, a set of values, [of one], or {name: ...} where "name!" must be there ----

TEXTS = [str]
NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
QUANTITY = re.compile(r"\d+(m|Mi|Gi)?")
AMOUNTS = {"cpu!": QUANTITY, "memory!": QUANTITY}
RESOURCES = {"requests!": AMOUNTS, "limits!": AMOUNTS}
SECRET = {"secretKeyRef!": {"name!": NAME, "key!": str, "optional": bool}}
CONTAINER = {
    "name!": NAME, "image!": str, "imagePullPolicy": {"Always", "IfNotPresent", "Never"},
    "command": TEXTS, "args": TEXTS, "env": [{"name!": str, "value": str, "valueFrom": SECRET}], "resources": RESOURCES,
    "volumeMounts": [{"name!": NAME, "mountPath!": str, "readOnly": bool}],
}
POD = {
    "metadata": {"labels": {}},
    "spec!": {
        "containers!": [CONTAINER], "initContainers": [CONTAINER], "restartPolicy": {"Never", "OnFailure", "Always"},
        "nodeSelector": {}, "terminationGracePeriodSeconds": int, "securityContext": {"fsGroup": int},
        "volumes": [{"name!": NAME, "persistentVolumeClaim!": {"claimName!": NAME}}],
    },
}
JOB = {"backoffLimit": int, "template!": POD}
META = {"name!": NAME, "namespace!": NAME, "labels": {}}
RUN_POLICY = {"cleanPodPolicy": {"None", "Running", "All"}, "backoffLimit": int}
REPLICAS = {"replicas!": int, "template!": POD, "restartPolicy": {"Always", "OnFailure", "Never", "ExitCode"}}
KINDS = {
    ("v1", "PersistentVolumeClaim"): {
        "accessModes!": [{"ReadWriteOnce", "ReadWriteMany"}], "resources!": {"requests!": {"storage!": QUANTITY}}},
    ("v1", "Service"): {
        "clusterIP": str, "publishNotReadyAddresses": bool, "selector!": {}, "ports!": [{"name": NAME, "port!": int}]},
    ("v1", "Pod"): POD["spec!"],
    ("batch/v1", "Job"): JOB,
    ("apps/v1", "StatefulSet"): {
        "serviceName!": NAME, "replicas": int, "podManagementPolicy": {"OrderedReady", "Parallel"},
        "selector!": {"matchLabels!": {}}, "template!": POD},
    ("kubeflow.org/v1", "PyTorchJob"): {
        "nprocPerNode": str, "runPolicy": RUN_POLICY,
        "elasticPolicy": {
            "rdzvBackend": {"c10d", "etcd", "etcd-v2"}, "rdzvId": str, "rdzvPort": int, "rdzvHost": str,
            "standalone": bool, "rdzvConf": [{"key!": str, "value!": str}], "minReplicas": int,
            "maxReplicas": int, "maxRestarts": int},
        "pytorchReplicaSpecs!": {"Master": REPLICAS, "Worker": REPLICAS}},
    ("trainer.kubeflow.org/v1alpha1", "TrainingRuntime"): {
        "mlPolicy!": {"numNodes": int, "torch": {"numProcPerNode": str}},
        "template!": {"spec!": {"replicatedJobs!": [
            {"name!": NAME, "template!": {"metadata": {"labels": {}}, "spec!": JOB}}]}}},
    ("trainer.kubeflow.org/v1alpha1", "TrainJob"): {
        "runtimeRef!": {"apiGroup": str, "kind": {"TrainingRuntime", "ClusterTrainingRuntime"}, "name!": NAME},
        "trainer": {"image": str, "command": TEXTS, "args": TEXTS, "numNodes": int, "numProcPerNode": int,
                    "resourcesPerNode": RESOURCES}},
    ("kubeflow.org/v2beta1", "MPIJob"): {
        "mpiImplementation": {"OpenMPI", "Intel", "MPICH"}, "slotsPerWorker": int,
        "launcherCreationPolicy": {"AtStartup", "WaitForWorkersReady"}, "sshAuthMountPath": str,
        "runPolicy": RUN_POLICY,
        "mpiReplicaSpecs!": {"Launcher!": REPLICAS, "Worker!": REPLICAS}},
}


def check(value, table, where):
    if isinstance(table, list):
        if not isinstance(value, list):
            raise Wrong(f"{where} is no list")
        for i, item in enumerate(value):
            check(item, table[0], f"{where}[{i}]")
    elif isinstance(table, dict):
        if not isinstance(value, dict):
            raise Wrong(f"{where} is no map")
        fields = {name.rstrip("!"): of for name, of in table.items()}
        for name in table:
            if name.endswith("!") and name[:-1] not in value:
                raise Wrong(f"{where} has no {name[:-1]}")
        for name, item in value.items():
            if table and name not in fields:
                raise Wrong(f"{where} may not have {name}")
            check(item, fields.get(name, str), f"{where}.{name}")
    elif isinstance(table, set):
        if value not in table:
            raise Wrong(f"{where} is {value}, not one of {sorted(table)}")
    elif isinstance(table, re.Pattern):
        if not isinstance(value, str) or not table.fullmatch(value):
            raise Wrong(f"{where} is {value}")
    elif type(value) is not table:
        raise Wrong(f"{where} is {value!r}, not of type {table.__name__}")


# ---- How things fit together ----


def find(value, name):
    """All values of that name, at any depth."""
    if isinstance(value, list):
        for item in value:
            yield from find(item, name)
    if isinstance(value, dict):
        for key, item in value.items():
            if key == name:
                yield item
            yield from find(item, name)


def options(words):
    return {re.sub("_", "-", word.split("=")[0]) for word in words if word.startswith("--")}


# What each program must be told: an option, and how its value begins ("": anything).
MUST_SAY = {
    "pets": {"--resume_from_checkpoint": "latest", "--checkpointing_steps": "", "--output_dir": "/checkpoints/",
             "--data_dir": "/data/"},
    "qa": {"--resume_from_checkpoint": "latest", "--save_steps": "", "--output_dir": "/checkpoints/"},
}


def check_command(words, known):
    name = next((word for word in words if word in MUST_SAY), None)
    if not name:
        return
    at = words.index(name)
    launch, program = words[:at], words[at + 1:]
    if "launch" not in launch:
        raise Wrong(f"{name} without lockstep launch")
    for who, given in ("launch", launch[launch.index("launch"):]), (name, program):
        unknown = options(given) - known[who]
        if unknown:
            raise Wrong(f"{who} has no option {sorted(unknown)}")
    given = dict(zip(program, program[1:]))
    for option, begin in MUST_SAY[name].items():
        if option not in given or not given[option].startswith(begin):
            raise Wrong(f"{name}: {option} is not {begin or 'given'}")


def variables(container):
    return {variable["name"]: variable.get("value") for variable in container.get("env", [])}


def check_cache(every):
    """The names that qa is given are fetched, into the cache that it looks in, and that is on a volume."""
    fetch, = (c for document in every for c in find(document, "containers") for c in c if c["name"] == "fetch")
    train, = (c for document in every for c in find(document, "containers") for c in c if "qa" in c.get("args", []))
    given = dict(zip(train["args"], train["args"][1:]))
    for option in "--model_name_or_path", "--dataset_name":
        if f'"{given[option]}"' not in fetch["args"][0]:
            raise Wrong(f"nobody fetches {given[option]}")
    home = variables(train).get("HF_HOME", "")
    if home != variables(fetch).get("HF_HOME"):
        raise Wrong("qa looks for its model elsewhere than it is fetched to")
    for container in fetch, train:
        if not any(home.startswith(mount["mountPath"] + "/") for mount in container["volumeMounts"]):
            raise Wrong(f"{home} is on no volume")
    for name, amounts in train["resources"].items():
        if amounts != train["resources"]["limits"]:
            raise Wrong("qa is not of class Guaranteed")


def check_pod(pod, claims, known):
    spec = pod["spec"]
    volumes = {volume["name"] for volume in spec.get("volumes", [])}
    for claim in find(spec, "claimName"):
        if claim not in claims:
            raise Wrong(f"nobody claims {claim}")
    for container in spec["containers"] + spec.get("initContainers", []):
        for mount in container.get("volumeMounts", []):
            if mount["name"] not in volumes:
                raise Wrong(f"no volume {mount['name']}")
        check_command(container.get("command", []) + container.get("args", []), known)


def check_all(files, known):
    every = []
    for name, text in files.items():
        for document in documents(text):
            kind = document.get("apiVersion"), document.get("kind")
            if kind not in KINDS:
                raise Wrong(f"{name}: unknown kind {kind}")
            table = {"apiVersion!": str, "kind!": str, "metadata!": META, "spec!": KINDS[kind]}
            check(document, table, f"{name}: {kind[1]}")
            every.append(document)
    if len({document["metadata"]["namespace"] for document in every}) > 1:
        raise Wrong("claims and secrets are found in one namespace only")
    named = {(document["kind"], document["metadata"]["name"]) for document in every}
    claims = {name for kind, name in named if kind == "PersistentVolumeClaim"}
    for document in every:
        spec, kind = document["spec"], document["kind"]
        for template in find(document, "template"):
            if "containers" in template.get("spec", {}):
                check_pod(template, claims, known)
        if kind == "Pod":
            check_pod(document, claims, known)
        if kind == "StatefulSet":
            if ("Service", spec["serviceName"]) not in named:
                raise Wrong("the StatefulSet's service is not there")
            if spec["selector"]["matchLabels"] != spec["template"]["metadata"]["labels"]:
                raise Wrong("the StatefulSet does not select its pods")
        if kind == "PyTorchJob":
            elastic, worker = spec["elasticPolicy"], spec["pytorchReplicaSpecs"]["Worker"]
            if not elastic["minReplicas"] <= worker["replicas"] <= elastic["maxReplicas"]:
                raise Wrong("replicas are outside the elastic policy")
            if [container["name"] for container in worker["template"]["spec"]["containers"]] != ["pytorch"]:
                raise Wrong("the operator wants a container called pytorch")
        if kind == "TrainJob":
            check_command(spec["trainer"]["command"] + spec["trainer"]["args"], known)
            if (spec["runtimeRef"]["kind"], spec["runtimeRef"]["name"]) not in named:
                raise Wrong("the TrainJob's runtime is not there")
    check_cache(every)
    return every


# ---- What docs/clusters.md tells people to type ----


def check_page(page, deploy, every):
    """Files, and names that kubectl is given, are there."""
    for path in re.findall(r"(?:-f |sbatch )deploy/([\w.]+)", page):
        if not os.path.exists(f"{deploy}/{path}"):
            raise Wrong(f"the page names deploy/{path}")
    names = {document["metadata"]["name"] for document in every}
    for line in re.findall(r"^    kubectl .*", page, flags=re.M):
        for name in re.findall(r"lockstep-[a-z]+", line):
            if name not in names | {"lockstep-token"}:
                raise Wrong(f"the page names {name}")
    folders = {word for found in find(every, "args") for word in found if word.startswith("/checkpoints/")}
    for folder in re.findall(r"(/checkpoints/\w+)", page):
        if folder not in folders:
            raise Wrong(f"the page names {folder}")


# ---- The image ----


def packages(text):
    return set(re.findall(r"\S+", text))


def check_image(dockerfile, bootstrap):
    """The image is built with what tools/bootstrap.sh installs to build, except for notebooks, which jobs do not run, and
    with MPI, which it installs for tests; all examples that the manifests start are in it."""
    joined = dockerfile.replace("\\\n", " ")
    installed = re.findall(r"apt-get install -y --no-install-recommends (.*?)&&", joined)
    groups = dict(re.findall(r"^    (\w+)\)\n(.*?)^        ;;", bootstrap, flags=re.M | re.S))
    wanted = {name: set() for name in groups}
    for name, text in groups.items():
        for line in re.findall(r"^\s+(?:need|want) \S+ ([^#\n]*)", text, flags=re.M):
            wanted[name] |= packages(line)
    wanted = wanted["build"] - {"libzmq3-dev"} | wanted["test"] & {"libopenmpi-dev"}
    if packages(installed[0]) != wanted:
        raise Wrong(f"the image is built with {sorted(packages(installed[0]) ^ wanted)} more or less")
    examples = packages(re.search(r"install -s (.*?) /image", joined).group(1))
    missing = {*MUST_SAY, "draw_pets"} - examples
    if missing:
        raise Wrong(f"the image lacks {sorted(missing)}")


# ---- Each rule broken once: file, what stands there, what stands there instead ----

BREAKS = [
    ("pytorchjob", "kubeflow.org/v1", "kubeflow.org/v3"),
    ("pytorchjob", "maxRestarts:", "maxRestart:"),
    ("pytorchjob", 'nprocPerNode: "1"', "nprocPerNode: 1"),
    ("pytorchjob", "replicas: 4", "replicas: 5"),
    ("pytorchjob", "namespace: lockstep", "namespace: other"),
    ("pytorchjob", "namespace: lockstep", "nameSpace: lockstep"),
    ("pytorchjob", "nodeSelector:", "nodeSelection:"),
    ("pytorchjob", "name: OMP_NUM_THREADS", "nam: OMP_NUM_THREADS"),
    ("results", "claimName: lockstep-checkpoints", "claimName: lockstep-results"),
    ("pytorchjob", "name: pytorch #", "name: worker #"),
    ("pytorchjob", "restartPolicy: ExitCode", "restartPolicy: Sometimes"),
    ("pytorchjob", '"--resume_from_checkpoint", "latest"', '"--no-freeze"'),
    ("pytorchjob", '"--shutdown-timeout"', '"--shutdown-timeuot"'),
    ("trainjob", "    name: lockstep\n  trainer", "    name: lokstep\n  trainer"),
    ("trainjob", '"--image_size"', '"--image_sise"'),
    ("trainjob", "numNodes: 1 #", "numNodes: one #"),
    ("mpijob", "    Launcher:", "    launcher:"),
    ("mpijob", "claimName: lockstep-data", "claimName: lockstep-photos"),
    ("statefulset", "serviceName: lockstep-pets", "serviceName: pets"),
    ("statefulset", "      labels:\n        app: lockstep-pets", "      labels:\n        app: pets"),
    ("statefulset", "- name: data\n              mountPath", "- name: date\n              mountPath"),
    ("statefulset", "memory: 2Gi", "memory: 2 GB"),
    ("storage", "accessModes:", "accessMode:"),
    ("qa", '"--max_seq_length"', '"--max_sequence_length"'),
    ("qa", '"--save_steps", "200"', '"--do_predict"'),
    ("qa", '"--output_dir", "/checkpoints/qa"', '"--output_dir", "/tmp/qa"'),
    ("qa", '"squad"', '"squad_v2"'),
    ("qa", "value: /data/huggingface", "value: /data/cache"),
    ("qa", "replicas: 4", "replicas: 8"),
    ("qa", "memory: 128Gi\n                limits", "memory: 64Gi\n                limits"),
    ("squad", "bert-large-uncased", "bert-base-uncased"),
    ("squad", "mountPath: /data", "mountPath: /date"),
    ("clusters.md", "-f deploy/squad.yaml", "-f deploy/squads.yaml"),
    ("clusters.md", "logs -f lockstep-qa-worker-0", "logs -f lockstep-bert-worker-0"),
    ("clusters.md", "/checkpoints/qa/predictions.json", "/checkpoints/squad/predictions.json"),
    ("Dockerfile", "libucx-dev", "libucx0"),
    ("Dockerfile", "ninja-build", ""),
    ("Dockerfile", " qa ", " "),
    ("storage", "spec:\n  backoffLimit", "spec:\n   backoffLimit"),
]


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def main():
    deploy, lockstep, pets, qa = sys.argv[1:]
    files = {name: read(f"{deploy}/{name}.yaml")
             for name in ("storage", "pytorchjob", "trainjob", "mpijob", "statefulset", "results", "squad", "qa")}
    files["Dockerfile"] = read(f"{deploy}/Dockerfile")
    files["clusters.md"] = read(f"{deploy}/../docs/clusters.md")
    bootstrap = read(f"{deploy}/../tools/bootstrap.sh")
    known = {}
    for program, command in ("launch", [lockstep, "help", "launch"]), ("pets", [pets, "--help"]), ("qa", [qa, "--help"]):
        said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        known[program] = options(re.findall(r"--[\w-]+", said))
    passed = failed = 0
    for name, old, new in [(None, None, None)] + BREAKS:
        try:
            if name and old not in files[name]:
                raise SystemExit(f"{name}: nothing to break: {old}")
            broken = {**files, name: files[name].replace(old, new, 1)} if name else dict(files)
            check_image(broken.pop("Dockerfile"), bootstrap)
            page = broken.pop("clusters.md")
            check_page(page, deploy, check_all(broken, known))
            problem = f"{name}: {new} in place of {old} is accepted" if name else ""
        except Wrong as wrong:
            problem = "" if name else str(wrong)
        passed, failed = passed + (not problem), failed + bool(problem)
        if problem:
            print(problem)
    print(f"{passed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
