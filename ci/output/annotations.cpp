// SPDX-License-Identifier: Apache-2.0
// Annotations of a GitHub step: workflow commands, one a line, at most ten.
#include "ci/output/output.h"
#include "ci/output/text.h"

namespace lockstep::output {
namespace {

constexpr size_t kMostTitle = 200, kMostMessage = 4'000;

// What a workflow command reads back as the character: a line break would begin another command.
std::string escaped(const std::string& text, bool property) {
  std::string out;
  for (const char c : text) {
    if (c == '%')
      out += "%25";
    else if (c == '\n')
      out += "%0A";
    else if (c == '\r')
      out += "%0D";
    else if (property && c == ':')
      out += "%3A";
    else if (property && c == ',')
      out += "%2C";
    else
      out += c;
  }
  return out;
}

std::string command(const char* level, const std::string& title, const std::string& message) {
  return std::string("::") + level + " title=" + escaped(one_line(cut(utf8(title), kMostTitle)), true) +
         "::" + escaped(visible(cut(utf8(message), kMostMessage)), false) + "\n";
}

struct Annotation {
  const char* level;
  std::string title, message;
};

Annotation of_bucket(const ReportModel& p, const Live& live) {
  const Table& f = p.failures;
  const size_t i = live.failure;
  return {"error", f.text(i, "verdict") + ": " + f.text(i, "op") + " on " + f.text(i, "placement"),
          plural(f.integer(i, "cases"), "case", "cases") + " of suite " + f.text(i, "suite") + " (" +
              p.buckets.text(live.bucket, "state") + "), mesh " + f.text(i, "mesh") + ". " +
              cut(utf8(f.text(i, "explanation")), 1'000) + "\n" + f.text(i, "replay")};
}

Annotation of_finding(const ReportModel& p, size_t i) {
  const Table& f = p.findings;
  std::string message =
      f.text(i, "detail") + " Expected " + f.text(i, "expected") + ", got " + f.text(i, "got") + ".";
  if (!f.text(i, "replay").empty()) message += "\n" + f.text(i, "replay");
  return {f.text(i, "effect") == "block" ? "error" : "warning",
          f.text(i, "rule") + ": " + f.text(i, "subject"), std::move(message)};
}

// Failing buckets that nobody muted, findings that block, then warnings. A finding about a bucket that is
// listed already says nothing new.
std::vector<Annotation> annotations_of(const ReportModel& p) {
  std::vector<Annotation> all;
  std::map<std::string, bool> listed;
  for (const Live& live : live_buckets(p)) {
    if (live.muted) continue;
    listed[p.failures.text(live.failure, "bucket")] = true;
    all.push_back(of_bucket(p, live));
  }
  for (const char* effect : {"block", "warn"})
    for (size_t i = 0; i < p.findings.rows.size(); ++i)
      if (p.findings.text(i, "effect") == effect && !listed.contains(p.findings.text(i, "subject")))
        all.push_back(of_finding(p, i));
  if (all.empty() && headline(p).red) all.push_back({"error", "Lockstep", headline(p).text});
  return all;
}

}  // namespace

std::string render_annotations(const ReportModel& p) {
  const auto all = annotations_of(p);
  const auto most = static_cast<size_t>(kMostAnnotations);
  const size_t shown = all.size() <= most ? all.size() : most - 1;
  std::string out;
  for (size_t i = 0; i < shown; ++i) out += command(all[i].level, all[i].title, all[i].message);
  if (shown < all.size())
    out += command(
        "error", "Lockstep",
        std::to_string(all.size() - shown) + " more buckets and findings: see the summary of this step.");
  return out;
}

}  // namespace lockstep::output
