#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each check against a bad snippet, by its exact message: a check that stopped looking would lose its line here."""
import unittest
import tidy

SPDX = "// SPDX-License-Identifier: Apache-2.0\n"


class Says(unittest.TestCase):
    maxDiff = None

    def says(self, check, files, *expected):
        self.assertEqual(tidy.said(check(files)).splitlines(), list(expected))


class Layers(Says):
    def test_oracle_may_not_see_the_engine(self):
        """Would miss: the oracle sharing code with the engine that it judges."""
        self.says(tidy.check_layers, {"oracle/ownership/owned.cpp": '#include "engine/layout/layout.h"\n'},
                  "oracle/ownership/owned.cpp:1: oracle/ownership may include engine/values, not engine/layout")

    def test_each_forbidden_direction_is_named(self):
        """Would miss: an arrow that runs back up, at any level."""
        self.says(tidy.check_layers, {"engine/layout/a.cpp": '#include <vector>\n#include "engine/move/b.h"\n',
                                      "engine/values/b.h": '#include "engine/world/world.h"\n',
                                      "dashboard/store/c.cpp": '#include "engine/values/spec.h"\n',
                                      "kernels/d.h": '#include "engine/values/error.h"\n',
                                      "ci/record/e.cpp": '#include "spec.h"\n',
                                      "extra/f.cpp": "",
                                      "engine/g.cpp": ""},
                  "engine/layout/a.cpp:2: engine/layout may include engine/values, not engine/move",
                  "engine/values/b.h:1: engine/values may include nothing of ours, not engine/world",
                  "dashboard/store/c.cpp:1: dashboard/store may include nothing of ours, not engine/values",
                  "kernels/d.h:1: kernels may include nothing of ours, not engine/values",
                  'ci/record/e.cpp:1: include "spec.h" by its path from the root',
                  "extra/f.cpp: this folder has no line in the table of ci/tidy.py",
                  "engine/g.cpp: this folder has no line in the table of ci/tidy.py")

    def test_allowed_directions_are_silent(self):
        self.says(tidy.check_layers,
                  {"oracle/plain/a.cpp": '#include "engine/values/spec.h"\n#include "oracle/plain/b.h"\n',
                   "oracle/plain/b.h": "",
                   "engine/layout/route_test.cpp": '#include "engine/tensor/dtensor.h"\n'})

    def test_tests_stay_in_their_top_folder(self):
        """Would miss: a test of the oracle that leans on the engine."""
        self.says(tidy.check_layers, {"oracle/plain/a_test.cpp": '#include "engine/tensor/dtensor.h"\n'},
                  "oracle/plain/a_test.cpp:1: oracle/plain may include engine/values, engine/stream, "
                  "oracle/ownership, oracle/program, not engine/tensor")

    def test_headers_in_a_circle(self):
        """Would miss: headers that need each other, which compile until somebody changes the order."""
        self.says(tidy.check_layers, {"kernels/a.h": '#include "kernels/b.h"\n',
                                      "kernels/b.h": '#include "kernels/c.h"\n',
                                      "kernels/c.h": '#include "kernels/a.h"\n'},
                  "kernels/a.h: headers include each other: kernels/a.h -> kernels/b.h -> kernels/c.h -> kernels/a.h")

    def test_table(self):
        """Would miss: a line of the table that is not read, and an arrow to a room that is below or nowhere."""
        above = []
        for folder, rooms in tidy.LAYERS.items():
            self.assertLessEqual(set(rooms), set(above), folder)
            above.append(folder)
        self.assertEqual(len(above), len([line for line in tidy.TABLE.split("\n") if ":" in line]))


class Lines(Says):
    def test_width_counts_characters_not_bytes(self):
        wide = "x" * 111
        self.says(tidy.check_lines, {"engine/a.h": f"//{wide}\n{'·' * 110}\n// see http://{wide}\n",
                                     "ci/tool": f"#!{wide}\n#{'x' * 120}\n"},
                  "engine/a.h:1: wider than 110 columns", "ci/tool:2: wider than 120 columns")

    def test_macros(self):
        self.says(tidy.check_lines, {"engine/a.h": "#define TWICE(x) x x\n#define LOCKSTEP_CHECK(c)\n"},
                  "engine/a.h:1: a macro beside LOCKSTEP_CHECK and LOCKSTEP_HOST_DEVICE; write a function or a "
                  "constant")

    def test_banned_words(self):
        """Would miss: the name of somebody's machine or a registry's host in the product."""
        work, host, word = "/wo" + "rk/", "PyPI" + ".org", "Ses" + "sion"
        self.says(tidy.check_lines, {"README.md": f"{work}main\n{host}\nxxx{word}s\n{word}\n"},
                  f'README.md:1: "{work}": a path of one machine; use a path from the root of the repository',
                  f'README.md:2: "{host.lower()}": a registry\'s host; name the package and let the client find it',
                  f'README.md:4: "{word.lower()}": not a word of this product; say run, process or scope')

    def test_frozen_data_keeps_its_form(self):
        self.says(tidy.check_lines, {"golden/data/text.txt": "\tthe ses" + "sion  \n", "LICENSE": "\tx"})


class Documents(Says):
    def test_licence_and_purpose(self):
        self.says(tidy.check_documents, {"engine/a.cpp": "int x;\n", "engine/b.h": SPDX + "#pragma once\n",
                                         "engine/c.h": SPDX + "// A value.\n", "ci/tool": "#!/bin/sh\necho\n"},
                  "engine/a.cpp:1: the file opens with its SPDX line, see any other file",
                  "engine/b.h:2: the header says in one to three sentences what it is",
                  "ci/tool:2: the file opens with its SPDX line, see any other file")

    def test_titles_and_links(self):
        self.says(tidy.check_documents,
                  {"engine/README.md": "# One\n[a](../oracle/) [b](gone.md) [c](#here)\n# Two\n",
                   "oracle/README.md": "# Fine\n```\n# not a title\n```\n"},
                  "engine/README.md:2: the link to engine/gone.md leads nowhere",
                  "engine/README.md:1: a page has exactly one title, on its first line")

    def test_decisions_have_their_sections(self):
        self.says(tidy.check_documents,
                  {"engine/decisions/0009-x.md": "# X\n\n## Context\n\n## Decision\n\n## Alternatives rejected\n\n"
                                                 "## Consequences\n"},
                  'engine/decisions/0009-x.md: a decision record has the section "## How we would notice it is wrong"')


class Mutants(Says):
    def test_a_text_that_was_changed(self):
        """Would miss: a mutant that nothing can be made of any more, until the campaign is run."""
        mutant = "== {} of adds in engine/a.cpp\nadds too much\n---\nreturn {};\n+++\nreturn MUTANT;\n\n"
        self.says(tidy.check_mutants,
                  {"engine/a.cpp": "return 1;\nreturn 2;\nreturn 2;\n",
                   "ci/mutants/hand/x.txt": "".join(mutant.format(f"gives-{n}", n) for n in (1, 2, 3))},
                  "ci/mutants/hand/x.txt: gives-2: engine/a.cpp holds its text 2 times, not once",
                  "ci/mutants/hand/x.txt: gives-3: engine/a.cpp holds its text 0 times, not once")


class Shape(Says):
    def test_top_level(self):
        readmes = [f"{folder}/README.md" for folder in tidy.FOLDERS - {"dashboard"}]
        self.says(tidy.check_shape, dict.fromkeys(["CMakeLists.txt", "LICENSE", "CMakePresets.json", "notes.txt",
                                                   "README.md", *readmes, "tools/x.sh"], ""),
                  "notes.txt: the top level holds nothing else; see the folder table in README.md",
                  "tools/x.sh: the top level holds nothing else; see the folder table in README.md",
                  "CHANGELOG.md: missing",
                  "dashboard/README.md: missing: each folder says what it is and in which order to read it")

    def test_functions_are_measured_where_they_stand(self):
        """Would miss: long members, and parameter lists that wrap."""
        text = ("namespace x {\nstruct S {\n  void f() {\n    if (a) {\n    }\n  }\n};\n"
                "int g(int a,\n      int b) {\n" + 3 * "  x();\n" + "}\n}\n")
        self.assertEqual(list(tidy.functions_of(text)), [(3, 4), (8, 6)])

    def test_lengths(self):
        call = "  x();\n"
        files = {"engine/a.cpp": "void f() {\n" + 69 * call + "}\n", "engine/b.cpp": 501 * call,
                 "engine/c.cpp": "void f() {\n" + 68 * call + "}\n" + 430 * call}
        found = [f for f in tidy.check_shape(files) if not f[2].startswith("missing")]
        self.assertEqual(tidy.said(found), "engine/a.cpp:1: a function of 71 lines; the limit is 70\n"
                                           "engine/b.cpp: 501 lines; the limit is 500\n")


if __name__ == "__main__":
    unittest.main()
