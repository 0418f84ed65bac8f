// SPDX-License-Identifier: Apache-2.0
#include "ci/program/hash_log.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>

#include "engine/values/error.h"

namespace lockstep::program {
namespace {

nlohmann::json digests_of(const std::vector<TensorRecord>& tensors, size_t rank) {
  auto list = nlohmann::json::array();
  for (const auto& tensor : tensors) {
    if (rank >= tensor.digests.size()) {
      list.push_back(nullptr);
      continue;
    }
    char text[40];
    std::snprintf(text, sizeof text, "%016lx%016lx", tensor.digests[rank].hi, tensor.digests[rank].lo);
    list.push_back(text);
  }
  return list;
}

size_t ranks_of(const TimelineEntry& entry) {
  size_t ranks = 1;
  for (const auto* tensors : {&entry.inputs, &entry.outputs})
    for (const auto& tensor : *tensors) ranks = std::max(ranks, tensor.digests.size());
  return ranks;
}

}  // namespace

void write_hash_log(const std::string& path, const Timeline& timeline) {
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "wb"), std::fclose);
  const auto check = [&](bool good) {
    LOCKSTEP_CHECK(good, "[replay] ", path, ": ", std::strerror(errno),
                   "; choose another file for --log-hashes");
  };
  check(file != nullptr);
  for (size_t i = 0; i < timeline.size(); ++i)
    for (size_t rank = 0; rank < ranks_of(timeline[i]); ++rank) {
      const auto& entry = timeline[i];
      const auto line = nlohmann::json{{"step", 0},
                                       {"seq", i},
                                       {"op", entry.op},
                                       {"rank", rank},
                                       {"phase", entry.implicit ? "implicit" : ""},
                                       {"inputs", digests_of(entry.inputs, rank)},
                                       {"outputs", digests_of(entry.outputs, rank)}}
                            .dump() +
                        "\n";
      check(std::fwrite(line.data(), 1, line.size(), file.get()) == line.size());
    }
  check(std::fclose(file.release()) == 0);
}

}  // namespace lockstep::program
