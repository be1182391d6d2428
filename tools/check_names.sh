#!/bin/sh
# check_names.sh [ROOT] - fail on a type that two files define for different things, and on a type that is called like a
# function or a macro with arguments: a file that includes both headers would not compile. Names of one file alone have
# no prefix; plug-ins are programs of their own.
set -eu
cd "${1:-$(dirname "$0")/..}"

folders=$(for folder in src include cli; do [ ! -d $folder ] || echo $folder; done)
find $folders -name '*.[ch]' -o -name '*.inc' | sort | xargs awk '
    function complain(name, why) {
        printf "%s:%d: %s %s\n", FILENAME, FNR, name, why
        bad++
    }

    # a type is whole here; with `named` it also gets its name here, which others must not have announced
    function is_whole(name, named) {
        if (name !~ /^ls_/) return
        if (name in whole && whole[name] != FILENAME) complain(name, "is another type in " whole[name])
        else if (named && name in announced && announced[name] != FILENAME)
            complain(name, "is another type in " announced[name])
        whole[name] = FILENAME
        if (named) given[name] = FILENAME
        is_type(name)
    }

    # "typedef struct ls_run ls_run;": what is in it is for another file to say
    function is_announced(name) {
        if (name in given && given[name] != FILENAME) complain(name, "is another type in " given[name])
        announced[name] = FILENAME
        is_type(name)
    }

    function is_type(name) {
        if (name in call) complain(name, "is a function in " call[name])
        type[name] = FILENAME
    }

    function is_call(name) {
        if (name !~ /^ls_/) return
        if (name in type) complain(name, "is a type in " type[name])
        call[name] = FILENAME
    }

    # the word that ends in front of the first of these characters
    function word_before(line, end) {
        sub(end ".*", "", line)
        sub(/.*[ *]/, "", line)
        return line
    }

    /^struct ls_[a-z0-9_]+ \{/ { is_whole($2, 0); next }
    /^typedef (struct|enum|union) ls_[a-z0-9_]+ \{/ { is_whole($3, 1); next }
    /^typedef (struct|enum|union) ls_[a-z0-9_]+ ls_[a-z0-9_]+;/ { is_announced(word_before($0, ";")); next }
    /^typedef [^{]*\(/ { is_whole(word_before($0, "[(]"), 1); next }
    /^typedef [^{]* ls_[a-z0-9_]+;/ { is_whole(word_before($0, ";"), 1); next }
    /^#define ls_[a-z0-9_]+\(/ { is_call(word_before($2, "[(]")); next }
    /^(typedef|return|else)/ { next }
    /^static/ && FILENAME !~ /[.]h$/ { next }
    /^[A-Za-z][A-Za-z0-9_ *]*[ *]ls_[a-z0-9_]+\(/ { is_call(word_before($0, "[(]")) }

    END { exit bad > 0 }'
