// SPDX-License-Identifier: Apache-2.0
// Each check against a bad snippet, by its exact message: a check that stopped looking would lose its line
// here.
#include "ci/tidy/tidy.h"

#include <gtest/gtest.h>

namespace lockstep::tidy {
namespace {

const std::string kSpdx = "// SPDX-License-Identifier: Apache-2.0\n";

// What a check says about one file.
template <class Check>
std::string said(Check run, const std::vector<File>& files) {
  std::vector<Violation> found;
  run(files, found);
  return to_string(found);
}

// Would miss: the oracle sharing code with the engine that it judges.
TEST(Layers, OracleMayNotSeeTheEngine) {
  EXPECT_EQ(said(check_layers, {{"oracle/ownership/owned.cpp", "#include \"engine/layout/layout.h\"\n"}}),
            "oracle/ownership/owned.cpp:1: oracle/ownership may include engine/values, not engine/layout\n");
}

// Would miss: an arrow that runs back up, at any level.
TEST(Layers, EachForbiddenDirectionIsNamed) {
  EXPECT_EQ(said(check_layers, {{"engine/layout/a.cpp", "#include <vector>\n#include \"engine/move/b.h\"\n"},
                                {"engine/values/b.h", "#include \"engine/world/world.h\"\n"},
                                {"dashboard/store/c.cpp", "#include \"engine/values/spec.h\"\n"},
                                {"kernels/d.h", "#include \"engine/values/error.h\"\n"},
                                {"ci/tidy/e.cpp", "#include \"spec.h\"\n"},
                                {"extra/f.cpp", ""},
                                {"engine/g.cpp", ""}}),
            "engine/layout/a.cpp:2: engine/layout may include engine/values, not engine/move\n"
            "engine/values/b.h:1: engine/values may include nothing of ours, not engine/world\n"
            "dashboard/store/c.cpp:1: dashboard/store may include nothing of ours, not engine/values\n"
            "kernels/d.h:1: kernels may include nothing of ours, not engine/values\n"
            "ci/tidy/e.cpp:1: include \"spec.h\" by its path from the root\n"
            "extra/f.cpp: this folder has no line in the table of ci/tidy/layers.cpp\n"
            "engine/g.cpp: this folder has no line in the table of ci/tidy/layers.cpp\n");
}

TEST(Layers, AllowedDirectionsAreSilent) {
  EXPECT_EQ(said(check_layers, {{"oracle/plain/a.cpp",
                                 "#include \"engine/values/spec.h\"\n#include \"oracle/plain/b.h\"\n"},
                                {"oracle/plain/b.h", ""},
                                {"engine/layout/route_test.cpp", "#include \"engine/tensor/dtensor.h\"\n"}}),
            "");
}

// Would miss: a test of the oracle that leans on the engine.
TEST(Layers, TestsStayInTheirTopFolder) {
  EXPECT_EQ(said(check_layers, {{"oracle/plain/a_test.cpp", "#include \"engine/tensor/dtensor.h\"\n"}}),
            "oracle/plain/a_test.cpp:1: oracle/plain may include engine/values, engine/stream, "
            "oracle/program, not engine/tensor\n");
}

// Would miss: two headers that need each other, which compile until somebody changes the order.
TEST(Layers, HeadersInACircle) {
  EXPECT_EQ(said(check_layers, {{"kernels/a.h", "#include \"kernels/b.h\"\n"},
                                {"kernels/b.h", "#include \"kernels/c.h\"\n"},
                                {"kernels/c.h", "#include \"kernels/a.h\"\n"}}),
            "kernels/a.h: headers include each other: kernels/a.h -> kernels/b.h -> kernels/c.h -> "
            "kernels/a.h\n");
}

TEST(Lines, WidthCountsCharactersNotBytes) {
  const std::string wide(111, 'x');
  std::string dots;
  for (int i = 0; i < 110; ++i) dots += "·";
  EXPECT_EQ(said(check_lines, {{"engine/a.h", "//" + wide + "\n" + dots + "\n// see http://" + wide + "\n"}}),
            "engine/a.h:1: wider than 110 columns\n");
}

TEST(Lines, Macros) {
  EXPECT_EQ(said(check_lines, {{"engine/a.h", "#define TWICE(x) x x\n#define LOCKSTEP_CHECK(c)\n"}}),
            "engine/a.h:1: a macro beside LOCKSTEP_CHECK and LOCKSTEP_HOST_DEVICE; write a function or a "
            "constant\n");
}

// Would miss: the name of somebody's machine or a registry's host in the product.
TEST(Lines, BannedWords) {
  const std::string work =
                        "/wo"
                        "rk/main",
                    host =
                        "PyPI"
                        ".org",
                    word =
                        "Ses"
                        "sion";
  EXPECT_EQ(said(check_lines, {{"README.md", work + "\n" + host + "\nxxx" + word + "s\n" + word + "\n"}}),
            "README.md:1: \"/wo"
            "rk/\": a path of one machine; use a path from the root of the repository\n"
            "README.md:2: \"pypi"
            ".org\": a registry's host; name the package and let the client find it\n"
            "README.md:4: \"ses"
            "sion\": not a word of this product; say run, process or scope\n");
}

TEST(Lines, FrozenDataKeepsItsForm) {
  EXPECT_EQ(said(check_lines, {{"golden/data/text.txt",
                                "\tthe ses"
                                "sion  \n"},
                               {"LICENSE", "\tx"}}),
            "");
}

TEST(Documents, LicenceAndPurpose) {
  EXPECT_EQ(said(check_documents, {{"engine/a.cpp", "int x;\n"},
                                   {"engine/b.h", kSpdx + "#pragma once\n"},
                                   {"engine/c.h", kSpdx + "// A value.\n"},
                                   {"ci/tool", "#!/bin/sh\necho\n"}}),
            "engine/a.cpp:1: the file opens with its SPDX line, see any other file\n"
            "engine/b.h:2: the header says in one to three sentences what it is\n"
            "ci/tool:2: the file opens with its SPDX line, see any other file\n");
}

TEST(Documents, TitlesAndLinks) {
  EXPECT_EQ(
      said(check_documents, {{"engine/README.md", "# One\n[a](../oracle/) [b](gone.md) [c](#here)\n# Two\n"},
                             {"oracle/README.md", "# Fine\n```\n# not a title\n```\n"}}),
      "engine/README.md:2: the link to engine/gone.md leads nowhere\n"
      "engine/README.md:1: a page has exactly one title, on its first line\n");
}

TEST(Documents, DecisionsHaveTheirSections) {
  EXPECT_EQ(said(check_documents, {{"engine/decisions/0009-x.md",
                                    "# X\n\n## Context\n\n## Decision\n\n"
                                    "## Alternatives rejected\n\n## Consequences\n"}}),
            "engine/decisions/0009-x.md: a decision record has the section \"## How we would notice it is "
            "wrong\"\n");
}

TEST(Shape, TopLevel) {
  EXPECT_EQ(said(check_shape, {{"CMakeLists.txt", ""},
                               {"LICENSE", ""},
                               {"CMakePresets.json", ""},
                               {"notes.txt", ""},
                               {"README.md", ""},
                               {"kernels/README.md", ""},
                               {"engine/README.md", ""},
                               {"oracle/README.md", ""},
                               {"generators/README.md", ""},
                               {"suites/README.md", ""},
                               {"golden/README.md", ""},
                               {"ci/README.md", ""},
                               {"tools/x.sh", ""}}),
            "notes.txt: the top level holds nothing else; see the folder table in README.md\n"
            "tools/x.sh: the top level holds nothing else; see the folder table in README.md\n"
            "CHANGELOG.md: missing\n"
            "dashboard/README.md: missing: each folder says what it is and in which order to read it\n");
}

std::string lines(size_t n) {
  std::string text;
  for (size_t i = 0; i < n; ++i) text += "  x();\n";
  return text;
}

// Would miss: long members, and parameter lists that wrap.
TEST(Shape, FunctionsAreMeasuredWhereTheyStand) {
  const File file{"engine/a.cpp",
                  "namespace x {\nstruct S {\n  void f() {\n    if (a) {\n    }\n  }\n};\n"
                  "int g(int a,\n      int b) {\n" +
                      lines(3) + "}\n}\n"};
  const auto functions = functions_of(file);
  ASSERT_EQ(functions.size(), 2u);
  EXPECT_EQ(functions[0].line, 3u);
  EXPECT_EQ(functions[0].length, 4u);
  EXPECT_EQ(functions[1].line, 8u);
  EXPECT_EQ(functions[1].length, 6u);
}

TEST(Shape, Lengths) {
  std::vector<Violation> found;
  check_shape({{"engine/a.cpp", "void f() {\n" + lines(69) + "}\n"},
               {"engine/b.cpp", lines(501)},
               {"engine/c.cpp", "void f() {\n" + lines(68) + "}\n" + lines(430)}},
              found);
  std::erase_if(found, [](const Violation& f) { return f.message.starts_with("missing"); });
  EXPECT_EQ(to_string(found),
            "engine/a.cpp:1: a function of 71 lines; the limit is 70\n"
            "engine/b.cpp: 501 lines; the limit is 500\n");
}

}  // namespace
}  // namespace lockstep::tidy
