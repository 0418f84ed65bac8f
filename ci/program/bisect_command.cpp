// SPDX-License-Identifier: Apache-2.0
// lockstep bisect: drives `git bisect` over builds, in a work tree of its own.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "ci/program/commands.h"
#include "engine/values/error.h"
#include "engine/values/exit_code.h"
#include "engine/values/shell.h"

namespace lockstep::program {
namespace {

namespace fs = std::filesystem;

struct Flags {
  std::string token, check, good, bad, repository = ".", build = "ci/build lockstep", program = "ci/lockstep";
  bool json = false;
};

struct Ended {
  int code = 0;
  std::string output;
};

// Runs a shell command in a folder, with its output and errors as one text.
Ended shell(const std::string& command, const fs::path& folder) {
  const std::string line =
      "cd " + shell_quoted(folder.string()) + " && export LC_ALL=C && { " + command + "\n} 2>&1";
  FILE* pipe = popen(line.c_str(), "r");
  LOCKSTEP_CHECK(pipe != nullptr, "[bisect] cannot start a shell");
  Ended ended;
  char buffer[4096];
  for (size_t n; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) ended.output.append(buffer, n);
  const int status = pclose(pipe);
  ended.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return ended;
}

std::string last_lines(const std::string& text) {
  const size_t most = 800;
  return text.size() <= most ? text : "…" + text.substr(text.size() - most);
}

std::string git(const std::string& arguments, const fs::path& folder) {
  const auto ended = shell("git " + arguments, folder);
  LOCKSTEP_CHECK(ended.code == 0, "[bisect] git ", arguments, ": ", last_lines(ended.output));
  return ended.output.substr(0, ended.output.find_last_not_of('\n') + 1);
}

// A work tree that is gone when this is.
struct WorkTree {
  fs::path repository, folder;
  WorkTree(const fs::path& repo, const std::string& commit) : repository(repo) {
    std::string name = (fs::temp_directory_path() / "lockstep-bisect-XXXXXX").string();
    LOCKSTEP_CHECK(mkdtemp(name.data()) != nullptr, "[bisect] cannot make a folder in ",
                   fs::temp_directory_path());
    folder = name;
    try {
      git(concat("worktree add --detach ", shell_quoted((folder / "tree").string()), " ",
                 shell_quoted(commit)),
          repository);
    } catch (...) {
      fs::remove_all(folder);
      throw;
    }
  }
  ~WorkTree() {
    shell("git bisect reset", tree());
    shell("git worktree remove --force " + shell_quoted(tree().string()), repository);
    std::error_code error;
    fs::remove_all(folder, error);
  }
  fs::path tree() const { return folder / "tree"; }
};

enum class Answer { kGood, kBad, kSkip };
constexpr const char* kWords[] = {"good", "bad", "skip"};

struct Step {
  std::string commit;
  Answer answer;
  std::string why;  // of a skip
};

// What a replay says of its commit: a commit that cannot be judged (too old for the token, not built, no such
// device) is skipped.
Answer answer_of_replay(int code) {
  if (code == kAllEqual) return Answer::kGood;
  for (int bad : {kDifference, kNondeterminism, kFaultSurvived, kSlower})
    if (code == bad) return Answer::kBad;
  return Answer::kSkip;
}

// What any other command says, in the way of `git bisect run`.
Answer answer_of_check(int code) {
  if (code == 0) return Answer::kGood;
  return code == 125 || code >= 128 ? Answer::kSkip : Answer::kBad;
}

// Builds what is checked out and asks it.
Step judge(const Flags& flags, const fs::path& tree) {
  Step step{git("rev-parse HEAD", tree), Answer::kSkip, ""};
  const auto built = shell(flags.build, tree);
  if (built.code != 0) {
    step.why = concat("the build ended with ", built.code, ": ", last_lines(built.output));
    return step;
  }
  const bool replays = flags.check.empty();
  const auto ran =
      shell(replays ? flags.program + " replay " + shell_quoted(flags.token) : flags.check, tree);
  step.answer = replays ? answer_of_replay(ran.code) : answer_of_check(ran.code);
  if (step.answer == Answer::kSkip) step.why = concat("ended with ", ran.code, ": ", last_lines(ran.output));
  return step;
}

Step judge_at(const Flags& flags, const fs::path& tree, const std::string& commit, Answer claimed) {
  git("checkout --quiet --detach " + shell_quoted(commit), tree);
  const auto step = judge(flags, tree);
  LOCKSTEP_CHECK(step.answer == claimed, "[bisect] ", commit, " is said to be ",
                 kWords[static_cast<int>(claimed)], ", but is ", kWords[static_cast<int>(step.answer)],
                 step.why.empty() ? "" : ": ", step.why, "; name another commit");
  return step;
}

struct Found {
  std::vector<Step> steps;
  std::string first_bad;  // empty: only commits that cannot be judged are left
  std::string subject;
};

std::string first_bad_in(const std::string& text) {
  const auto end = text.find(" is the first bad commit");
  if (end == std::string::npos) return "";
  const auto line = text.rfind('\n', end);
  const size_t begin = line == std::string::npos ? 0 : line + 1;
  return text.substr(begin, end - begin);
}

Found search(const Flags& flags, const WorkTree& work) {
  const auto tree = work.tree();
  Found found;
  found.steps.push_back(judge_at(flags, tree, flags.good, Answer::kGood));
  found.steps.push_back(judge_at(flags, tree, flags.bad, Answer::kBad));
  auto said = git(concat("bisect start ", shell_quoted(flags.bad), " ", shell_quoted(flags.good)), tree);
  while (found.first_bad = first_bad_in(said), found.first_bad.empty()) {
    found.steps.push_back(judge(flags, tree));
    const auto& step = found.steps.back();
    if (!flags.json)
      std::printf("%.12s %s%s%s\n", step.commit.c_str(), kWords[static_cast<int>(step.answer)],
                  step.why.empty() ? "" : ": ", step.why.c_str());
    std::fflush(stdout);
    const auto ended = shell(concat("git bisect ", kWords[static_cast<int>(step.answer)]), tree);
    said = ended.output;
    if (said.find("only 'skip'ped commits left") != std::string::npos) return found;
    LOCKSTEP_CHECK(ended.code == 0, "[bisect] git bisect: ", last_lines(said));
  }
  found.subject = git("log -1 --format=%s " + found.first_bad, tree);
  return found;
}

int bisect(Flags flags) {
  LOCKSTEP_CHECK(flags.token.empty() != flags.check.empty(),
                 "[bisect] give --token, or --check with a command");
  const fs::path repository = fs::absolute(flags.repository);
  for (auto* commit : {&flags.good, &flags.bad})  // HEAD means another commit once the search has begun
    *commit = git("rev-parse --verify --quiet " + shell_quoted(*commit + "^{commit}"), repository);
  const WorkTree work(repository, flags.bad);
  const auto found = search(flags, work);
  const int code = found.first_bad.empty() ? kNotMeasured : kAllEqual;
  if (flags.json) {
    nlohmann::ordered_json steps = nlohmann::ordered_json::array();
    for (const auto& s : found.steps)
      steps.push_back({{"commit", s.commit}, {"answer", kWords[static_cast<int>(s.answer)]}, {"why", s.why}});
    std::printf("%s\n", nlohmann::ordered_json{{"schema", "lockstep-bisect/1"},
                                               {"first_bad", found.first_bad},
                                               {"subject", found.subject},
                                               {"steps", steps},
                                               {"exit_code", code}}
                            .dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace)
                            .c_str());
  } else if (code == 0) {
    std::printf("first bad commit: %s %s\n", found.first_bad.c_str(), found.subject.c_str());
  } else {
    std::printf("only commits that cannot be judged are left\n");
  }
  return code;
}

}  // namespace

void add_bisect(CLI::App& app, Chosen& chosen) {
  auto flags = std::make_shared<Flags>();
  auto* command =
      app.add_subcommand("bisect", "Find the commit that made a case fail: git bisect over builds");
  command->add_option("--token", flags->token,
                      "The case: a commit where its replay is equal or explained is good");
  command->add_option(
      "--check", flags->check,
      "Or a shell command, run in the work tree: 0 is good, 125 cannot be judged, the rest is bad");
  command->add_option("--good", flags->good, "A commit that is good")->required();
  command->add_option("--bad", flags->bad, "A later commit that is bad")->required();
  command->add_option("--repository", flags->repository, "Git repository (default: here)");
  command->add_option("--build", flags->build,
                      "Shell command that builds a commit (default: ci/build lockstep)");
  command->add_option("--program", flags->program, "What replays the token there (default: ci/lockstep)");
  command->add_flag("--json", flags->json, "Print JSON");
  command->callback([&chosen, flags] {
    chosen.json = flags->json;
    chosen.action = [flags] { return bisect(*flags); };
  });
}

}  // namespace lockstep::program
