#!/usr/bin/env python3
"""Jupyter's own conformance suite for kernels.

    conformance.py COMMAND        (lockstep)
"""
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import jupyter

jupyter.need("jupyter_kernel_test")
import jupyter_kernel_test


class Conformance(jupyter_kernel_test.KernelTests):
    kernel_name = "lockstep"
    language_name = "c"
    file_extension = ".c"
    code_hello_world = 'printf("hello, world\\n");'
    code_stderr = 'fprintf(stderr, "oops\\n");'
    code_generate_error = "int x = ;"
    code_execute_result = [{"code": "6 * 7", "result": "42"}, {"code": 'const char *s = "a";\ns', "result": "a"}]
    code_display_data = [{"code": 'ls_notebook_display("image/svg+xml", "<svg/>", 6);', "mime": "image/svg+xml"},
                         {"code": 'ls_notebook_display("image/png", "abc", 3);', "mime": "image/png"}]
    code_history_pattern = "6 [*] ?"
    supported_history_operations = ("tail", "range", "search")
    code_inspect_sample = "ls_describe"
    code_page_something = "%help ls_describe"
    code_clear_output = 'printf("old\\n"); ls_notebook_clear();'
    completion_samples = [{"text": "ls_cross_e", "matches": {"ls_cross_entropy"}}]
    complete_code_samples = ["int x = 1;", "1", "for (;;) { break; }"]
    incomplete_code_samples = ["int f(void) {", "for (;;)", "/* a comment"]


if __name__ == "__main__":
    folder = jupyter.install(sys.argv.pop(1))
    unittest.main(verbosity=1)
