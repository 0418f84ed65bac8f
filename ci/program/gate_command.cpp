// SPDX-License-Identifier: Apache-2.0
// lockstep gate, lockstep bless
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "ci/gate/judge.h"
#include "ci/gate/rules.h"
#include "ci/output/output.h"
#include "ci/program/commands.h"
#include "dashboard/report/report.h"
#include "dashboard/store/output_file.h"
#include "dashboard/store/store.h"
#include "engine/values/error.h"
#include "engine/values/exit_code.h"

namespace lockstep::program {
namespace {

using Json = nlohmann::ordered_json;

// What is written beside the judgement, of the store that now holds it.
struct Output {
  const char *option, *help;
  std::string (*render)(const output::ReportModel&);  // null: the HTML report
};
constexpr Output kOutputs[] = {
    {"--junit", "Write JUnit XML to this file, too", output::render_junit},
    {"--sarif", "Write SARIF 2.1.0 to this file, too", output::render_sarif},
    {"--summary", "Write Markdown to this file, too, such as $GITHUB_STEP_SUMMARY", output::render_summary},
    {"--report", "Write the HTML report to this file, too", nullptr}};

struct Flags {
  std::string baseline, candidate = "lockstep.db", policy, today = gate::today();
  gate::Claims claims;
  std::map<std::string, std::string> files;  // of kOutputs, by option
  bool json = false, dry = false, rules = false, annotations = false;
};

Json to_json(const gate::Judgement& j, int code) {
  Json findings = Json::array();
  for (const auto& f : j.findings)
    findings.push_back({{"rule", f.rule},
                        {"subject", f.subject},
                        {"effect", gate::name(f.effect)},
                        {"code", f.code},
                        {"expected", f.expected},
                        {"got", f.got},
                        {"detail", f.detail},
                        {"replay", f.replay}});
  auto codes = j.codes;
  if (codes.empty()) codes.insert(kAllEqual);
  return {{"schema", "lockstep-gate/1"},
          {"baseline", j.baseline},
          {"candidate", j.candidate},
          {"commit", j.commit},
          {"build", j.build_hash},
          {"findings", findings},
          {"policy", Json::parse(to_json(j.policy))},
          {"exit_code", code},
          {"exit_codes", codes},
          {"meaning", meaning(code)}};
}

int64_t count(const gate::Judgement& j, gate::Effect effect) {
  int64_t n = 0;
  for (const auto& f : j.findings) n += f.effect == effect ? 1 : 0;
  return n;
}

void print(const gate::Judgement& j, int code) {
  std::printf("%s (commit %s, binary %s) against %s\n", j.candidate.c_str(), j.commit.c_str(),
              j.build_hash.c_str(), j.baseline.c_str());
  for (const auto& f : j.findings) {
    std::printf("%-5s %s: %s\n      expected %s, got %s: %s\n", gate::name(f.effect), f.rule.c_str(),
                f.subject.c_str(), f.expected.c_str(), f.got.c_str(), f.detail.c_str());
    if (!f.replay.empty()) std::printf("      %s\n", f.replay.c_str());
  }
  std::printf("%ld block, %ld warn, %ld are only noted\n", count(j, gate::Effect::kBlock),
              count(j, gate::Effect::kWarn), count(j, gate::Effect::kNote));
  std::printf("exit %d: %s\n", code, meaning(code));
}

int list_rules(const gate::Policy& policy, bool json) {
  Json list = Json::array();
  for (const auto& r : gate::rules()) {
    const char* effect = gate::name(effect_of(r, policy));
    if (json)
      list.push_back({{"rule", r.name},
                      {"code", r.code},
                      {"effect", effect},
                      {"blessable", r.blessable},
                      {"law", r.law}});
    else
      std::printf("%-20s %d  %-5s %-9s %s\n", r.name, r.code, effect, r.blessable ? "blessable" : "", r.law);
  }
  if (json) std::printf("%s\n", list.dump(2).c_str());
  return 0;
}

void write_outputs(const Flags& flags) {
  if (flags.files.empty() && !flags.annotations) return;
  const auto store = dashboard::Store::open_reader(flags.candidate);
  const auto model = output::read_report_model(store);
  for (const auto& [option, help, render] : kOutputs) {
    const auto file = flags.files.find(option);
    if (file == flags.files.end()) continue;
    if (render != nullptr)
      dashboard::write_whole(file->second, render(model), option);
    else
      dashboard::write_report(store, file->second);
  }
  if (flags.annotations) std::printf("%s", output::render_annotations(model).c_str());
}

int run(const Flags& flags) {
  const auto policy = flags.policy.empty() ? gate::default_policy() : gate::read_policy(flags.policy);
  if (flags.rules) return list_rules(policy, flags.json);
  LOCKSTEP_CHECK(gate::is_day(flags.today), "[gate] --today ", flags.today,
                 ": write a day such as 2027-01-31");
  LOCKSTEP_CHECK(
      !flags.dry || flags.files.empty(),
      "[gate] --dry-run stores no judgement, so that no output can show it; leave one of them out");
  LOCKSTEP_CHECK(!flags.baseline.empty(),
                 "[gate] pass --baseline DB: the database of an earlier run, or of main");
  for (const auto& [option, file] : flags.files) dashboard::check_output(file, flags.candidate, option);
  const auto judgement = gate::judge(flags.baseline, flags.candidate, policy, flags.claims, flags.today);
  const int code = winning(judgement.codes);
  if (!flags.dry) gate::record(judgement, code);
  if (flags.json)
    std::printf("%s\n", to_json(judgement, code).dump(2, ' ', false, Json::error_handler_t::replace).c_str());
  else
    print(judgement, code);
  write_outputs(flags);
  return code;
}

struct BlessFlags {
  std::string db, rule, subject, reason, by;
};

int bless(const BlessFlags& flags) {
  const auto b = gate::bless(flags.db, flags.rule, flags.subject, flags.reason, flags.by);
  std::printf("blessed %s on '%s' with value '%s'\n", b.rule.c_str(), b.subject.c_str(), b.got.c_str());
  return 0;
}

}  // namespace

void add_gate(CLI::App& app, Chosen& chosen) {
  auto [gate, flags] = add_command(app, chosen, "gate",
                                   "Judge a run against a baseline: what is new, worse, lost or slower", run);
  gate.add_option("--baseline", flags.baseline, "Database to compare with; its newest commit counts");
  gate.add_option("--candidate", flags.candidate,
                  "Database to judge (default lockstep.db); takes the judgement");
  gate.add_option("--policy", flags.policy,
                  "TOML file: what blocks, what must be covered, mutes (default: none)");
  gate.add_option("--commit", flags.claims.commit, "The candidate must be of this commit");
  gate.add_option("--build", flags.claims.build, "The candidate must be of this binary");
  gate.add_option("--speed", flags.claims.speed,
                  "Verdicts on timed series, which `ci/speed DB -o FILE` wrote; without: not measured");
  gate.add_option("--today", flags.today, "Judge mutes as of this day, YYYY-MM-DD (default: today, UTC)");
  gate.add_flag("--dry-run", flags.dry, "Do not store the judgement");
  gate.add_flag("--rules", flags.rules, "Print the rules with their effects and codes, and judge nothing");
  for (const auto& output : kOutputs)
    gate.add_option_function<std::string>(
        output.option,
        [&files = flags.files, option = output.option](const std::string& file) {
          if (!file.empty()) files[option] = file;
        },
        output.help);
  gate.add_flag("--annotations", flags.annotations, "Print GitHub annotations, too");
  gate.add_flag("--json", flags.json, "Print JSON");
}

void add_bless(CLI::App& app, Chosen& chosen) {
  auto [bless_app, flags] =
      add_command(app, chosen, "bless", "Accept one finding of the newest judgement, with a reason", bless);
  bless_app.add_option("db", flags.db, "Database that holds the judgement; takes the blessing")->required();
  bless_app.add_option("--rule", flags.rule, "Rule of the finding; see lockstep gate --rules")->required();
  bless_app.add_option("--subject", flags.subject, "Its subject; not needed where the rule has one finding");
  bless_app.add_option("--reason", flags.reason, "Why the change is wanted")->required();
  bless_app.add_option("--by", flags.by, "Who says so")->required();
}

}  // namespace lockstep::program
