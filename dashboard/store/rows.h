// SPDX-License-Identifier: Apache-2.0
// The rows that the store keeps, as plain structs of standard types. Values that are compared travel as bits:
// a REAL column would lose -0.0 and NaN.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::dashboard {

// How a case came out, from best to worst. The names below are stored; do not change them.
enum class Verdict : uint8_t {
  kEqual,                 // "equal": every bit of every tensor on every rank
  kExplained,             // "explained": the declared reduction order gives the same bits, within the bound
  kExplainedLocalKernel,  // "explained_local_kernel": the kernel depends on the local shape
  kExplainedOverflow,     // "explained_overflow": the declared order overflows
  kBounded,               // "bounded": not explained, but within the bounds of the float64 answer
  kExpectedException,     // "expected_exception": on the short, reasoned list
  kGaveUp,                // "gave_up": refused or not applicable; neither pass nor fail
  kNondeterministic,      // "nondeterministic": one side does not repeat itself
  kDifferent,             // "different"
  kHung,                  // "hung": stopped by the supervisor
  kCrashed,               // "crashed": took its process along
  kBroken,                // "broken": the harness itself failed
};
inline constexpr int kVerdicts = 12;

// @post verdict_from(name(v)) == v for every v; verdict_from of another text is empty.
const char* name(Verdict v);
std::optional<Verdict> verdict_from(std::string_view text);

// True of the classes that make a run end with code 1, 3 or 6: nondeterministic, different, hung, crashed,
// broken.
bool is_failure(Verdict v);

using Key = std::array<uint8_t, 16>;

// Milliseconds since the epoch, UTC: the time of day, as the store keeps it.
int64_t now_ms();

// Lockstep's own engine, in whatever process.
inline constexpr const char* kOwnEngine = "lockstep";

// One invocation of the program. Every worker of it passes the same Run: all fields but the four last ones
// make its identity, so two runs that share an id by accident stay two runs.
struct Run {
  std::string id{};       // unique text, for example time and random digits; printed and used in reports
  std::string command{};  // the command line, as the user typed it
  uint64_t seed = 0;
  std::string numerics{};  // "exact", "fast", "invariant"
  std::string plan =
      "{}";  // JSON: {"suites":[{"name":"ops","least":1000},...],"labels":[{"name":"2-D","least":50},...]}
  std::string build_hash{}, commit{};  // of the binary; of the source, with "+dirty" if so
  std::string cpu{}, compiler{}, libtorch{};
  std::string engine = kOwnEngine, version{};  // under test; runs of several engines are never compared
  std::string replay{};  // flags after the token, each with a space before it: engine, World, ranks
  int64_t cores = 0;
  int64_t started_ms = 0;  // since the epoch, UTC
  std::optional<int64_t> ended_ms{};
  std::string state = "running";  // "running", "interrupted", "finished"
  std::optional<int> exit_code{};
};

// What one compared value of a case looked like. Equal tensors need no row.
struct TensorDiff {
  std::string value{};      // name in the Program: "v3", "grad(v0)", "param.wq"
  std::string bit_class{};  // "equal", "sign of zero", "NaN payload", "ulp", "value", "shape"
  std::string dtype{};      // says how to read the bits below
  int64_t elements = 0, different = 0;
  int64_t max_ulp = 0;
  uint64_t max_abs_bits = 0;            // bits of a double
  std::vector<int64_t> first_index{};   // global index of the first difference, row-major
  int64_t rank = -1, local_index = -1;  // who holds it, and where in its flat local tensor; -1: unknown
  uint64_t expected_bits = 0, actual_bits = 0;  // in dtype, low bits first
  std::optional<uint64_t> float64_bits{};       // the float64 evaluation, as bits of a double
  std::optional<uint64_t> bound_bits{};         // the bound on |actual - float64|, as bits of a double
  std::string explained_by{};                   // "order of aten::mm at op 3"; empty if unexplained
};

// One op on one placement, seen in a case. `verdict` is this op's own: in a failing case only the op that
// first diverged carries the failure.
struct Coverage {
  std::string op{}, placement{};  // "aten::mm", "S0,R"
  int64_t mesh_rank = 1;          // number of mesh dimensions
  std::string evenness{};         // "even", "uneven", "empty"
  Verdict verdict = Verdict::kEqual;
};

// What the engine would not do: an op (empty: unknown), and why in few words ("view"). Counted by suite.
struct RefusalRow {
  std::string op{}, reason{};
};

// Where the timeline and the plain run need not agree: a kind, an op and the reason, and how often it was
// used.
struct ForgivenRow {
  std::string kind{}, op{}, reason{};
  int64_t count = 1;
};

struct CaseRow {
  std::string token{};  // the replay token: the case itself
  std::string suite{}, law{};
  std::string variant{};  // what else decides the outcome: planted fault, engine under test; part of the key
  bool self_check =
      false;  // of suites faults and canary: a difference is wished, and counts nowhere as a failure
  int64_t number = -1;  // index in the suite's sequence; a resumed run skips the numbers it finds
  std::string ops{};    // "aten::mm aten::relu"
  std::string mesh{};   // "2x4"
  Verdict verdict = Verdict::kEqual;
  std::string op{};         // of a single-op case, else the op that first diverged
  std::string placement{};  // its placement pattern
  int64_t mesh_rank = 1;
  std::string evenness{}, dtype{};
  std::string how{};  // "random", "exhaustive", "corpus", "shrink", "replay"
  int64_t time_ns = 0, bytes_moved = 0;
  std::string bucket{};       // signature; empty unless a failure
  std::string explanation{};  // plain words: what differed or why it is explained
  std::vector<std::string> labels{};
  std::vector<Coverage> coverage{};
  std::vector<TensorDiff> diffs{};
  std::optional<RefusalRow> refusal{};  // of a case that gave up
  std::vector<ForgivenRow> forgiven{};
};

// The minimal case of a bucket. When several are recorded, the smallest stays (ops, then token length).
struct Failure {
  std::string bucket{}, suite{}, law{};
  Verdict verdict = Verdict::kDifferent;
  std::string token{};    // minimal
  std::string program{};  // shrunk program, for reading
  int64_t ops = 0, shrink_steps = 0;
  bool budget_ended = false;
};

// One training curve. Curves of one run with the same model and variant are compared with the one whose
// `reference` is true.
struct Curve {
  std::string name{};                             // unique in the run: "tp:4 single-device"
  std::string model{};                            // "llama tiny 8x128"
  std::string variant{};                          // "init", "dropout", "init+dropout"
  std::string mesh{}, policy{}, lane{}, dtype{};  // dtype of loss and gradient norm: "f32", "f64"
  bool reference = false;
  std::optional<int> digits{};            // significant decimal digits; empty: every bit was recorded
  std::string fields = "loss grad_norm";  // which of its numbers were recorded; the others are 0,
                                          // and NaN at a step that lacks one
};

struct CurvePoint {
  int64_t step = 0;
  uint64_t loss_bits = 0, grad_norm_bits = 0;  // in the curve's dtype
  Key chain{};                                 // hash over all bits so far
  double tokens_per_second = 0;
  int64_t peak_bytes = 0;
  std::optional<Verdict> verdict{};  // where the step was judged
};

struct PlantedFault {
  std::string name{}, klass{};  // "mean_of_local_means", "K3"
  bool found = false;
  int64_t cases = 0;  // until found, or tried in vain
  int64_t shrunk_ops = 0;
  std::string suite{};  // that found it
  std::string token{};
  std::string note{};  // why it could not be shrunk to 3 ops, for example
};

// An op x dtype that may differ, with its reason. Counted, shown, never silent.
struct ExpectedException {
  std::string op{}, dtype{}, reason{};
  int64_t count = 1;
};

struct Measurement {
  std::string series{}, unit{};  // "program cases per second per core", "1/s"
  double value = 0;
  std::string arm{};  // "candidate", "again", "baseline", see ci/perf/README.md; empty in a plain run
};

// What a measured series is. Counted work is compared exactly, timed work by statistics.
struct Series {
  std::string name{}, area{};  // "dispatch aten::add cached"; "dispatch"
  bool counted = false, more_is_better = false;
  std::string unit{};
};

// A case that is replayed before a run generates any.
struct KeptCase {
  std::string token{}, suite{};
  std::string bucket{};  // that it is the witness of; may be empty
  std::string origin{};  // "golden", "failure", "boundary", "slow"
  int64_t since_ms = 0;
  std::string note{};
  int64_t time_ns = 0;  // of a slow one: the shortest in which its store has seen it; read, not written
  bool operator==(const KeptCase&) const = default;
};

// How a kept case came out this time.
struct Replayed {
  std::string token{}, bucket{};
  Verdict verdict = Verdict::kEqual;
  std::string now{};  // bucket that it fell into, empty if it passed
};

// Where the logged digests of two runs first part; no step: nowhere.
struct Divergence {
  std::string curve{}, reference{};
  int64_t compared = 0;
  std::optional<int64_t> step{}, position{};
  std::string op{};
  int64_t rank = -1;
  std::string what{};  // "input", "output", "sequence", "missing"
  std::string expected{}, got{};
};

// A rule that decides the exit code, stored with its outcome so that a red run can be read without running
// again.
struct Gate {
  std::string rule{}, required{}, got{};
  bool passed = false;
};

}  // namespace lockstep::dashboard
