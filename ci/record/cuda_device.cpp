// SPDX-License-Identifier: Apache-2.0
// The CUDA runtime and driver, which are loaded with libtorch_cuda, tell what device this is.
#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <dlfcn.h>
#include <torch/cuda.h>
#include <torch/version.h>

#include <ctime>
#include <fstream>

#include "ci/record/record.h"
#include "engine/lane/cuda.h"
#include "engine/values/error.h"

namespace lockstep::record {
namespace {

// cudaDevAttrMultiProcessorCount, cudaDevAttrMaxThreadsPerMultiProcessor
constexpr int kProcessors = 16, kThreadsOfProcessor = 39;

// A function of the CUDA runtime or driver, which are loaded by now.
template <class Function>
Function* cuda_function(const char* name) {
  void* found = dlsym(RTLD_DEFAULT, name);
  if (found == nullptr)
    if (void* driver = dlopen("libcuda.so.1", RTLD_NOW)) found = dlsym(driver, name);
  if (found == nullptr) throw Broken(concat("[record] CUDA has no function ", name));
  return reinterpret_cast<Function*>(found);
}

void check(int status, const char* what) {
  if (status != 0) throw Broken(concat("[record] ", what, " failed with CUDA status ", status));
}

int64_t attribute(int which, int64_t index) {
  int value = 0;
  check(cuda_function<int(int*, int, int)>("cudaDeviceGetAttribute")(&value, which, static_cast<int>(index)),
        "cudaDeviceGetAttribute");
  return value;
}

std::string device_name(int64_t index) {
  int device = 0;
  char name[256] = "";
  check(cuda_function<int(int*, int)>("cuDeviceGet")(&device, static_cast<int>(index)), "cuDeviceGet");
  check(cuda_function<int(char*, int, int)>("cuDeviceGetName")(name, sizeof name, device), "cuDeviceGetName");
  return name;
}

// What the kernel module says of itself; else the version of the driver's interface.
std::string driver_version() {
  std::ifstream file("/proc/driver/nvidia/version");
  if (std::string line; std::getline(file, line) && !line.empty()) return line;
  int version = 0;
  check(cuda_function<int(int*)>("cuDriverGetVersion")(&version), "cuDriverGetVersion");
  return concat("driver interface ", version);
}

std::string today() {
  const auto now = std::time(nullptr);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d", std::gmtime(&now));
  return text;
}

suites::StockDevice stock_device(int64_t index, const DeviceModel& model) {
  const at::Device device(at::kCUDA, static_cast<c10::DeviceIndex>(index));
  const auto generator = at::globalContext().defaultGenerator(device);
  suites::StockDevice stock;
  stock.model = model;
  // A fresh allocation: dropout's vector width depends on alignment.
  stock.maker.place = [device](const at::Tensor& plain) {
    const auto there = at::empty_strided(plain.sizes(), plain.strides(), plain.options().device(device));
    return there.copy_(plain);
  };
  stock.maker.randperm = [device](int64_t n, c10::ScalarType dtype) {
    return at::randperm(n, at::TensorOptions(dtype).device(device));
  };
  stock.set_state = [generator](const RandomState& state) {
    auto g = generator;
    g.set_current_seed(state.seed);
    g.set_offset(state.offset);
  };
  stock.offset = [generator] { return generator.get_offset(); };
  return stock;
}

}  // namespace

FoundDevice find_cuda_device(int64_t index) {
  if (const auto why_not = load_cuda(); !why_not.empty()) return {{}, why_not};
  if (index < 0 || index >= torch::cuda::device_count())
    return {{}, concat("--device ", index, ": there are ", int{torch::cuda::device_count()})};
  Device device;
  device.name = device_name(index);
  const DeviceModel model{attribute(kProcessors, index), attribute(kThreadsOfProcessor, index)};
  device.stock = stock_device(index, model);
  device.provenance = {
      {"device", device.name},
      {"sm_count", std::to_string(model.sm_count)},
      {"max_threads_per_sm", std::to_string(model.threads_per_sm)},
      {"driver", driver_version()},
      {"library", concat("libtorch ", TORCH_VERSION, ", CUDA ", at::Context::versionCUDART())},
      {"date", today()},
      {"recorded_by", "golden/record"}};
  return {device, ""};
}

}  // namespace lockstep::record
