# complete.bash - what bash offers for beginnings of command lines, as readline asks for it.
source <("$LOCKSTEP" completion bash)

offers()
{
    COMP_WORDS=("$@")
    COMP_CWORD=$(($# - 1))
    _lockstep lockstep "${@: -1}" "${@: -2:1}"
    echo "${COMPREPLY[*]:-none}"
}

offers lockstep la
offers lockstep launch --mixed_precision fp1
offers lockstep config u
offers lockstep plot --log
offers lockstep launch --config_file "" # so bash completes names of files
