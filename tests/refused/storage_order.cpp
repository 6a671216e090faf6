// expect: gradsync: a value and its gradient are stored in the same order: make both row-major, or both column-major
// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include <vector>

#include "gradsync/model/for_each_parameter.hpp"

// As Eigen's matrices are, without Eigen.
template <bool RowMajor>
struct matrix {
  static constexpr bool IsRowMajor = RowMajor, IsVectorAtCompileTime = false;
  std::vector<float> elements;
  float* data() { return elements.data(); }
  const float* data() const { return elements.data(); }
  std::size_t size() const { return elements.size(); }
  std::size_t rows() const { return 1; }
  std::size_t cols() const { return size(); }
};

struct net {
  struct {
    matrix<true> value;
    matrix<false> grad;
  } weight;
};

int main() {
  net model;
  gradsync::parameters_of(model);
}
