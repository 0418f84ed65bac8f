// SPDX-License-Identifier: Apache-2.0
// CommDebugMode: which collectives a program runs, for which module, forward and backward, and the order of
// operators, redistributions and collectives as they happened (torch:
// torch.distributed.tensor.debug.CommDebugMode).
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/context/activity.h"

namespace lockstep {

// Records from its construction to exit(), or its end; what it found can be asked for at any time. A scope:
// what began within it and records, too, has ended before.
class CommDebugMode {
 public:
  // @param wants_candidates also between which rows each op chose (chrome_trace.h), which costs their time
  // again
  explicit CommDebugMode(bool wants_candidates = false)
      : log_(std::make_shared<ActivityLog>(wants_candidates)), recording_(log_) {}
  // torch's __exit__.
  void exit() { recording_.reset(); }

  struct Collectives {
    int64_t calls = 0;
    int64_t bytes = 0;  // that the ranks hosted here receive from others
    bool operator==(const Collectives&) const = default;
  };
  using ByKind = std::map<std::string, Collectives>;  // "all_gather", "reduce_scatter", …
  struct OfModule {
    std::string fqn, module_type;  // "Llama.layers.0", "LlamaLayer"; "Global", "" for everything
    size_t depth = 0;              // below Global
    ByKind forward, backward;      // its own, and of modules below it
  };

  // Calls by kind, and of all kinds. A call is of all ranks that one process hosts, along one mesh dimension.
  std::map<std::string, int64_t> get_comm_counts() const;
  int64_t get_total_counts() const;
  // "Global", then the modules in the order of their first calls.
  std::vector<OfModule> get_comm_counts_by_module() const;
  const ActivityLog& log() const { return *log_; }

  // Noise levels: 0: collectives by module; 1: then also redistributions and collectives in their order; 2:
  // and operators, but those that torch calls trivial (views, detach, casts); 3: all. Throw Error for others.
  std::string generate_comm_debug_tracing_table(int noise_level = 3) const;
  // {"fqn","module_type","collectives_forward","collectives_backward","children":[…]} of Global, as torch's,
  // and "operations": what the table has in order.
  std::string json_dump(int noise_level = 3) const;
  // Into files. Throw Error that names one which cannot be written.
  void log_comm_debug_tracing_table_to_file(const std::string& file_name = "comm_mode_log.txt",
                                            int noise_level = 3) const;
  void generate_json_dump(const std::string& file_name = "comm_mode_log.json", int noise_level = 3) const;

 private:
  const ActivityLogPtr log_;
  std::optional<Recording> recording_;
};

}  // namespace lockstep
