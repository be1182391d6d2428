/* qa_files.c - `qa_files HUB MODEL`: a small model under this name, and SQuAD with small files, in a cache of downloads
 * as Hugging Face lays it out. */
#include "examples/qa_files.h"

int main(int argc, char **argv)
{
    if (argc != 3) return 2;
    make_cache(argv[1], argv[2]);
    return 0;
}
