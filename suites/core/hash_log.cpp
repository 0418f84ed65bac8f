// SPDX-License-Identifier: Apache-2.0
#include "suites/core/hash_log.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>

#include "dashboard/store/output_file.h"
#include "engine/values/error.h"
#include "oracle/program/program.h"
#include "suites/core/outcome.h"

namespace lockstep::suites {
namespace {

// Ops that overwrite a tensor without reading it, by the name before the overload; it may be memory that
// nobody has written.
constexpr std::string_view kOverwrite[] = {"aten::bernoulli_",   "aten::cauchy_", "aten::copy_",
                                           "aten::exponential_", "aten::fill_",   "aten::geometric_",
                                           "aten::log_normal_",  "aten::normal_", "aten::random_",
                                           "aten::uniform_",     "aten::zero_"};
// Ops whose result nobody has written, or whose noise nobody has.
constexpr std::string_view kEmpty[] = {"aten::empty",         "aten::empty_like", "aten::rrelu",
                                       "aten::empty_strided", "aten::new_empty",  "aten::new_empty_strided"};

// rrelu's noise is written, or in evaluation left as memory that nobody has written.
bool is_noise(const TimelineEntry& entry, size_t input) {
  constexpr size_t kTraining = 5;  // among the arguments of its gradient, which is given what was written
  const auto op = oracle::stem(entry.op);
  if (op == "aten::rrelu_with_noise" || op == "aten::rrelu_with_noise_") return input == 1;
  return op == "aten::rrelu_with_noise_backward" && input == 2 && !entry.args.at(kTraining).toBool();
}

template <size_t N>
bool is_one_of(const std::string_view (&names)[N], const std::string& op) {
  return std::find(std::begin(names), std::end(names), oracle::stem(op)) != std::end(names);
}

nlohmann::json inputs_of(const TimelineEntry& entry, size_t rank) {
  auto list = nlohmann::json::array();
  for (size_t i = 0; i < entry.inputs.size(); ++i) {
    const auto& digests = entry.inputs[i].digests;
    list.push_back(rank < digests.size() && is_read(entry, i) ? nlohmann::json(hex(digests[rank])) : nullptr);
  }
  return list;
}

nlohmann::json outputs_of(const TimelineEntry& entry, size_t rank) {
  auto list = nlohmann::json::array();
  for (const auto& tensor : entry.outputs)
    list.push_back(rank < tensor.digests.size() && !leaves_unwritten(entry.op)
                       ? nlohmann::json(hex(tensor.digests[rank]))
                       : nullptr);
  return list;
}

size_t ranks_of(const TimelineEntry& entry) {
  size_t ranks = 1;
  for (const auto* tensors : {&entry.inputs, &entry.outputs})
    for (const auto& tensor : *tensors) ranks = std::max(ranks, tensor.digests.size());
  return ranks;
}

}  // namespace

bool leaves_unwritten(const std::string& op) {
  return is_one_of(kEmpty, op);
}
bool is_read(const TimelineEntry& entry, size_t input) {
  if (is_noise(entry, input)) return false;
  return !is_one_of(kOverwrite, entry.op) || std::find(entry.aliases.begin(), entry.aliases.end(),
                                                       static_cast<int64_t>(input)) == entry.aliases.end();
}

HashLog::HashLog(std::string path) : path_(std::move(path)), file_(nullptr, std::fclose) {
  LOCKSTEP_CHECK(!dashboard::is_database(path_), "[hashes] ", path_,
                 ": is a database, and --log-hashes would replace it; name another file");
  file_.reset(std::fopen(path_.c_str(), "wb"));
  check(file_ != nullptr);
}

void HashLog::check(bool good) const {
  LOCKSTEP_CHECK(good, "[hashes] ", path_, ": ", std::strerror(errno),
                 "; choose another file for --log-hashes");
}

void HashLog::write(int64_t step, const Timeline& timeline) {
  for (size_t i = 0; i < timeline.size(); ++i)
    for (size_t rank = 0; rank < ranks_of(timeline[i]); ++rank) {
      const auto& entry = timeline[i];
      const auto line = nlohmann::json{{"step", step},
                                       {"seq", i},
                                       {"op", entry.op},
                                       {"rank", rank},
                                       {"phase", entry.implicit ? "implicit" : ""},
                                       {"inputs", inputs_of(entry, rank)},
                                       {"outputs", outputs_of(entry, rank)}}
                            .dump() +
                        "\n";
      check(std::fwrite(line.data(), 1, line.size(), file_.get()) == line.size());
    }
}

void HashLog::close() {
  check(std::fclose(file_.release()) == 0);
}

}  // namespace lockstep::suites
