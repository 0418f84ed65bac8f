// SPDX-License-Identifier: Apache-2.0
// A rank's shard drawn by fill_device, against the stock torch.cuda operator on the local size; ratios within
// one run, bits checked against the CPU first. Exit 77: there is no device, nothing was measured; 1: wrong
// bits; 4: a goal is missed. libtorch_cuda is loaded at run time, so that this builds beside any libtorch.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/core/InferenceMode.h>
#include <cuda_runtime.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <vector>

#include "kernels/device_fill.h"

namespace lockstep {
namespace {

struct Shard {
  const char* what;
  double goal;  // of stock's time over ours
  int64_t rows, columns;
  StreamPiece held_rows, held_columns;
};

const Shard kShards[] = {
    {"the whole", 1.0, 16384, 16384, {0, 16384, 0}, {0, 16384, 0}},
    {"rows", 1.0, 16384, 16384, {4096, 8192, 0}, {0, 16384, 0}},
    {"rows, uneven", 1.0, 16387, 16383, {5462, 5463, 0}, {0, 16383, 0}},
    {"columns, C divides the launch", 1.0, 65536, 4096, {0, 65536, 0}, {512, 512, 0}},
    {"columns, C does not", 0.5, 16384, 14336, {0, 16384, 0}, {1792, 1792, 0}},
    {"narrow columns, C does not", 0.5, 1 << 20, 56, {0, 1 << 20, 0}, {7, 7, 0}},
};

StreamImage image_of(const Shard& s) {
  if (s.held_columns.length == s.columns)
    return {{{{{{s.held_rows.start * s.columns, s.held_rows.length * s.columns, 0}}, 1, 1}}, 0}};
  return {{{{{s.held_columns}, 1, 1}, {{s.held_rows}, s.columns, s.held_columns.length}}, 0}};
}

// The launch of this device.
PhiloxSweep plan_of(const Shard& s) {
  cudaDeviceProp device{};
  cudaGetDeviceProperties(&device, 0);
  const int64_t resident =
      int64_t{device.multiProcessorCount} * (device.maxThreadsPerMultiProcessor / 256) * 256;
  const int64_t n = s.rows * s.columns;
  return {1234, {{0, n, std::min(resident, (n + 255) / 256 * 256), 2, 0}}, 1};
}

class Timer {
 public:
  Timer() { cudaEventCreate(&start_), cudaEventCreate(&stop_); }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;
  ~Timer() { cudaEventDestroy(start_), cudaEventDestroy(stop_); }
  float milliseconds(const std::function<void()>& run) {
    float result = 0;
    cudaEventRecord(start_);
    run();
    cudaEventRecord(stop_);
    cudaEventSynchronize(stop_);
    cudaEventElapsedTime(&result, start_, stop_);
    return result;
  }

 private:
  cudaEvent_t start_, stop_;
};

float middle(std::vector<float> values, double q) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(q * static_cast<double>(values.size() - 1) + 0.5)];
}

bool bits_are_right(const Distribution& d, const PhiloxSweep& plan, const StreamImage& image, int64_t n,
                    float* memory) {
  std::vector<float> expected(static_cast<size_t>(n)), drawn(expected.size());
  fill(d, plan, image, expected.data());
  const size_t bytes = expected.size() * sizeof(float);
  const bool ran = fill_device(d, plan, image, memory).error == nullptr &&
                   cudaMemcpy(drawn.data(), memory, bytes, cudaMemcpyDeviceToHost) == cudaSuccess;
  return ran && std::memcmp(drawn.data(), expected.data(), bytes) == 0;
}

int measure(int rounds) {
  int wrong = 0, missed = 0;
  Timer timer;
  std::printf("%-30s %-8s %9s %9s %22s  goal\n", "shard", "op", "ns/elem", "stock", "stock/ours [quartiles]");
  for (const Shard& s : kShards) {
    const StreamImage image = image_of(s);
    const PhiloxSweep plan = plan_of(s);
    const int64_t n = elements(image[0]);
    const auto options = at::TensorOptions().device(c10::kCUDA).dtype(c10::kFloat);
    const at::Tensor ours = at::empty({n}, options), stock = at::empty({n}, options);
    for (const Values values : {Values::kUniform, Values::kNormal}) {
      const Distribution d{values, c10::kFloat, 0, 1, 0, 0};
      auto* memory = ours.mutable_data_ptr<float>();
      if (!bits_are_right(d, plan, image, n, memory)) {
        std::printf("WRONG BITS: %s\n", s.what);
        ++wrong;
        continue;
      }
      std::vector<float> a, b, ratio;
      for (int round = 0; round <= rounds; ++round) {
        const float at = timer.milliseconds([&] { fill_device(d, plan, image, memory); });
        const float bt =
            timer.milliseconds([&] { values == Values::kUniform ? stock.uniform_() : stock.normal_(); });
        if (round == 0) continue;
        a.push_back(at), b.push_back(bt), ratio.push_back(bt / at);
      }
      const double scale = 1e6 / static_cast<double>(n);
      const bool met = middle(ratio, 0.5) >= s.goal;
      missed += !met;
      std::printf("%-30s %-8s %9.4f %9.4f %8.2f [%.2f %.2f]     %.1f %s\n", s.what,
                  values == Values::kUniform ? "uniform_" : "normal_", middle(a, 0.5) * scale,
                  middle(b, 0.5) * scale, middle(ratio, 0.5), middle(ratio, 0.25), middle(ratio, 0.75),
                  s.goal, met ? "met" : "MISSED");
    }
  }
  std::printf("%d wrong, %d goals missed\n", wrong, missed);
  return wrong > 0 ? 1 : missed > 0 ? 4 : 0;
}

}  // namespace
}  // namespace lockstep

int main() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::puts("no CUDA device: NOTHING was measured");
    return 77;
  }
  if (dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    std::printf("%s\nneeds a libtorch with CUDA: LOCKSTEP_LIBTORCH, all libraries of its wheel beside it\n",
                dlerror());
    return 2;
  }
  const c10::InferenceMode plain;
  return lockstep::measure(51);
}
