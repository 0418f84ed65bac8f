# SPDX-License-Identifier: Apache-2.0
"""Every point of the tree where an operator makes a mutant, with a name that outlives a change elsewhere in the file."""
import collections, dataclasses, hashlib, json, multiprocessing, os, pathlib, re

from weave import Edit

HERE = pathlib.Path(__file__).parent
FOLDERS = {"engine": ("engine", "kernels"), "judge": ("oracle",)}
NOT_OURS = re.compile(r"(_test|_bench)\.cpp$|/testing[^/]*$|/exact_main/")
FORM = b"1"  # of a Point; another where points_of() gives others
JUDGE_TOO = tuple(f"suites/core/{name}.cpp" for name in ("judge", "bounded", "in_memory", "refusal"))


@dataclasses.dataclass(frozen=True)
class Point:
    """A mutant."""
    file: str      # from the root
    line: int      # for readers
    function: str  # or variable
    operator: str  # or "hand"
    what: str      # for readers
    edits: tuple
    digest: str    # of the operator, the text and what it stands in
    klass: str = ""      # of a hand-written one, which says so itself
    constant: bool = False  # in a constexpr function

    @property
    def id(self):
        return f"{self.file}:{self.function}:{self.operator}:{self.digest}"


def files_of(root, scope="engine"):
    """The sources of a scope, by path from the root."""
    found = []
    for folder in FOLDERS[scope]:
        for file in pathlib.Path(root, folder).rglob("*"):
            path = str(file.relative_to(root))
            if file.suffix in (".cpp", ".h") and not NOT_OURS.search(path):
                found.append(path)
    if scope == "judge":
        found += JUDGE_TOO
    return sorted(found)


def short(text):
    return text if len(text) <= 160 else text[:157] + "..."


def points_of(unit, path):
    """The points of a parsed file, each once."""
    import operators, syntax
    seen, points, names = set(), [], collections.Counter()
    for site in syntax.sites(unit):
        gone = tuple(Edit(*word) for word in site.around.constants)
        for name, operator in operators.OPERATORS.items():
            for what, edits in operator(site):
                if edits in seen:
                    continue
                seen.add(edits)
                parent = site.parent
                context = unit.line_text(parent) if parent is not None and parent.kind.is_expression() else ""
                digest = hashlib.sha256(f"{what}\0{context}".encode()).hexdigest()[:8]
                names[site.around.function, name, digest] += 1
                if (again := names[site.around.function, name, digest]) > 1:
                    digest += f".{again}"
                points.append(Point(path, unit.source.count(b"\n", 0, edits[0].start) + 1, site.around.function, name,
                                    short(what), edits + gone, digest, constant=site.around.constant_function))
    return points


def read(root, path, flags, header):
    import syntax
    return points_of(syntax.Unit(os.path.join(root, path), flags, header), path)


def as_json(point):
    return {**dataclasses.asdict(point), "edits": [[e.start, e.end, e.text] for e in point.edits]}


def from_json(data):
    return Point(**{**data, "edits": tuple(Edit(*e) for e in data["edits"])})


class Cache:
    """Points by what they were read from: the file, the headers that it may include, and the operators."""

    def __init__(self, root, folder):
        self.root, self.folder = pathlib.Path(root), pathlib.Path(folder)
        common = hashlib.sha256()
        common.update(FORM)
        for name in ("operators.py", "syntax.py"):
            common.update((HERE / name).read_bytes())
        for path in files_of(root, "engine") + files_of(root, "judge"):
            if path.endswith(".h"):
                common.update((self.root / path).read_bytes())
        self.common = common.hexdigest()

    def file(self, path):
        key = hashlib.sha256(f"{self.common}{path}".encode() + (self.root / path).read_bytes()).hexdigest()
        return self.folder / f"{key[:32]}.json"

    def get(self, path):
        file = self.file(path)
        return [from_json(p) for p in json.loads(file.read_text())] if file.exists() else None

    def put(self, path, points):
        self.folder.mkdir(parents=True, exist_ok=True)
        new = self.file(path).with_suffix(f".{os.getpid()}")
        new.write_text(json.dumps([as_json(p) for p in points]))
        new.rename(self.file(path))


def read_one(job):
    root, path, flags, header = job
    return path, read(root, path, flags, header)


def all_points(root, paths, flags_of, cache, jobs=2):
    """@param flags_of path -> (flags, precompiled header or "")  @returns the points of the files, in their order."""
    found = {path: cache.get(path) for path in paths}
    left = [(root, path, *flags_of(path)) for path, points in found.items() if points is None]
    with multiprocessing.Pool(min(jobs, max(1, len(left)))) as pool:
        for path, points in pool.imap_unordered(read_one, left):
            cache.put(path, points)
            found[path] = points
    return [point for path in paths for point in found[path]]
