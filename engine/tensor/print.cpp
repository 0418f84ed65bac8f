// SPDX-License-Identifier: Apache-2.0
// Printing of DTensors. libtorch's operator<< calls at::print, which reads memory; this definition, linked in
// front of libtorch's, prints a DTensor by its Spec and full value, and hands every other tensor on.
#include <ATen/ATen.h>
#include <dlfcn.h>

#include "engine/tensor/dtensor.h"
#include "engine/values/error.h"

namespace at {

std::ostream& print(std::ostream& stream, const Tensor& tensor, int64_t linesize) {
  using Print = std::ostream& (*)(std::ostream&, const Tensor&, int64_t);
  static const auto stock = reinterpret_cast<Print>(dlsym(RTLD_NEXT, "_ZN2at5printERSoRKNS_6TensorEl"));
  if (stock == nullptr) throw lockstep::Broken("[print] libtorch has no at::print");
  if (!tensor.defined() || !lockstep::is_dtensor(tensor)) return stock(stream, tensor, linesize);
  const NoGradGuard no_grad;
  stream << "DTensor(" << lockstep::spec(tensor) << ", mesh " << lockstep::spec(tensor).mesh() << ")\n";
  return stock(stream, lockstep::full_tensor(tensor), linesize);
}

}  // namespace at
