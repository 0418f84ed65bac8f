// SPDX-License-Identifier: Apache-2.0
#include "engine/lane/numerics.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "engine/values/error.h"

namespace lockstep {
namespace {

// Name and value.
constexpr std::pair<const char*, const char*> kExact[] = {
    {"MKL_CBWR", "AVX2,STRICT"}, {"ATEN_CPU_CAPABILITY", "default"}, {"OMP_NUM_THREADS", "1"}};

Lane entered = Lane::kFast;

bool environment_is_exact() {
  for (const auto& [name, value] : kExact) {
    const char* now = std::getenv(name);
    if (now == nullptr || std::strcmp(now, value) != 0) return false;
  }
  return true;
}

void apply_exact_settings() {
  at::set_num_threads(1);
  at::globalContext().setUserEnabledMkldnn(false);
  // Attention decomposes, so that both sides run the same ops.
  at::globalContext().setSDPUseFlash(false);
  at::globalContext().setSDPUseMemEfficient(false);
  entered = Lane::kExact;
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  const auto x = a.contiguous(), y = b.contiguous();
  return x.sizes() == y.sizes() && std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

// Deterministic values without touching any generator.
at::Tensor values(at::IntArrayRef shape, at::ScalarType dtype) {
  const auto n = c10::multiply_integers(shape);
  return at::arange(n, at::kDouble).add(0.5).mul(0.7390851332151607).sin().reshape(shape).to(dtype);
}

const std::pair<const char*, at::Tensor (*)(const at::Tensor&)> kElementwise[] = {
    {"silu", [](const at::Tensor& t) { return at::silu(t); }},
    {"sigmoid", [](const at::Tensor& t) { return at::sigmoid(t); }},
    {"gelu(tanh)", [](const at::Tensor& t) { return at::gelu(t, "tanh"); }},
    {"exp", [](const at::Tensor& t) { return at::exp(t); }},
    {"tanh", [](const at::Tensor& t) { return at::tanh(t); }},
    {"rsqrt", [](const at::Tensor& t) { return at::rsqrt(at::abs(t)); }},
};

std::string probe_gemm(at::ScalarType dtype) {
  static constexpr int64_t kShapes[][3] = {{5, 7, 9}, {33, 65, 17}, {64, 128, 48}, {2, 96, 200}, {40, 3, 31}};
  for (const auto& [m, k, n] : kShapes) {
    const auto a = values({m, k}, dtype), w = values({n, k}, dtype);
    const auto whole = at::mm(a, w.t());
    const int64_t rows = m - m / 2, columns = n / 3 + 1;
    const bool row =
        same_bits(at::mm(a.narrow(0, m - rows, rows).clone(), w.t()), whole.narrow(0, m - rows, rows));
    const bool column =
        same_bits(at::mm(a, w.narrow(0, 0, columns).clone().t()), whole.narrow(1, 0, columns));
    if (!row || !column) return concat("mm ", dtype, " ", m, "x", k, "x", n);
  }
  return "";
}

std::string probe_elementwise(at::ScalarType dtype) {
  const auto x = values({101}, dtype);
  for (const auto& [name, run] : kElementwise)
    for (int64_t begin = 0; begin < 101; begin += 17) {
      const int64_t n = std::min<int64_t>(17, 101 - begin);
      if (!same_bits(run(x.narrow(0, begin, n).clone()), run(x).narrow(0, begin, n)))
        return concat(name, " ", dtype);
    }
  return "";
}

std::string probe_convolution() {
  const auto x = values({4, 3, 9, 9}, at::kFloat), w = values({4, 3, 3, 3}, at::kFloat);
  const bool held = same_bits(at::conv2d(x.narrow(0, 1, 2).clone(), w), at::conv2d(x, w).narrow(0, 1, 2));
  return held ? "" : "conv2d Float 4x3x9x9";
}

}  // namespace

void enter_lane(Lane lane, char** argv) {
  if (lane == Lane::kFast) return;
  if (!environment_is_exact()) {
    for (const auto& [name, value] : kExact) setenv(name, value, 1);
    execv("/proc/self/exe", argv);
    throw Broken(
        concat("[numerics] could not re-execute the program into the exact lane: ", std::strerror(errno)));
  }
  apply_exact_settings();
}

void default_to_one_thread() {
  if (std::getenv("OMP_NUM_THREADS") == nullptr) at::set_num_threads(1);
}

Lane entered_lane() {
  return entered;
}

std::string slice_probe() {
  for (const auto dtype : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
    if (auto failed = probe_gemm(dtype); !failed.empty()) return failed;
    if (auto failed = probe_elementwise(dtype); !failed.empty()) return failed;
  }
  return probe_convolution();
}

void require_exact_lane() {
  apply_exact_settings();
  LOCKSTEP_CHECK(
      environment_is_exact(),
      "[numerics] the exact lane needs MKL_CBWR=AVX2,STRICT ATEN_CPU_CAPABILITY=default OMP_NUM_THREADS=1 "
      "in the environment before the program starts; set them, or call lockstep::enter_lane first in main");
  const auto failed = slice_probe();
  LOCKSTEP_CHECK(failed.empty(), "[numerics] the exact lane does not hold here: a slice of ", failed,
                 " is not bitwise the op on the slice; link Lockstep::exact_main, or use the fast lane");
}

}  // namespace lockstep
