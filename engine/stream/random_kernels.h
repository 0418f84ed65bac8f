// SPDX-License-Identifier: Apache-2.0
// The kernels of a RandomScope: random operators on plain tensors, drawn from the scope's source. Every
// kernel passes DTensors and meta tensors on. random_source.cpp has the one list that registers them.
#pragma once
#include <c10/core/Scalar.h>
#include <c10/core/SymInt.h>

#include <tuple>

#include "engine/stream/random_mode.h"

namespace lockstep::random_mode {

using Keys = c10::DispatchKeySet;
using GivenGenerator = std::optional<at::Generator>;

// random_fills.cpp: in place, one number an element.
at::Tensor& uniform_(Keys keys, at::Tensor& self, double from, double to, GivenGenerator given);
at::Tensor& normal_(Keys keys, at::Tensor& self, double mean, double std, GivenGenerator given);
at::Tensor& log_normal_(Keys keys, at::Tensor& self, double mean, double std, GivenGenerator given);
at::Tensor& cauchy_(Keys keys, at::Tensor& self, double median, double sigma, GivenGenerator given);
at::Tensor& exponential_(Keys keys, at::Tensor& self, double rate, GivenGenerator given);
at::Tensor& geometric_(Keys keys, at::Tensor& self, double p, GivenGenerator given);
at::Tensor& bernoulli_(Keys keys, at::Tensor& self, double p, GivenGenerator given);
at::Tensor& random_(Keys keys, at::Tensor& self, GivenGenerator given);
at::Tensor& random_from(Keys keys, at::Tensor& self, int64_t from, std::optional<int64_t> to,
                        GivenGenerator given);
at::Tensor& random_to(Keys keys, at::Tensor& self, int64_t to, GivenGenerator given);

// random_dropout.cpp
at::Tensor dropout(Keys keys, const at::Tensor& input, double p, bool train);
std::tuple<at::Tensor, at::Tensor> native_dropout(Keys keys, const at::Tensor& input, double p,
                                                  std::optional<bool> train);

// random_compound_kernels.cpp: one draw and stock operators.
at::Tensor& bernoulli_tensor_(Keys keys, at::Tensor& self, const at::Tensor& p, GivenGenerator given);
at::Tensor normal_of_means(Keys keys, const at::Tensor& mean, double std, GivenGenerator given);
at::Tensor normal_of_stds(Keys keys, double mean, const at::Tensor& std, GivenGenerator given);
at::Tensor normal_of_both(Keys keys, const at::Tensor& mean, const at::Tensor& std, GivenGenerator given);
at::Tensor& normal_of_means_out(Keys keys, const at::Tensor& mean, double std, GivenGenerator given,
                                at::Tensor& out);
at::Tensor& normal_of_stds_out(Keys keys, double mean, const at::Tensor& std, GivenGenerator given,
                               at::Tensor& out);
at::Tensor& normal_of_both_out(Keys keys, const at::Tensor& mean, const at::Tensor& std, GivenGenerator given,
                               at::Tensor& out);
at::Tensor multinomial(Keys keys, const at::Tensor& weights, c10::SymInt samples, bool replacement,
                       GivenGenerator given);
at::Tensor& multinomial_out(Keys keys, const at::Tensor& weights, c10::SymInt samples, bool replacement,
                            GivenGenerator given, at::Tensor& out);
at::Tensor& randperm_out(Keys keys, c10::SymInt n, GivenGenerator given, at::Tensor& out);
at::Tensor rrelu(Keys keys, const at::Tensor& self, at::Tensor& noise, const at::Scalar& lower,
                 const at::Scalar& upper, bool training, GivenGenerator given);
at::Tensor& rrelu_(Keys keys, at::Tensor& self, at::Tensor& noise, const at::Scalar& lower,
                   const at::Scalar& upper, bool training, GivenGenerator given);

}  // namespace lockstep::random_mode
