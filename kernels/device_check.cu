// SPDX-License-Identifier: Apache-2.0
// Every distribution and dtype on every kind of image: the device's bits against the CPU's. Exit 77: there is
// no device, and nothing was compared.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstring>
#include <vector>

#include "kernels/device_fill.h"
#include "kernels/testing.h"

namespace lockstep {
namespace {

struct NamedImage {
  const char* name;
  StreamImage image;
  int64_t memory;
};

// Of a stream of 1,440,000 elements, in rows of 1,200 or, if not, of 256.
std::vector<NamedImage> images() {
  const StreamDim columns{{{40, 350, 0}}, 1, 1}, rows{{{100, 1000, 0}}, 1200, 350};
  const StreamDim two{{{40, 100, 0}, {900, 64, 100}}, 1, 1}, every{{{0, 1200, 0}}, 1200, 164};
  const StreamDim narrow{{{64, 96, 0}}, 1, 1}, many{{{3, 5000, 0}}, 256, 96};
  const StreamDim padded{{{3, 5000, 0}}, 256, 99}, apart{{{64, 96, 0}}, 1, 2};
  return {
      {"the whole", {{{{{{0, 1440000, 0}}, 1, 1}}, 0}}, 1440000},
      {"an interval", {{{{{{12345, 1200001, 0}}, 1, 1}}, 0}}, 1200001},
      {"an interval, unaligned", {{{{{{12345, 1200001, 0}}, 1, 1}}, 3}}, 1200004},
      {"a short interval", {{{{{{777777, 1001, 0}}, 1, 1}}, 0}}, 1001},
      {"a box", {{{columns, rows}, 0}}, 350000},
      {"two intervals of columns", {{{two, every}, 0}}, 164 * 1200},
      {"rows that divide the launch", {{{narrow, many}, 0}}, 480000},
      {"padded rows", {{{narrow, padded}, 1}}, 495001},
      {"strided", {{{apart, {{{3, 5000, 0}}, 256, 192}}, 0}}, 960000},
      {"a chain of boxes", {{{{{{5, 300, 0}}, 1, 1}}, 0}, {{{{{1200, 600000, 0}}, 1, 1}}, 300}}, 600300},
  };
}

// The default device, a small one, a tensor in two launches, no device at all, and vectors.
std::vector<PhiloxSweep> plans() {
  const int64_t n = 1440000;
  return {{1234, {{0, n, 270336, 2, 0}}, 1},
          {7, {{0, n, 512, 0, 0}}, 1},
          {7, {{0, n / 2, 512, 4, 0}, {n / 2, n / 2, 512, 5000, 0}}, 1},
          {7, {{0, n, 1, 0, 9}}, 1},
          {99, {{0, n, 512, 1, 0}}, 2},
          {99, {{0, n, 512, 1, 0}}, 4},
          {99, {{0, n, 512, 1, 0}}, 8}};
}

bool good(cudaError_t error) {
  if (error != cudaSuccess) std::fprintf(stderr, "CUDA: %s\n", cudaGetErrorString(error));
  return error == cudaSuccess;
}

// Fills both with the same poison first, so that a write beside the image shows, and one left out too.
bool same_bits(const Distribution& d, const PhiloxSweep& plan, const NamedImage& named) {
  const size_t bytes = value_bytes(d, {{}, 0}).size() * static_cast<size_t>(named.memory);
  std::vector<unsigned char> expected(bytes, 0x71), drawn(bytes);
  fill(d, plan, named.image, expected.data());
  void* memory = nullptr;
  if (!good(cudaMalloc(&memory, bytes)) || !good(cudaMemset(memory, 0x71, bytes))) return false;
  const DeviceFill result = fill_device(d, plan, named.image, memory);
  if (result.error != nullptr) std::fprintf(stderr, "CUDA: %s\n", result.error);
  const bool ran = result.done && result.error == nullptr && good(cudaDeviceSynchronize()) &&
                   good(cudaMemcpy(drawn.data(), memory, bytes, cudaMemcpyDeviceToHost));
  good(cudaFree(memory));
  const bool same = ran && std::memcmp(expected.data(), drawn.data(), bytes) == 0;
  if (!same)
    std::printf("different: values %d, dtype %d, width %d, %d launches, %s\n", static_cast<int>(d.values),
                static_cast<int>(d.dtype), static_cast<int>(plan.width),
                static_cast<int>(plan.launches.size()), named.name);
  return same;
}

int check() {
  int count = 0, different = 0;
  for (const Distribution& d : every_distribution())
    for (const PhiloxSweep& plan : plans())
      for (const NamedImage& named : images()) {
        if (plan.width > 1 && lanes_of(d) != 4) continue;
        ++count;
        different += !same_bits(d, plan, named);
      }
  std::printf("%d fills on the device, %d differ from the CPU's\n", count, different);
  return different == 0 && count > 0 ? 0 : 1;
}

}  // namespace
}  // namespace lockstep

int main() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::puts("no CUDA device: NOTHING was compared");
    return 77;
  }
  return lockstep::check();
}
