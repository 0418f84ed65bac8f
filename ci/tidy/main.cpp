// SPDX-License-Identifier: Apache-2.0
// tidy ROOT: prints what is wrong with the text of the repository. 0: nothing; 1: something.
#include <cstdio>

#include "ci/tidy/tidy.h"

int main(int argc, char** argv) {
  using namespace lockstep::tidy;
  const auto files = read_repository(argc > 1 ? argv[1] : ".");
  const auto findings = check(files);
  std::printf("%s%zu findings in %zu files\n", to_string(findings).c_str(), findings.size(), files.size());
  return findings.empty() && !files.empty() ? 0 : 1;
}
