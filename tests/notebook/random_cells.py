#!/usr/bin/env python3
"""Random notebooks: definitions, redefinitions, errors and crashes behave as a model says.

    random_cells.py COMMAND [NOTEBOOKS [SEED]]        (lockstep)

The model is the contract of docs/notebooks.md: a cell that fails leaves no trace; a function keeps the versions of
variables and macros that it was compiled with; a changed macro or type removes what was declared with it.
"""
import copy
import os
import random
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import jupyter

jupyter.need("jupyter_client")

NAMES = range(4)
CELLS = 14


class Model:
    def __init__(self):
        self.version = 0
        self.values = {}     # version of a variable: its value
        self.variables = {}  # name: version
        self.functions = {}  # name: (factor, version of the variable it adds, or a number)
        self.macros = {}     # name: number
        self.arrays = {}     # name: (macro that is its size, or None; numbers)
        self.types = {}      # tag: members
        self.structs = {}    # variable: (tag, value of its first member)

    def value_of(self, name):
        return self.values[self.variables[name]]

    def call(self, name, x):
        factor, added = self.functions[name]
        return x * factor + (self.values[added[1]] if added[0] == "version" else added[1])


class Cell:
    """Code, and what it does to the model: declarations first, for all of the cell, then what runs, in order."""

    def __init__(self, model, dice):
        self.model, self.dice = model, dice
        self.code, self.runs, self.binds, self.taken = [], [], [], set()
        self.shown = None

    def free(self, name):
        new = name not in self.taken
        self.taken.add(name)
        return new

    def variable(self):
        name, number = "v%d" % self.dice.choice(NAMES), self.dice.randrange(100)
        if not self.free(name):
            return
        self.code.append("%s %s = %d;" % (self.dice.choice(("int", "long", "static short")), name, number))
        self.model.version += 1
        version = self.model.version
        self.model.variables[name] = version
        self.model.values[version] = 0
        self.runs.append(lambda m: m.values.update({version: number}))

    def change(self):
        known = [n for n in self.model.variables if n not in self.taken]
        if not known:
            return
        name, number = self.dice.choice(known), self.dice.randrange(100)
        self.code.append("%s = (%s * 3 + %d) %% 1000;" % (name, name, number))
        self.runs.append(lambda m: m.values.update({m.variables[name]: (m.value_of(name) * 3 + number) % 1000}))

    def function(self):
        name, factor = "f%d" % self.dice.choice(NAMES), self.dice.randrange(1, 9)
        added = self.dice.choice(sorted(self.model.variables) + sorted(self.model.macros) + ["7"])
        if not self.free(name):
            return
        self.code.append("%slong %s(long x)\n{\n    return x * %d + %s; // }\n}" %
                         (self.dice.choice(("", "static ")), name, factor, added))

        def bind(m):
            known = ("version", m.variables[added]) if added in m.variables else ("number", m.macros.get(added, 7))
            m.functions[name] = (factor, known)
        self.binds.append(bind)

    def macro(self):
        name, number = "M%d" % self.dice.choice(NAMES), self.dice.randrange(1, 6)
        if not self.free(name) or any(size == name for size, _ in self.model.arrays.values()) and self.taken - {name}:
            return
        self.code.append("#define %s %d" % (name, number))
        if self.model.macros.get(name) != number:
            self.model.arrays = {a: v for a, v in self.model.arrays.items() if v[0] != name}
        self.model.macros[name] = number

    def array(self):
        name = "a%d" % self.dice.choice(NAMES)
        size = self.dice.choice(sorted(self.model.macros) + [None])
        if not self.free(name):
            return
        self.taken.add(size)
        count = self.model.macros[size] if size else self.dice.randrange(1, 6)
        numbers = [self.dice.randrange(100) for _ in range(count)]
        self.code.append("int %s[%s] = {%s};" % (name, size or "", ", ".join(map(str, numbers))))
        self.model.arrays[name] = (size, numbers)

    def struct(self):
        tag, number = "s%d" % self.dice.choice(NAMES), self.dice.randrange(100)
        name, members = "w" + tag[1:], self.dice.randrange(1, 3)
        if not self.free(tag):
            return
        fields = " ".join("int m%d;" % i for i in range(members))
        if self.model.types.get(tag) != members:
            self.model.structs = {w: v for w, v in self.model.structs.items() if v[0] != tag}
        self.model.types[tag] = members
        self.code.append("struct %s { %s };" % (tag, fields))
        if self.dice.random() < 0.6:
            self.code.append("struct %s %s = {%d};" % (tag, name, number))
            self.model.structs[name] = (tag, number)

    def show(self):
        """An expression over everything that exists, as code and as a function of the model."""
        terms = [(n, lambda m, n=n: m.value_of(n)) for n in self.model.variables]
        terms += [("%s(%d)" % (n, 3), lambda m, n=n: m.call(n, 3)) for n in self.model.functions]
        terms += [(n, lambda m, n=n: m.macros[n]) for n in self.model.macros]
        terms += [("%s[0] + (long)(sizeof %s / sizeof *%s)" % (n, n, n),
                   lambda m, n=n: m.arrays[n][1][0] + len(m.arrays[n][1])) for n in self.model.arrays]
        terms += [("%s.m0" % n, lambda m, n=n: m.structs[n][1]) for n in self.model.structs]
        chosen = self.dice.sample(terms, min(len(terms), 4))
        self.code.append(" + ".join([code for code, _ in chosen] + ["0l"]))
        self.shown = lambda m: str(sum(value(m) for _, value in chosen))


def make(model, dice):
    """The code of a cell, how it shall end, what it shall show, and the model after it."""
    after = copy.deepcopy(model)
    cell = Cell(after, dice)
    for _ in range(dice.randrange(1, 5)):
        dice.choice((cell.variable, cell.change, cell.function, cell.macro, cell.array, cell.struct))()
    fate = dice.choices(("ok", "compile", "crash"), (8, 1, 1))[0]
    if fate == "ok":
        cell.show()
    else:
        cell.code.append({"compile": "this is not C;", "crash": "abort();"}[fate])
    for bind in cell.binds:
        bind(after)
    for run in cell.runs:
        run(after)
    return "\n".join(cell.code), fate, cell.shown(after) if cell.shown else None, model if fate != "ok" else after


def check(notebook, seed):
    dice, model, told = random.Random(seed), Model(), []
    notebook.run("%reset")
    for _ in range(CELLS):
        code, fate, expected, model = make(model, dice)
        told.append(code)
        outcome = notebook.run(code)
        right = {"ok": outcome.status == "ok" and outcome.result() == expected,
                 "compile": "CompileError" in outcome.error(), "crash": "Crash: Aborted" in outcome.error()}[fate]
        if not right:
            print("seed %d: expected %s %s, got %s %s %s" % (seed, fate, expected, outcome.status, outcome.result(),
                                                             outcome.error()))
            print("\n---- next cell\n".join(told))
            return False
    return True


def main():
    folder = jupyter.install(sys.argv[1])
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    first = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    notebook = jupyter.Notebook()
    wrong = sum(not check(notebook, seed) for seed in range(first, first + count))
    notebook.end()
    folder.cleanup()
    print("%d notebooks, %d of them wrong" % (count, wrong))
    return wrong != 0


if __name__ == "__main__":
    sys.exit(main())
