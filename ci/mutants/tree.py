# SPDX-License-Identifier: Apache-2.0
"""The copy of the tree in which mutants stand, and its build. Who does not compile is taken out."""
import collections, concurrent.futures, hashlib, json, os, pathlib, re, shlex, subprocess

import points as points_of_tree
from weave import Edit, weave

SWITCH_HEADER = b'#include "ci/mutants/switch.h"  '
PLACE = re.compile(r"^(?:In file included from |\s+from )?([^\s:]+):(\d+):(\d+)[:,]")


OF_THE_PROGRAM = re.compile("(kernels|engine|oracle|generators|suites|golden|dashboard|ci/(program|curves|gate|output|cmake))/"
                            "|CMake")


def tracked(root):
    """What git would keep, by path."""
    listed = subprocess.run(["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                            capture_output=True, check=True).stdout.decode().split("\0")[:-1]
    return [path for path in listed if pathlib.Path(root, path).is_file()]


def digest_of(root):
    """Of all that an outcome depends on: what the program is built of, and frozen data."""
    digest = hashlib.sha256()
    for path in tracked(root):
        if OF_THE_PROGRAM.match(path) and not path.endswith(".md") and "_test" not in path:
            digest.update(path.encode() + b"\0" + pathlib.Path(root, path).read_bytes())
    return digest.hexdigest()[:16]


def switch_of(constant):
    name = "lockstep_mutant_unless_constant" if constant else "lockstep_mutant"
    return lambda number: f"{name}({number})"


def woven(source, points, always=()):
    """@param points {number: Point}  @param always edits without a switch
    @returns the text of the file and {number: [(from, to)]}"""
    constant = {number for number, point in points.items() if point.constant}
    text, spans = weave(source, {0: always} | {number: point.edits for number, point in points.items()},
                        lambda number: switch_of(number in constant)(number))
    spans.pop(0, None)
    # Before the licence on its line, so that the lines stay.
    assert text.startswith(b"// SPDX"), "a source opens with its SPDX line"
    shift = len(SWITCH_HEADER)
    return SWITCH_HEADER + text, {n: [(a + shift, b + shift) for a, b in of_one] for n, of_one in spans.items()}


def fixed(source, point, held):
    """The file with the mutant's switch held, "true" or "false"."""
    return SWITCH_HEADER + weave(source, {1: point.edits}, lambda number: held)[0]


def write(file, content):
    """Only where it is other: a build looks at times."""
    if not file.exists() or file.read_bytes() != content:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)


# What tells the switch under which op a mutant is reached, in which case, and what came of it: {path: [(text, what comes before it)]}
PROBES = {
    "engine/tensor/dispatch.cpp": [
        (b"++call.comm->context->counters.ops;", "lockstep_running_op = op.schema().name().c_str(); ")],
    "suites/harness/case_worker.cpp": [
        (b"const auto p = planned(number);", "if (!lockstep_case_begins(number)) return; "),
        (b"settled(recorder_->saved());",
         "const auto* passed = std::get_if<Passed>(&judged.outcome); lockstep_case_ended(number, "
         "static_cast<int>(verdict_of(judged.outcome)), judged.facts.bytes_moved + (passed ? passed->bytes_moved : 0)); "),
        (b"p.suite->self_check || ++shrunk_[f.bucket]", "lockstep_shrinks_nothing() || "),
        (b"planned.suite->self_check || ++shrunk_[", "lockstep_shrinks_nothing() || "),
        (b"storing([&] { recorder_->flush(); });", "lockstep_case_begins(-1); ")]}


def probes(path, source):
    """The edits of a file that hold without a switch."""
    edits = []
    for place, text in PROBES.get(path, ()):
        assert source.count(place) == 1, f"{path} has no place for the probe {text}"
        edits.append(Edit(source.index(place), source.index(place), text))
    return edits


def lay(root, tree, chosen):
    """@param chosen {number: Point}  @returns {path: spans of the mutants in it}"""
    by_file = collections.defaultdict(dict)
    for number, point in chosen.items():
        by_file[point.file][number] = point
    spans, kept = {}, set()
    for path in tracked(root):
        file = pathlib.Path(tree, path)
        content = pathlib.Path(root, path).read_bytes()
        if path in by_file or path in PROBES:
            content, spans[path] = woven(content, by_file[path], probes(path, content))
        write(file, content)
        file.chmod(pathlib.Path(root, path).stat().st_mode)
        kept.add(file)
    for file in pathlib.Path(tree).rglob("*"):
        inside = file.relative_to(tree).parts[0]
        if file.is_file() and file not in kept and not inside.startswith("build"):
            file.unlink()
    return spans


def environment(tree):
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path(os.environ.get("HOME", "/var/tmp"), ".cache"))
    return {**os.environ, "CCACHE_BASEDIR": str(tree), "CCACHE_INODECACHE": "1", "GIT_CEILING_DIRECTORIES": str(tree.parent),
            "LOCKSTEP_CACHE": os.environ.get("LOCKSTEP_CACHE") or str(cache / "lockstep")}


def is_configured(tree):
    return (tree / "build/build.ninja").exists()


def configure(tree):
    """Once; a build configures again by itself."""
    if is_configured(tree):
        return
    env = environment(tree)
    done = subprocess.run(["cmake", "-S", tree, "--preset", "release", f"-DLOCKSTEP_CACHE={env['LOCKSTEP_CACHE']}",
                           f"-DLOCKSTEP_LIBTORCH={env.get('LOCKSTEP_LIBTORCH', '')}"],
                          env=env, cwd=tree, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"mutate: {tree} cannot be configured:\n{done.stdout[-2000:]}{done.stderr[-4000:]}")


def ninja(tree, jobs, tests):
    """@returns the compiler's words; "": it is built"""
    targets = ["lockstep", *(pathlib.Path(test).name for test in tests)]
    done = subprocess.run(["ninja", "-C", str(tree / "build"), "-k", "0", "-j", str(jobs), *targets],
                          env=environment(tree), capture_output=True, text=True)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def places(words, tree):
    """Blocks of (path, line, column), one for each error: what the compiler names for it, the error itself first."""
    blocks, before = [], []
    for line in words.splitlines():
        found = PLACE.match(line)
        if not found:
            continue
        file = os.path.normpath(os.path.join(tree / "build", found[1]))
        place = (os.path.relpath(file, tree), int(found[2]), int(found[3]))
        if re.search(r": (fatal )?error: ", line):
            blocks.append([place, *reversed(before)])
            before = []
        elif ": note: " in line or "required from" in line or "required by" in line:
            (blocks[-1] if blocks and ": note: " in line else before).append(place)
    return blocks


def offset_of(text, line, column):
    start = 0
    for _ in range(line - 1):
        start = text.index(b"\n", start) + 1
    return start + column - 1


def blamed(block, spans, read):
    """The mutant in which an error lies: the innermost there; else those of its line; else those that changed the file for
    good; else all of the file. @param read path -> the woven text"""
    for path, line, column in block:
        if path not in spans:
            continue
        text = read(path)
        at = offset_of(text, line, column)
        around = [(b - a, n) for n, of_one in spans[path].items() for a, b in of_one if a <= at < b]
        if around:
            return {min(around)[1]}
    for path, line, column in block:
        if path in spans:
            text = read(path)
            begin, end = offset_of(text, line, 1), offset_of(text, line + 1, 1) if text.count(b"\n") > line else len(text)
            on_line = {n for n, of_one in spans[path].items() for a, b in of_one if a < end and begin < b}
            if on_line:
                return on_line
    for path, _, _ in block:
        if path in spans:
            return set(spans[path])
    return set()


def build(root, tree, chosen, jobs, say, tests=()):
    """Builds the program, and tests, with every mutant that compiles. @returns ({number: Point} in it, {number: Point} taken out)"""
    chosen, out = dict(chosen), {}
    while True:
        spans = lay(root, tree, chosen)
        configure(tree)
        words = ninja(tree, jobs, tests)
        if not words:
            return chosen, out
        (tree / "build/errors.txt").write_text(words)
        guilty = set()
        for block in places(words, tree):
            guilty |= blamed(block, spans, lambda path: (tree / path).read_bytes())
        if not guilty:
            raise SystemExit(f"mutate: the tree does not build, and no mutant is to blame; see {tree}/build/errors.txt")
        say(f"{len(guilty)} mutants do not compile and are taken out")
        for number in guilty:
            out[number] = chosen.pop(number)


def link_beside(build, target, made, out):
    """Links a target of a build with those of these objects whose archive it has, before the archives, of which no member is
    then taken that one of these stands for. @param target "folder/name"  @param made [(object, archive)]  @param out the
    program"""
    listed = subprocess.run(["ninja", "-C", build, "-t", "commands", pathlib.Path(target).name], check=True,
                            capture_output=True, text=True)
    out.parent.mkdir(parents=True, exist_ok=True)
    command = listed.stdout.splitlines()[-1]
    objects = " ".join(made_of for made_of, archive in made if archive in command)
    subprocess.run(command.replace(f" -o {target} ", f" {objects} -o {out} "), shell=True, cwd=build, check=True)


def compile_beside(root, tree, path, command, points):
    """One woven source; who does not compile is taken out. @param points {number: Point} of it, of which these go
    @returns ((the object, the archive that has the one it stands for), {number: Point} taken out)"""
    source, out = pathlib.Path(tree, path), {}
    words = shlex.split(command)
    archive = "/lib" + re.search(r"CMakeFiles/(\w+)\.dir/", words[words.index("-o") + 1])[1] + ".a"
    words[words.index("-o") + 1], words[words.index("-c") + 1] = f"{source}.o", str(source)
    content = pathlib.Path(root, path).read_bytes()
    while True:
        text, spans = woven(content, points, probes(path, content))
        write(source, text)
        done = subprocess.run(words, cwd=pathlib.Path(root, "build"), capture_output=True, text=True)
        if done.returncode == 0:
            return (f"{source}.o", archive), out
        guilty = set()
        for block in places(done.stderr, tree):
            guilty |= blamed(block, {path: spans}, lambda _: text)
        if not guilty:
            raise SystemExit(f"mutate: {path} does not compile, and no mutant is to blame:\n{done.stderr[-2000:]}")
        for number in guilty:
            out[number] = points.pop(number)


def build_beside(root, tree, chosen, jobs, tests=()):
    """The program of root/build, and tests, with every mutant that compiles: their sources alone are compiled.
    @pre none lies in a header  @returns ({number: Point} in it, {number: Point} taken out)"""
    build = pathlib.Path(root, "build")
    commands = {os.path.relpath(command["file"], root): command["command"]
                for command in json.loads((build / "compile_commands.json").read_text())}
    by_file = {path: {} for path in PROBES}
    for number, point in chosen.items():
        by_file.setdefault(point.file, {})[number] = point
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        made = list(pool.map(lambda path: compile_beside(root, tree, path, commands[path], by_file[path]), by_file))
    out = {number: point for _, taken in made for number, point in taken.items()}
    for target in ("ci/program/lockstep", *tests):
        link_beside(build, target, [of for of, _ in made], pathlib.Path(tree, "build", target))
    return {number: point for number, point in chosen.items() if number not in out}, out


def save(folder, built, out, drawn, digest, place):
    """@param drawn all that the draw gave, woven or not  @param place of the build, within the folder"""
    data = {"tree": digest, "build": place, "mutants": {n: points_of_tree.as_json(p) for n, p in built.items()},
            "not compiled": [p.id for p in out.values()], "drawn": [points_of_tree.as_json(p) for p in drawn]}
    write(folder / "manifest.json", json.dumps(data, indent=1).encode())


def load(folder):
    """({number: Point}, ids of those that do not compile, all that the draw gave, digest of the tree, the build)"""
    data = json.loads((folder / "manifest.json").read_text())
    return ({int(n): points_of_tree.from_json(p) for n, p in data["mutants"].items()}, data["not compiled"],
            list(map(points_of_tree.from_json, data["drawn"])), data["tree"], folder / data["build"])


def flags_for(tree, root):
    """(flags of the engine's files, which include the precompiled header; path -> those of one that does not, else None),
    of the root's files, from the commands of the copy's build."""
    import syntax
    commands = json.loads((tree / "build/compile_commands.json").read_text())
    by_file = {os.path.relpath(c["file"], tree): shlex.split(c["command"]) for c in commands}
    with_header = {path for path, command in by_file.items() if any("cmake_pch" in word for word in command)}

    def flags(path):
        return [word.replace(str(tree), str(root)) for word in syntax.include_flags(by_file[path])]
    return flags(min(path for path in with_header if path.startswith("engine/"))), lambda path: flags(path) if path in by_file.keys() - with_header else None
