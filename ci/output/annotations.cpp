// SPDX-License-Identifier: Apache-2.0
// Annotations of a GitHub step: workflow commands, one a line, at most ten.
#include <set>

#include "ci/output/output.h"
#include "ci/output/text.h"

namespace lockstep::output {
namespace {

constexpr size_t kMostTitle = 200, kMostMessage = 4'000;

// What a workflow command reads back as the character: a line break would begin another command.
std::string escaped(const std::string& text, std::string_view special) {
  std::string out;
  for (const char c : text) {
    char code[4] = {c};
    if (special.find(c) != std::string_view::npos)
      std::snprintf(code, sizeof code, "%%%02X", static_cast<unsigned char>(c));
    out += code;
  }
  return out;
}

std::string command(const char* level, const std::string& title, const std::string& message) {
  return std::string("::") + level + " title=" + escaped(one_line(cut(utf8(title), kMostTitle)), "%\n\r:,") +
         "::" + escaped(visible(cut(utf8(message), kMostMessage)), "%\n\r") + "\n";
}

std::string of_bucket(const Row& f) {
  return command("error", f.text("verdict") + ": " + f.text("op") + " on " + f.text("placement"),
                 plural(f.integer("cases"), "case", "cases") + " of suite " + f.text("suite") + " (" +
                     f.text("state") + "), mesh " + f.text("mesh") + ". " +
                     cut(utf8(f.text("explanation")), 1'000) + "\n" + f.text("replay"));
}

std::string of_finding(const Row& f) {
  const std::string replay = f.text("replay");
  return command(f.text("effect") == "block" ? "error" : "warning", f.text("rule") + ": " + f.text("subject"),
                 f.text("detail") + " Expected " + f.text("expected") + ", got " + f.text("got") + "." +
                     (replay.empty() ? "" : "\n" + replay));
}

// Failing buckets that nobody muted, findings that block, then warnings. A finding about a bucket that is
// listed already says nothing new.
std::vector<std::string> annotations_of(const ReportModel& p) {
  std::vector<std::string> all;
  std::set<std::string> listed;
  for (const Row& f : p.failures)
    if (!muted(f) && listed.insert(f.text("bucket")).second) all.push_back(of_bucket(f));
  for (const char* effect : {"block", "warn"})
    for (const Row& f : p.findings)
      if (f.text("effect") == effect && !listed.contains(f.text("subject"))) all.push_back(of_finding(f));
  if (all.empty() && headline(p).red) all.push_back(command("error", "Lockstep", headline(p).text));
  return all;
}

}  // namespace

std::string render_annotations(const ReportModel& p) {
  auto all = annotations_of(p);
  if (const size_t found = all.size(), most = kMostAnnotations; found > most) {
    all.resize(most - 1);
    all.push_back(command(
        "error", "Lockstep",
        std::to_string(found - all.size()) + " more buckets and findings: see the summary of this step."));
  }
  std::string out;
  for (const auto& line : all) out += line;
  return out;
}

}  // namespace lockstep::output
