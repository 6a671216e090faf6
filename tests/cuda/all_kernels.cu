// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// Every kernel there is, for sass.sh to look at.
#include "gradsync/cuda/half.hpp"
#include "gradsync/cuda/stream.hpp"

namespace {

template <class Narrow>
void launch_narrow(cudaStream_t stream, const gradsync::detail::run_list& list, const gradsync::cast_measures& measures) {
  gradsync::cast<Narrow, float>(stream, list, {}, measures);
  gradsync::cast<float, Narrow>(stream, list, {});
  gradsync::sum_narrow<float, Narrow>(stream, list, {});
  gradsync::sum_narrow<Narrow, Narrow>(stream, list, {});
}

}  // namespace

int main() {
  gradsync::cuda_stream stream(0);
  const gradsync::detail::run_list list{};
  launch_narrow<__half>(stream.native(), list, {});
  launch_narrow<__nv_bfloat16>(stream.native(), list, {});
}
