#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each test states which fault of ci/mutate it would catch."""
import collections, os, pathlib, subprocess, sys, tempfile, unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE))
SETUP = subprocess.run([ROOT / "ci/setup", "--mutants"], stdout=subprocess.PIPE, text=True)
if SETUP.returncode != 0:
    sys.exit(77)  # ci/setup says why; no other test needs libclang
os.environ["LOCKSTEP_LIBCLANG"] = SETUP.stdout.strip()
import classes, draw, hand, operators, points, syntax, tree  # noqa: E402
from campaign_test import point  # noqa: E402
from weave import ORIGINAL, SWITCH, Edit, Overlap, fits, weave  # noqa: E402

FLAGS = syntax.include_flags(["-std=c++20"])


def text_of(source, mutants):
    return weave(source, mutants, lambda number: f"M{number}")[0].decode()


class Weave(unittest.TestCase):
    def test_beside_and_within(self):
        # Catches: an edit that falls at the wrong place once another stands before it, around it or at its place.
        outer = (Edit(2, 7, f"({SWITCH} ? x : {ORIGINAL})"),)
        inner = (Edit(2, 3, f"({SWITCH} ? y : {ORIGINAL})"),)
        after = (Edit(8, 9, f"({SWITCH} + {ORIGINAL})"),)
        self.assertEqual(text_of(b"f(a + b)c", {1: after, 2: inner, 3: outer}),
                         "f((M3 ? x : (M2 ? y : a) + b))(M1 + c)")

    def test_same_range(self):
        # Catches: one of two mutants of an expression that is lost.
        edits = Edit(0, 1, f"({SWITCH} ? 1 : {ORIGINAL})")
        self.assertEqual(text_of(b"0;", {1: (edits,), 2: (edits,)}), "(M1 ? 1 : (M2 ? 1 : 0));")

    def test_insertions(self):
        # Catches: `if (!mutant) ` within the expression that it is to stand before.
        before, around = (Edit(0, 0, f"if (!{SWITCH}) "),), (Edit(0, 4, f"({SWITCH} ? g() : {ORIGINAL})"),)
        self.assertEqual(text_of(b"f();", {1: before, 2: (Edit(0, 3, around[0].text),)}),
                         "if (!M1) (M2 ? g() : f());")

    def test_for_good(self):
        # Catches: a word that two mutants take away, taken away twice.
        gone = Edit(0, 9, "const")
        a, b = Edit(18, 19, f"({SWITCH} + {ORIGINAL})"), Edit(22, 23, f"({SWITCH} - {ORIGINAL})")
        self.assertEqual(text_of(b"constexpr int k = 3 + 4;", {1: (a, gone), 2: (b, gone)}),
                         "const int k = (M1 + 3) + (M2 - 4);")

    def test_crossing(self):
        # Catches: two edits of which one would swallow the other.
        keeps, forgets = Edit(0, 4, f"{SWITCH}{ORIGINAL}"), Edit(0, 4, f"{SWITCH}")
        for other, fit in ((Edit(2, 6, f"{SWITCH}{ORIGINAL}"), False), (Edit(1, 2, SWITCH), True)):
            self.assertEqual(fits([keeps], [other]), fit)
        self.assertFalse(fits([forgets], [Edit(1, 2, SWITCH)]))
        with self.assertRaises(Overlap):
            weave(b"abcdef", {1: (keeps,), 2: (Edit(2, 6, f"{SWITCH}{ORIGINAL}"),)}, str)

    def test_spans(self):
        # Catches: an error of the compiler laid at another mutant's door.
        text, spans = weave(b"a + b", {1: (Edit(0, 1, f"({SWITCH}{ORIGINAL})"),), 2: (Edit(4, 5, f"<{SWITCH}>"),)}, str)
        self.assertEqual([text[a:b] for number in (1, 2) for a, b in spans[number]], [b"(1a)", b"<2>"])


class Parsed(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def points(self, code, name="one.cpp"):
        path = pathlib.Path(self.folder.name, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(code)
        return points.points_of(syntax.Unit(str(path), FLAGS), name)

    def made(self, code, operator, name="one.cpp"):
        """What the operator's mutants are, each the whole text."""
        found = [p for p in self.points(code, name) if p.operator == operator]
        return [text_of(code.encode(), {1: p.edits}) for p in found]


class Operators(Parsed):
    # Catches, each: an operator that makes nothing, something else, or the same twice.
    def expect(self, operator, code, *mutants):
        self.assertEqual(self.made(code, operator), list(mutants))

    def test_negated(self):
        self.expect("negated", "int f(int a) { if (a > 1) return 2; return 3; }",
                    "int f(int a) { if ((M1 != bool(a > 1))) return 2; return 3; }")
        self.expect("negated", "bool f(bool a) { return !a; }", "bool f(bool a) { return (M1 != bool(!a)); }")
        code = "struct S { bool operator==(int) const; }; int f(S s) { if (s != 1) return 2; return 3; }"
        self.expect("negated", code, code.replace("s != 1", "(M1 != bool(s != 1))"))
        self.expect("negated", "int f() { if constexpr (sizeof(int) == 4) return 1; return 2; }")

    def test_loosened(self):
        self.expect("loosened", "bool f(bool a, bool b) { return a && b; }",
                    "bool f(bool a, bool b) { return (M1 || bool(a)) && b; }",
                    "bool f(bool a, bool b) { return a && (M1 || bool(b)); }")

    def test_unguarded(self):
        self.expect("unguarded", "int f(int a) { if (a) return 2; return 3; }",
                    "int f(int a) { if ((!M1 && bool(a))) return 2; return 3; }")

    def test_off_by_one(self):
        self.expect("off_by_one", "bool f(int a) { return a < 2; }",
                    "bool f(int a) { return (M1 ? (a <= 2) : (a < 2)); }")

    def test_other_constant(self):
        self.expect("other_constant", "long f() { return 1; }",
                    "long f() { return (M1 ? (static_cast<long>(1 + 1)) : (1)); }")
        self.expect("other_constant", "double f() { return 0.5; }",
                    "double f() { return (M1 ? (static_cast<double>(0.5 * 1.0009765625)) : (0.5)); }")
        self.expect("other_constant", "constexpr int k = 1;",
                    "const int k = (M1 ? (static_cast<int>(1 + 1)) : (1));")
        self.expect("other_constant", "int f(int a) { switch (a) { case 1: return a; } static_assert(1); return a; }")

    def test_other_arithmetic(self):
        self.expect("other_arithmetic", "int f(int a) { a += 2; return a * a; }",
                    "int f(int a) { (M1 ? (a -= 2) : (a += 2)); return a * a; }",
                    "int f(int a) { a += 2; return (M1 ? ((a) + (a)) : (a * a)); }")

    def test_swapped(self):
        code = "int g(int, int, char); int f(int a, int b) { return g(a, b, 'c'); }"
        self.expect("swapped", code, code.replace("g(a, b, 'c')", "(M1 ? (g(b, a, 'c')) : (g(a, b, 'c')))"))

    def test_other_field(self):
        code = "struct S { int a; char c; int b; }; int f(S s) { return s.a; }"
        self.expect("other_field", code, code.replace("s.a", "(M1 ? (s.b) : (s.a))"))

    def test_other_variable(self):
        self.expect("other_variable", "int f(int a, char c, int b) { return a; int later; }",
                    "int f(int a, char c, int b) { return (M1 ? (b) : (a)); int later; }")

    def test_other_enumerator(self):
        code = "enum class E { kA, kB }; E f() { return E::kB; }"
        self.expect("other_enumerator", code, code.replace("E::kB", "(M1 ? (E::kA) : (E::kB))"))

    def test_other_function(self):
        code = "int f(int); int g(int); int (*p)(int) = f; int h() { return f(1); }"
        self.expect("other_function", code, code.replace("= f", "= (M1 ? (&g) : (f))"))

    def test_forgotten_call(self):
        code = "int wrap(int d, int n); int f(int a) { return wrap(a, 3) % 2; }"
        self.expect("forgotten_call", code, code.replace("wrap(a, 3) % 2", "(M1 ? (wrap(a, 3)) : (wrap(a, 3) % 2))"),
                    code.replace("wrap(a, 3) % 2", "(M1 ? (a) : (wrap(a, 3))) % 2"))

    def test_forgotten_statement(self):
        self.expect("forgotten_statement", "void g(); void f(int a) { int b = 1; if (a) g(); b = 2; }",
                    "void g(); void f(int a) { int b = 1; if (a) if (!M1) g(); b = 2; }",
                    "void g(); void f(int a) { int b = 1; if (a) g(); if (!M1) b = 2; }")

    def test_reversed_range(self):
        code = "void g(int); void f(int (&a)[3]) { for (int x : a) g(x); }"
        self.expect("reversed_range", code, code.replace(": a", ": lockstep_in_order(M1, a)"))
        for type_, mutants in (("int", 0), ("float", 1)):  # only the sum of floats knows of an order
            code = f"{type_} f({type_} (&a)[3]) {{ {type_} s = 0; for ({type_} x : a) s += x; return s; }}"
            self.assertEqual(len(self.made(code, "reversed_range")), mutants)

    def test_reversed_count(self):
        self.expect("reversed_count", "void g(int); void f(int n) { for (int i = 0; i < n; ++i) g(i); }",
                    "void g(int); void f(int n) { for (int i = M1 ? static_cast<int>((n) - 1) : (0); "
                    "(M1 ? static_cast<int>(i + 1) > static_cast<int>(0) : (i < n)); (M1 ? --i : ++i)) g(i); }")

    def test_other_placement(self):
        code = "namespace lockstep { struct Shard { long dim; }; } lockstep::Shard f() { return lockstep::Shard{1}; }"
        code = code.replace("return lockstep::", "using namespace lockstep; return ")
        made = self.made(code, "other_placement", "x/engine/ops/one.cpp")
        self.assertEqual(made, [code.replace("Shard{1}", "(M1 ? lockstep::Placement(lockstep::Replicate{}) : "
                                                         "lockstep::Placement(Shard{1}))")])
        self.assertEqual(self.made(code, "other_placement"), [])
        # Of an assignment only what is assigned.
        code = "namespace lockstep { struct Shard { long dim; }; } using namespace lockstep; "
        code += "void f(Shard& a, Shard b) { a = b; }"
        self.assertEqual(self.made(code, "other_placement", "x/engine/ops/one.cpp"),
                         [code.replace("= b", "= (M1 ? lockstep::Placement(lockstep::Replicate{}) : "
                                              "lockstep::Placement(b))")])

    def test_every_operator_has_a_test(self):
        for name in operators.OPERATORS:
            self.assertTrue(hasattr(self, f"test_{name}"), name)

    def test_what_is_left_alone(self):
        # Catches: mutants of what a macro is given, where they would be of the macro's own text.
        self.assertEqual(self.points("#define CHECK(x) if (!(x)) throw 1\nvoid f(int a) { CHECK(a > 1); }"), [])


class Points(Parsed):
    CODE = "int f(int a) { return a + 1 + 1; }\nint g(int b) { return b + 1; }\n"

    def test_names_outlive_other_changes(self):
        # Catches: a campaign, or a list of equivalents, that a line elsewhere in the file makes worthless.
        before = [p.id for p in self.points(self.CODE)]
        after = [p.id for p in self.points("// one\nint other() { return 7; }\n" + self.CODE)]
        self.assertEqual([id_ for id_ in after if ":other:" not in id_], before)
        self.assertEqual(len(set(before)), len(before))

    def test_cache(self):
        # Catches: points of the text as it was.
        paths = ["engine/one.cpp", "kernels/two.h"]
        root = pathlib.Path(self.folder.name)
        for path in paths:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(self.CODE)
        calls = []
        flags = lambda path: calls.append(path) or (FLAGS, "")
        made = lambda: points.all_points(str(root), paths, flags, points.Cache(root, root / "cache"), 1)
        first = made()
        self.assertEqual((made(), calls), (first, paths))
        (root / paths[0]).write_text(self.CODE.replace("+ 1 + 1", "+ 2"))
        self.assertNotEqual([p.id for p in made()], [p.id for p in first])
        self.assertEqual(calls, [*paths, paths[0]])

    def test_scopes(self):
        # Catches: tests that are mutated, or a source that is not.
        files = points.files_of(ROOT, "engine")
        self.assertIn("engine/ops/rules/reduce.cpp", files)
        self.assertIn("kernels/philox.h", files)
        self.assertFalse([f for f in files if "test" in pathlib.Path(f).name])
        self.assertTrue(all(pathlib.Path(ROOT, f).exists() for f in points.files_of(ROOT, "judge")))


class Woven(Parsed):
    CODE = """// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <vector>
constexpr int kStep = 2;
int wrap(int d, int n) { return d < 0 ? d + n : d; }
int main() {
  int sum = 0;
  for (int x : std::vector<int>{1, 2, 3}) sum = sum * 10 + wrap(-x, 7);
  for (int i = 0; i < 3; ++i) sum = sum * kStep - i;
  if (sum > 1 && kStep == 2) sum += 5;
  std::printf("%d", sum);
}
"""

    def test_one_program(self):
        # Catches: a switch that turns on nothing or too much; a mutant that shows where none is on; a program that is
        # other than the source although no mutant is on.
        made = dict(enumerate(self.points(self.CODE), 1))
        text, _ = tree.woven(self.CODE.encode(), made)
        folder = pathlib.Path(self.folder.name)
        (folder / "woven.cpp").write_bytes(text)
        self.assertEqual(text.count(b"\n"), self.CODE.count("\n"))
        subprocess.run(["g++", "-std=c++20", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror", f"-I{ROOT}",
                        "-o", folder / "woven", folder / "woven.cpp"], check=True)

        def run(number):
            try:
                return subprocess.run([folder / "woven"], env={"LOCKSTEP_MUTANT": str(number)}, timeout=2,
                                      capture_output=True).stdout
            except subprocess.TimeoutExpired:
                return "for ever"
        plain = run(0)
        self.assertEqual(run(len(made) + 1), plain)
        same = [made[n].what for n in made if run(n) == plain]
        self.assertGreater(len(made), 25)
        self.assertLess(len(same), len(made) / 3, same)


class Hand(unittest.TestCase):
    TEXT = "== one of rare shapes in a.cpp\nwhat\n---\nx + 1\n+++\nx + (MUTANT ? 2 : 1)\n\n" \
           "== two of rules in b.h constexpr\nw\n---\na\n  b\n+++\nif (MUTANT) a\n  b\n"

    def test_form(self):
        # Catches: a mutant that is read as another, or a part of one that is lost.
        one, two = hand.parse(self.TEXT, "here")
        self.assertEqual((one.klass, one.before, one.after), ("rare shapes", "x + 1", "x + (MUTANT ? 2 : 1)"))
        self.assertEqual((two.constant, two.before, two.after), (True, "a\n  b", "if (MUTANT) a\n  b"))
        self.assertEqual(text_of(b"y = x + 1;", {1: hand.point_of(one, b"y = x + 1;").edits}), "y = x + (M1 ? 2 : 1);")

    def test_misfits(self):
        # Catches: a mutant of a text that is gone or stands twice; one that is always on; one in a form of its own.
        one = hand.parse(self.TEXT, "here")[0]
        for source in (b"y", b"x + 1; x + 1"):
            with self.assertRaises(hand.Misfit):
                hand.point_of(one, source)
        with self.assertRaises(hand.Misfit):
            hand.point_of(hand.parse(self.TEXT.replace("MUTANT", "true"), "here")[0], b"x + 1")
        with self.assertRaises(hand.Misfit):
            hand.parse(self.TEXT.replace("+++", "++"), "here")

    def test_those_of_the_tree(self):
        # Catches: a change of the engine that a mutant no longer fits. Mend the mutant's text; or take it out, if what
        # it was a mutant of is gone.
        found = hand.points_of(ROOT, HERE / "hand")
        self.assertGreaterEqual(len(found), 150)
        chosen, crossing = draw.draw(found, [], 1, 0)
        self.assertEqual(crossing, [])
        known = set(classes.CLASSES.values())
        self.assertEqual([p.id for p in found if p.klass not in known], [])


class Draw(unittest.TestCase):
    def test_nothing_left_out(self):
        # Catches: a rare file or operator that no draw meets; more or fewer than were asked for.
        many = [point(f"f{n % 7}", "common", n, n) for n in range(200)] + [point("f0", "rare", 1, 900)]
        for seed in range(20):
            chosen, _ = draw.draw([], many, seed, 30)
            self.assertEqual(len({p.file for p in chosen}), 7)
            self.assertEqual({p.operator for p in chosen}, {"common", "rare"})
            self.assertEqual(len(chosen), 30)
            self.assertEqual([p.id for p in chosen], [p.id for p in draw.draw([], many[::-1], seed, 30)[0]])

    def test_crossing(self):
        # Catches: a drawn mutant that takes the place of one by hand.
        mine = points.Point("a", 1, "mine", "hand", "", (Edit(0, 9, SWITCH),), "")
        chosen, crossing = draw.draw([mine], [point("a", "x", 1, 4)], 1, 5)
        self.assertEqual((chosen, crossing), ([mine], []))


class Tested(unittest.TestCase):
    def test_targets(self):
        # Catches: a test that is named and never built, so that a campaign ends before it begins.
        asked = {test for tests in (*classes.TESTED.values(), *classes.ADVERSARIES.values()) for test in tests}
        for test in asked:
            folder, target = test.rsplit("/", 1)
            prefix = folder.rsplit("/", 1)[-1] + "_"
            self.assertTrue(target.startswith(prefix), test)
            self.assertTrue(list((HERE.parent.parent / folder).rglob(target.removeprefix(prefix) + ".cpp")), test)


class Build(unittest.TestCase):
    WORDS = """In file included from ../engine/a.cpp:2:
../engine/b.h:3:8: error: no match
../engine/a.cpp:1:1: note: here
/x/tree/engine/a.cpp:2:5: error: other
"""

    def test_blame(self):
        # Catches: a mutant that is taken out for another's mistake, and one that goes on failing the build.
        at = pathlib.Path("/x/tree")
        blocks = tree.places(self.WORDS, at)
        self.assertEqual([block[0] for block in blocks], [("engine/b.h", 3, 8), ("engine/a.cpp", 2, 5)])
        spans = {"engine/a.cpp": {1: [(10, 20)], 2: [(13, 15)], 3: [(30, 31)]}}
        read = lambda path: b"123456789\n0123456789\n0123456789\n"
        self.assertEqual(tree.blamed(blocks[1], spans, read), {2})
        self.assertEqual(tree.blamed([("engine/a.cpp", 2, 1)], spans, read), {1})
        self.assertEqual(tree.blamed([("engine/a.cpp", 3, 1)], spans, read), {3})
        self.assertEqual(tree.blamed([("engine/a.cpp", 1, 1)], spans, read), {1, 2, 3})
        self.assertEqual(tree.blamed([("other.cpp", 1, 1)], spans, read), set())


if __name__ == "__main__":
    unittest.main()
