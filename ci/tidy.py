#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tidy: what this repository promises about its own text, checked as a test. Reads files as text, whatever they are.

usage: tidy.py [ROOT]     prints what is wrong; exit 0: nothing, 1: something

A check takes the texts of all files by path from the root, and yields (path, line, what to do instead); lines count
from 1, and 0 is the file as a whole."""
import os, pathlib, posixpath, re, subprocess, sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "mutants"))
import hand  # noqa: E402

# Who may include whom, room by room, besides itself: every arrow is a word of the table, so that a new one is a
# decision. The oracle must not share code with what it judges. Each may use only rooms above it: no cycle.
TABLE = """
kernels/operators:
kernels:
engine/values:
engine/lane: engine/values
engine/lane/exact_main: engine/lane
engine/context: engine/values
engine/layout: engine/values
engine/world: kernels engine/values engine/context
engine/move: engine/values engine/layout engine/world
engine/stream: engine/values engine/context
engine/random: kernels engine/values engine/context engine/layout engine/world engine/stream
engine/ops/rules: engine/values engine/lane engine/context engine/layout engine/world engine/move engine/stream
    engine/random
engine/ops: engine/values engine/context engine/layout engine/world engine/ops/rules
engine/tensor: kernels/operators engine/values engine/lane engine/context engine/layout engine/world engine/move
    engine/ops/rules engine/ops engine/stream engine/random
engine/checkpoint: engine/values engine/layout engine/world engine/move engine/tensor
engine/nn: engine/values engine/context engine/stream engine/tensor
engine/debug: engine/values engine/context engine/layout engine/world engine/tensor engine/nn
engine/optim: engine/values engine/tensor
engine/fsdp: engine/values engine/layout engine/world engine/move engine/tensor engine/nn
engine/plan: engine/values engine/context engine/layout engine/world engine/tensor engine/nn engine/fsdp
engine/static_eager: engine/values engine/lane engine/context engine/layout engine/world engine/move engine/ops
    engine/ops/rules engine/tensor engine/nn engine/plan
oracle/ownership: engine/values
oracle/program: kernels/operators engine/values engine/lane engine/stream oracle/ownership
oracle/plain: engine/values engine/stream oracle/ownership oracle/program
oracle/random: engine/values engine/stream oracle/ownership
oracle/judge: engine/values engine/lane oracle/ownership oracle/program oracle/plain oracle/random
oracle/reference: kernels/operators engine/values engine/stream oracle/random
generators/space: engine/values oracle/program
generators/program: engine/values engine/stream oracle/program oracle/random generators/space
generators/ops: engine/values oracle/program generators/program
generators/random: engine/values oracle/program generators/space generators/program
generators/cases: engine/values oracle/program generators/space generators/program generators/ops generators/random
generators/shrink: engine/values oracle/program generators/space generators/program
dashboard/store:
dashboard/fill: dashboard/store
dashboard/statistics:
dashboard/report: dashboard/store dashboard/statistics
dashboard/pages: dashboard/store dashboard/report
dashboard/serve: dashboard/pages
suites/core: engine/values engine/layout engine/stream oracle/ownership oracle/program oracle/plain oracle/random
    oracle/judge dashboard/store
suites/engines: engine/values engine/lane engine/layout engine/world engine/stream engine/tensor engine/nn
    oracle/ownership oracle/program oracle/plain generators/space dashboard/store suites/core
suites/train: engine/values engine/lane engine/context engine/layout engine/world engine/stream engine/random
    engine/tensor engine/checkpoint engine/nn engine/debug engine/optim engine/fsdp engine/plan engine/static_eager
    oracle/ownership oracle/plain oracle/random oracle/judge oracle/reference dashboard/store suites/core
suites/fsdp: engine/values engine/world engine/stream engine/tensor engine/nn engine/optim engine/fsdp
    oracle/ownership oracle/program oracle/plain oracle/random generators/space suites/core suites/train
suites/optim: kernels/operators engine/values engine/world engine/tensor engine/optim oracle/ownership oracle/program
    generators/space suites/core
suites/plans: engine/values engine/stream engine/tensor engine/nn engine/plan engine/static_eager oracle/program
    generators/space suites/core suites/engines suites/fsdp
suites/experts: engine/values engine/world engine/tensor engine/nn oracle/program oracle/reference generators/space
    suites/core
suites/checkpoint: engine/values engine/world engine/tensor engine/checkpoint oracle/ownership oracle/program
    oracle/reference generators/space suites/core suites/engines
suites/faults: engine/values engine/context engine/layout engine/world engine/ops/rules engine/random engine/tensor
    engine/nn engine/fsdp engine/optim engine/stream oracle/ownership oracle/program oracle/random
    generators/program generators/random suites/core suites/engines suites/train suites/fsdp suites/optim
    suites/plans suites/checkpoint suites/experts
suites/golden: engine/values engine/stream engine/random engine/tensor engine/nn oracle/random
suites/laws: engine/values engine/layout engine/ops/rules engine/ops engine/stream engine/random oracle/ownership
    oracle/program oracle/plain oracle/random oracle/judge oracle/reference generators/space generators/ops
    generators/cases generators/shrink suites/core suites/engines suites/faults suites/golden suites/train suites/fsdp
    suites/optim suites/plans suites/checkpoint suites/experts engine/tensor engine/fsdp
suites: engine/values engine/lane engine/layout engine/world engine/ops/rules engine/random engine/tensor
    engine/checkpoint engine/nn engine/debug engine/fsdp engine/optim engine/plan engine/static_eager oracle/ownership
    oracle/plain oracle/judge generators/cases suites/core suites/faults suites/laws
suites/adversaries: engine/values engine/ops/rules oracle/ownership oracle/program oracle/plain oracle/random
    dashboard/store suites/core
    suites/engines suites/faults suites/train
suites/harness: engine/values engine/lane oracle/ownership oracle/program oracle/plain oracle/random generators/random
    generators/cases generators/shrink dashboard/store suites/core suites/engines suites/faults suites/golden
suites/bench: engine/values engine/context engine/ops/rules engine/stream engine/random engine/tensor engine/fsdp
    engine/plan engine/static_eager oracle/random oracle/reference dashboard/store suites/core suites/engines
    suites/fsdp suites/train suites/harness
suites/engines/testing/bad:
suites/engines/testing/good: engine/lane suites/engines
suites/engines/testing/ranks: engine/values engine/lane engine/world suites/core suites/engines suites/faults
ci/cmake:
ci/curves: engine/values dashboard/store dashboard/report
ci/example:
ci/gate: engine/values dashboard/store
ci/mutants:
ci/output: engine/values dashboard/store
ci/program: engine/values engine/lane engine/layout engine/world engine/ops/rules engine/ops engine/stream
    engine/tensor engine/checkpoint engine/debug engine/fsdp engine/plan oracle/program oracle/plain oracle/random
    dashboard/store dashboard/report dashboard/pages dashboard/serve suites/core suites/engines suites/faults
    suites/fsdp suites/golden suites/train suites/laws suites/harness suites/bench
    ci/curves ci/gate ci/output
ci/record: engine/values engine/lane engine/random suites/golden
"""
LAYERS = {folder: rooms.split() for folder, rooms in re.findall(r"^(\S+):(.*(?:\n .*)*)", TABLE, re.M)}

# Tests and what they stand on may look at all of their top folder, at all that it may, and from the first of these to
# the second.
FOR_TESTS = re.compile(r"(_test\.cpp|_bench\.cpp|/testing[^/]*)$")
TESTS_TOO = [("generators", "oracle"), ("ci", "engine")]

CPP = re.compile(r"\.(h|cpp|cc|c|cu)$")
SCRIPT = re.compile(r"(\.(cmake|cmake\.in|sql|js|css|html)|CMakeLists\.txt)$")

WIDTH, SCRIPT_WIDTH = 110, 120  # of C++, as .clang-format lays it out; of scripts and CMake files
FILE_LINES, FUNCTION_LINES, RECORD_LINES = 500, 70, 60

PATH = "a path of one machine; use a path from the root of the repository"
TEMPORARY = "a path of one machine; ask the standard library for a temporary folder"
HOST = "a registry's host; name the package and let the client find it"
NO_WORD = "not a word of this product"
RUN = "not a word of this product; say run, process or scope"
DO = "do it, or say in a README what is missing"
# With a '~' in each, so that this file does not find itself; words count only as words of their own.
TEXTS = {"/ro~ot/": PATH, "/tmp~/bash": TEMPORARY, "/wo~rk/": PATH, "pypi~.org": HOST, "python~hosted": HOST,
         "deb.deb~ian.org": HOST}
WORDS = {"pro~mpt": NO_WORD, "pro~mpts": NO_WORD, "ses~sion": RUN, "ses~sions": RUN, "FIX~ME": DO, "TO~DO": DO}

FOLDERS = {"kernels", "engine", "oracle", "generators", "suites", "golden", "dashboard", "ci"}
TOP_FILES = {"CMakeLists.txt", "README.md", "LICENSE", "CMakePresets.json", "CHANGELOG.md"}
SECTIONS = ["## Context", "## Decision", "## Alternatives rejected", "## Consequences",
            "## How we would notice it is wrong"]


def is_code(path, text):
    """C++, CMake, SQL, JavaScript, CSS or a script."""
    return bool(CPP.search(path) or SCRIPT.search(path) or text.startswith("#!"))


def numbered(text):
    return enumerate(text.removesuffix("\n").split("\n") if text else [], 1)


def top(path):
    return path.partition("/")[0]


# Includes.

def layer_of(path):
    """The layer with the longest folder that contains the path; None: none does."""
    return max((folder for folder in LAYERS if path.startswith(folder + "/")), key=len, default=None)


def may_include(path, layer, to):
    if to in (layer, *LAYERS[layer]):
        return True
    of_top = [folder for folder in LAYERS if top(folder) == top(layer)]
    return bool(FOR_TESTS.search(path)) and (
        (top(layer), top(to)) in TESTS_TOO or any(to in (folder, *LAYERS[folder]) for folder in of_top))


def wrong_include(path, layer, included):
    to = layer_of(included)
    if not to:
        return f'include "{included}" by its path from the root'
    if not may_include(path, layer, to):
        return f"{layer} may include {', '.join(LAYERS[layer]) or 'nothing of ours'}, not {to}"
    return None


def cycles(includes, path, way, done):
    """Depth first; a header that is met again on the way down closes a cycle."""
    if path in way:
        yield path, 0, "headers include each other: " + " -> ".join([*way[way.index(path):], path])
    elif path in includes and path not in done:
        done.add(path)
        for included in includes[path]:
            yield from cycles(includes, included, [*way, path], done)


def check_layers(files):
    includes, done = {}, set()
    for path, text in files.items():
        if not CPP.search(path):
            continue
        layer = layer_of(path)
        if not layer:
            yield path, 0, "this folder has no line in the table of ci/tidy.py"
            continue
        for number, line in numbered(text):
            if found := re.match(r'#include "([^"]*)', line):
                includes.setdefault(path, []).append(found[1])
                if wrong := wrong_include(path, layer, found[1]):
                    yield path, number, wrong
    for path in sorted(includes):
        yield from cycles(includes, path, [], done)


# Single lines. The rest of their layout is clang-format's (ci/format --check).

def banned():
    for table, form in ((TEXTS, "{}"), (WORDS, r"\b{}\b")):
        for text, remedy in table.items():
            text = text.replace("~", "")
            yield re.compile(form.format(re.escape(text)), re.I | re.A), f'"{text}": {remedy}'


def check_lines(files):
    all_banned = list(banned())
    for path, text in files.items():
        # Frozen data and third-party text keep their own form.
        if path == "LICENSE" or path.startswith("golden/") and not path.endswith(".md"):
            continue
        for number, line in numbered(text) if is_code(path, text) else []:
            limit = WIDTH if CPP.search(path) else SCRIPT_WIDTH
            if len(line) > limit and "://" not in line:
                yield path, number, f"wider than {limit} columns"
            ours = line.startswith(("#define LOCKSTEP_CHECK(", "#define LOCKSTEP_HOST_DEVICE"))
            if line.startswith("#define ") and not ours and CPP.search(path):
                yield path, number, ("a macro beside LOCKSTEP_CHECK and LOCKSTEP_HOST_DEVICE; write a function or a "
                                     "constant")
        for pattern, what in all_banned:
            for number in sorted({text.count("\n", 0, found.start()) + 1 for found in pattern.finditer(text)}):
                yield path, number, what


# Licence lines, Markdown pages and decision records.

def check_licence(path, text):
    if not is_code(path, text) or path.endswith("CMakeLists.txt") or path.startswith(".ci/"):
        return
    lines, at = text.split("\n"), int(text.startswith("#!"))
    if "SPDX-License-Identifier: Apache-2.0" not in "".join(lines[at:at + 1]):
        yield path, at + 1, "the file opens with its SPDX line, see any other file"
    elif path.endswith(".h") and not "".join(lines[1:2]).startswith("// "):
        yield path, 2, "the header says in one to three sentences what it is"


def check_markdown(path, text, paths):
    titles, fenced = 0, False
    for number, line in numbered(text):
        fenced ^= line.startswith("```")
        if fenced:
            continue
        titles += line.startswith("# ")
        for target in re.findall(r"\]\(([^)]*)\)", line):
            target = target.partition("#")[0]
            to = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
            if target and "://" not in target and to not in paths:
                yield path, number, f"the link to {to} leads nowhere"
    if titles != 1 or not text.startswith("# "):
        yield path, 1, "a page has exactly one title, on its first line"


def check_decision(path, text):
    for section in SECTIONS:
        if "\n" + section not in text:
            yield path, 0, f'a decision record has the section "{section}"'
    if len(list(numbered(text))) > RECORD_LINES:
        yield path, 0, f"a decision record fits one screen, {RECORD_LINES} lines"


def check_documents(files):
    paths = {str(part) for path in map(pathlib.PurePosixPath, files) for part in (path, *path.parents[:-1])}
    for path, text in files.items():
        yield from check_licence(path, text)
        if path.endswith(".md"):
            yield from check_markdown(path, text, paths)
            if "/decisions/" in path:
                yield from check_decision(path, text)


# The shape of the repository: its top level, a README for each folder, lengths of files and functions.

def check_top_level(files):
    for path in files:
        known = top(path) in (FOLDERS if "/" in path else TOP_FILES)
        if not known and not path.startswith("."):
            yield path, 0, "the top level holds nothing else; see the folder table in README.md"
    for name in sorted(TOP_FILES - files.keys()):
        yield name, 0, "missing"
    for readme in sorted({folder + "/README.md" for folder in FOLDERS} - files.keys()):
        yield readme, 0, "missing: each folder says what it is and in which order to read it"


def opens_function(line):
    """Of "int f() {", "Foo::Foo() {", the last line of a long parameter list; not of a type, a namespace or a table."""
    return line.endswith("{") and not line.endswith("= {") and ")" in line


def functions_of(text):
    """(line, length) of the functions of a C++ file laid out by clang-format. They stand at the left margin, members
    two columns in; what is inside a body is passed over."""
    head = indent = 0
    inside = False
    for number, line in numbered(text):
        deep = len(line) - len(line.lstrip(" "))
        if not inside:
            if line and deep <= 2:
                head, indent = number, deep
            inside = opens_function(line)
        elif line.startswith(" " * indent + "}"):
            yield head, number - head + 1
            inside = False


def check_shape(files):
    yield from check_top_level(files)
    for path, text in files.items():
        if not is_code(path, text):
            continue
        if (lines := len(list(numbered(text)))) > FILE_LINES:
            yield path, 0, f"{lines} lines; the limit is {FILE_LINES}"
        for line, length in functions_of(text) if CPP.search(path) else []:
            if length > FUNCTION_LINES:
                yield path, line, f"a function of {length} lines; the limit is {FUNCTION_LINES}"


def check_mutants(files):
    """What a mutant written by hand changes stands in its file, once: who changes that text mends the mutant, too."""
    for path in filter(re.compile(r"ci/mutants/hand/\w+\.txt").fullmatch, files):
        for slip in hand.parse(files[path], path):
            try:
                hand.point_of(slip, files.get(slip.file, "").encode())
            except hand.Misfit as misfit:
                yield path, 0, str(misfit)


def read_repository(root):
    """What git tracks; without git, everything but hidden and build folders."""
    listed = subprocess.run(["git", "-C", root, "ls-files", "-z"], capture_output=True).stdout.decode().split("\0")[:-1]
    for folder, below, names in os.walk(root) if not listed else []:
        below[:] = [name for name in below if folder != root or name != ".git" and not name.startswith("build")]
        listed += [os.path.relpath(os.path.join(folder, name), root) for name in names]
    return {path: file.read_bytes().decode(errors="replace") for path in listed
            if (file := pathlib.Path(root, path)).is_file()}


def said(findings):
    """ "path:line: message" each."""
    return "".join(f"{path}:{line}: {what}\n" if line else f"{path}: {what}\n" for path, line, what in findings)


def main(root="."):
    files = read_repository(root)
    findings = sorted(found for check in (check_layers, check_lines, check_documents, check_shape, check_mutants)
                      for found in check(files))
    print(f"{said(findings)}{len(findings)} findings in {len(files)} files")
    return int(bool(findings) or not files)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
