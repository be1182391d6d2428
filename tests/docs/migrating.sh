#!/bin/sh
# migrating.sh LOCKSTEP WORKER PAGE - run every command that docs/migrating.md shows for Lockstep.
#
# Each stands at the beginning of a right column. They run in a folder with the files that they name; those with $R run as
# two hosts of this machine, which node0 stands for. Ports are free ones.
set -eu
lockstep=$1 worker=$2 page=$3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/bin" "$folder/package"
ln -s "$lockstep" "$folder/bin/lockstep"
ln -s "$worker" "$folder/program"
echo 'import os; print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"])' >"$folder/train.py"
cp "$folder/train.py" "$folder/package/module.py"
printf 'distributed_type: MULTI_CPU\nnum_processes: 2\nuse_cpu: true\n' >"$folder/cluster.yaml"
echo 'localhost slots=2' >"$folder/hosts"
mkdir -p "$folder/out/runs/records"
printf '{"step":1,"loss":2}\n{"step":2,"loss":1}\n' >"$folder/out/runs/records/values.jsonl"
cd "$folder"
export PATH="$folder/bin:$PATH" LOCKSTEP_HOME="$folder/home" HF_HOME="$folder/home" OMPI_ALLOW_RUN_AS_ROOT=1 \
    OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
port=$((12000 + $$ % 6000)) # below those of other tests and those that the system gives to clients

# The first command of each row's last column, and what else stands there in code that is a command.
grep '^| .* | .* |$' "$page" | sed 's/.* | \(.*\) |$/\1/' | grep -oE '`(lockstep|mpirun|\./program)[^`]*`' | tr -d '`' |
    sort -u >commands
[ "$(wc -l <commands)" -ge 20 ] || { echo "only $(wc -l <commands) commands were found in $page"; exit 1; }
# next_port - the next four that are free, all of them.
next_port()
{
    port=$((port + 4))
    for each in 0 1 2 3; do
        if grep -qi ":$(printf %04X $((port + each))) " /proc/net/tcp /proc/net/tcp6 2>/dev/null; then
            next_port
            return
        fi
    done
}

# try LINE - run it, with other ports each time. If the host that others wait for fails, they need not wait.
try()
{
    next_port
    command=$(echo "$1" | sed "s/node0/127.0.0.1/g; s/29500/$port/; s/29400/$port/
        s/--nnodes 1:4/--nnodes 1:4 --rdzv-conf last_call_timeout=0.5/")
    [ "$1" != "lockstep launch train.py" ] || command="PET_NPROC_PER_NODE=2 $command"
    code=0
    case $1 in
    *'$R'*)
        R=1 sh -c "$command" </dev/null >log.1 2>&1 &
        R=0 sh -c "$command" </dev/null >log 2>&1 || { code=$?; kill $! 2>/dev/null || true; }
        wait $! || code=$?
        cat log.1 >>log
        ;;
    *) sh -c "$command" </dev/null >log 2>&1 || code=$? ;;
    esac
    return $code
}

report()
{
    echo "exit code $code: $command"
    sed 's/^/    /' log
}

passed=0 failed=0 skipped=0
while read -r line; do
    case $line in
    *mpirun*)
        if ! command -v mpirun >/dev/null; then
            echo "SKIP $line: mpirun is not installed"
            skipped=$((skipped + 1))
            continue
        fi
        ;;
    esac
    if try "$line" || { report >&2; try "$line"; }; then # its port may have been taken in between
        passed=$((passed + 1))
    else
        report
        failed=$((failed + 1))
    fi
done <commands
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
