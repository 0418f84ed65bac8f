// SPDX-License-Identifier: Apache-2.0
#include "suites/harness/kept.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <tuple>

#include "dashboard/store/output_file.h"
#include "dashboard/store/read_back.h"
#include "dashboard/store/store.h"
#include "engine/values/error.h"
#include "oracle/program/program.h"
#include "suites/harness/witnesses.h"

namespace lockstep::suites {
namespace {

using dashboard::KeptCase;

// A text that somebody named must hold what its suites can read: every line is tried.
std::vector<KeptCase> read_named_text(const std::string& file) {
  return read_corpus(file, [](const std::string& token) { find_suite(oracle::parse_token(token).suite); });
}

std::vector<KeptCase> read_named(const std::string& file) {
  LOCKSTEP_CHECK(std::filesystem::exists(file), "[run] --corpus: there is no ", file);
  LOCKSTEP_CHECK(!std::filesystem::is_directory(file), "[run] --corpus: ", file,
                 " is a folder; name a database or a text file");
  if (!dashboard::is_database(file)) return read_named_text(file);
  return dashboard::kept_cases(dashboard::Store::open_reader(file));
}

// Failures first, then what was once mended, then what is only worth a look; of equal rank the order of the
// token, so that every run has the same.
auto rank(const KeptCase& k) {
  constexpr const char* kOrigins[] = {"failure", "golden", "boundary", "slow"};
  const auto origin = std::find(std::begin(kOrigins), std::end(kOrigins), k.origin) - std::begin(kOrigins);
  return std::tuple(k.bucket.empty(), origin, k.token.size(), k.token);
}

std::vector<KeptCase> one_a_bucket(std::vector<KeptCase> all) {
  std::sort(all.begin(), all.end(), [](const KeptCase& a, const KeptCase& b) { return rank(a) < rank(b); });
  std::set<std::string> buckets, tokens;
  std::vector<KeptCase> kept;
  for (KeptCase& k : all) {
    const bool known =
        !tokens.insert(k.token).second || (!k.bucket.empty() && !buckets.insert(k.bucket).second);
    if (!known) kept.push_back(std::move(k));
  }
  return kept;
}

bool chosen_here(const KeptCase& k, const std::vector<const Suite*>& chosen) {
  return std::any_of(chosen.begin(), chosen.end(),
                     [&](const Suite* s) { return k.suite == s->name && !s->self_check; });
}

bool readable(const KeptCase& k, const std::function<void(const std::string&)>& tell) {
  try {
    oracle::parse_token(k.token);
    return true;
  } catch (const Error& e) {
    tell(concat("a kept case is left out, since this version cannot read it: ", e.what()));
    return false;
  }
}

}  // namespace

std::string shipped_corpus() {
  return std::filesystem::exists(LOCKSTEP_CORPUS) ? LOCKSTEP_CORPUS : LOCKSTEP_INSTALLED_CORPUS;
}

std::vector<KeptCase> read_corpus(const std::string& file,
                                  const std::function<void(const std::string&)>& check) {
  std::ifstream in(file);
  LOCKSTEP_CHECK(in, "[corpus] cannot read ", file);
  std::vector<KeptCase> cases;
  std::string note;
  int64_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line.empty() || line[0] == '#') {
      note = line.empty() ? "" : line.substr(std::min<size_t>(line.size(), 2));
      continue;
    }
    const auto colon = line.find(':'), semicolon = line.find(';');
    LOCKSTEP_CHECK(
        line[0] == 'v' && colon != std::string::npos && semicolon != std::string::npos && colon < semicolon,
        "[corpus] ", file, ":", number, ": '", line.substr(0, 60),
        "' is no token; write one a line, and # before anything else");
    try {
      if (check) check(line);
    } catch (const Error& e) {
      throw Error(concat("[corpus] ", file, ":", number, ": ", e.what()));
    }
    cases.push_back({line, line.substr(colon + 1, semicolon - colon - 1), "", "golden", 0, note});
    note.clear();
  }
  return cases;
}

std::vector<KeptCase> named_cases(const RunOptions& options) {
  std::vector<KeptCase> all;
  for (const auto& file : options.corpus) {
    const auto more = read_named(file);
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

std::vector<KeptCase> known_cases(const std::vector<KeptCase>& named, const dashboard::Store& store) {
  auto all = dashboard::kept_cases(store);
  for (const auto& more : {read_corpus(shipped_corpus()), named})
    all.insert(all.end(), more.begin(), more.end());
  return all;
}

std::vector<KeptCase> kept_cases(const RunOptions& options, std::vector<KeptCase> known,
                                 const std::vector<const Suite*>& chosen,
                                 const std::function<void(const std::string&)>& tell) {
  if (!options.replay_kept || options.shard != 0) return {};
  std::erase_if(known, [&](const auto& k) { return !chosen_here(k, chosen); });
  auto mine = one_a_bucket(thin_witnesses(std::move(known)));
  std::erase_if(mine, [&](const auto& k) { return !readable(k, tell); });
  return mine;
}

}  // namespace lockstep::suites
