// SPDX-License-Identifier: Apache-2.0
// lockstep bisect: prints the `git bisect run` that finds the commit where a case began to fail.
#include <cstdio>

#include "ci/program/commands.h"
#include "engine/values/error.h"
#include "engine/values/exit_code.h"
#include "engine/values/shell.h"
#include "oracle/program/program.h"

namespace lockstep::program {
namespace {

struct Flags {
  std::string token, good, bad, build = "ci/build lockstep", program = "ci/lockstep";
};

// What `git bisect run` asks of each commit: 0 is good, 1 bad, and 125 cannot be judged (it does not build,
// is too old for the token, has no such device).
std::string question(const Flags& flags) {
  const auto bad =
      concat(int{kDifference}, "|", int{kSlower}, "|", int{kNondeterminism}, "|", int{kFaultSurvived});
  return concat(flags.build, " || exit 125; ", flags.program, " replay ", shell_quoted(flags.token),
                "; case $? in 0) exit 0 ;; ", bad, ") exit 1 ;; *) exit 125 ;; esac");
}

int bisect(const Flags& flags) {
  oracle::parse_token(flags.token);  // one that nobody can replay is told before anything is built
  std::printf("git bisect start %s %s\ngit bisect run sh -c %s\ngit bisect reset\n",
              shell_quoted(flags.bad).c_str(), shell_quoted(flags.good).c_str(),
              shell_quoted(question(flags)).c_str());
  return kAllEqual;
}

}  // namespace

void add_bisect(CLI::App& app, Chosen& chosen) {
  auto [command, flags] =
      add_command(app, chosen, "bisect",
                  "Print the `git bisect run` that finds the commit where a case began to fail", bisect);
  command
      .add_option("--token", flags.token, "Token: a commit where its replay is equal or explained is good")
      ->required();
  command.add_option("--good", flags.good, "A commit that is good")->required();
  command.add_option("--bad", flags.bad, "A later commit that is bad")->required();
  command.add_option("--build", flags.build,
                     "Shell command that builds a commit (default: ci/build lockstep)");
  command.add_option("--program", flags.program, "What replays the token there (default: ci/lockstep)");
}

}  // namespace lockstep::program
