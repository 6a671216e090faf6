// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "gradsync/model/container.hpp"

#include <doctest/doctest.h>

#include <Eigen/Core>
#include <array>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "gradsync/model/fingerprint.hpp"
#include "gradsync/model/for_each_parameter.hpp"

namespace {

struct dense {
  struct {
    Eigen::MatrixXf value, grad;
  } weight;
  struct {
    Eigen::VectorXf value, grad;
  } bias;
};

}  // namespace

TEST_CASE("contiguous floats are told from everything else") {
  using gradsync::float_container;
  static_assert(float_container<std::vector<float>> && float_container<std::array<double, 2>> && float_container<std::span<float>>);
  static_assert(float_container<Eigen::MatrixXf> && float_container<Eigen::Matrix<double, 2, 3, Eigen::RowMajor>>);
  static_assert(float_container<Eigen::ArrayXf> && float_container<std::vector<long double>>);
  static_assert(float_container<Eigen::Map<Eigen::VectorXf>> && float_container<std::span<const float>>);
  static_assert(!float_container<std::vector<int>> && !float_container<std::string> && !float_container<std::deque<float>>);
  static_assert(!float_container<std::vector<std::vector<float>>> && !float_container<Eigen::MatrixXi> && !float_container<float[3]>);
  static_assert(!float_container<float*>);
  static_assert(std::is_same_v<gradsync::element_type<Eigen::MatrixXd>, double>);
  static_assert(std::is_same_v<gradsync::element_type<const std::vector<float>>, const float>);
  constexpr auto access = gradsync::accessor_of<std::span<float>>();
  std::array<float, 3> there{};
  std::span<float> view;
  access.point(&view, reinterpret_cast<std::byte*>(there.data()), 3);
  const gradsync::memory seen = access.read(&view);
  CHECK(seen.data == reinterpret_cast<std::byte*>(there.data()));
  CHECK(seen.count == 3);
}

TEST_CASE("Eigen's matrices, arrays and maps are parameters, not ranges and not aggregates") {
  float memory[12] = {};
  using matrix_map = Eigen::Map<Eigen::Matrix<float, 2, 3>>;
  struct {
    matrix_map value, grad;
  } mapped{matrix_map(memory), matrix_map(memory + 6)};
  CHECK(gradsync::parameters_of(mapped)[0].count == 6);

  struct net {
    dense layers[2];
    struct {
      Eigen::Matrix<double, 2, 2> value, grad;
    } fixed;
    struct {
      Eigen::ArrayXf value;
      std::vector<float> grad;
    } mixed;
    Eigen::MatrixXi labels;
    Eigen::Index steps = 0;
    gradsync::skip<Eigen::MatrixXf> cache;
  } model;
  model.layers[0].weight.value.setZero(3, 2);
  const auto all = gradsync::parameters_of(model);
  REQUIRE(all.size() == 6);
  CHECK(all[0].name() == "layers[0].weight");
  CHECK(all[0].count == 6);
  CHECK(all[0].value().data == reinterpret_cast<std::byte*>(model.layers[0].weight.value.data()));
  CHECK(all[3].name() == "layers[1].bias");
  CHECK(all[4].type == gradsync::dtype::float64);
  CHECK(all[4].count == 4);
}

TEST_CASE("an empty Eigen gradient takes the shape of its value; what cannot be resized says so") {
  struct net {
    dense layer;
    struct {
      Eigen::Matrix2f value, grad;
    } fixed;
    struct {
      Eigen::MatrixXf value;
      std::vector<float> grad;
    } mixed;
    struct {
      std::vector<float> value;
      Eigen::VectorXf grad;
    } other;
  } model;
  model.layer.weight.value.setZero(3, 5);
  model.layer.bias.value.setZero(4);
  model.mixed.value.setZero(2, 2);
  const auto all = gradsync::parameters_of(model);
  CHECK(all[0].resize_grad());
  CHECK(model.layer.weight.grad.rows() == 3);
  CHECK(model.layer.weight.grad.cols() == 5);
  CHECK(all[1].resize_grad());
  CHECK(model.layer.bias.grad.size() == 4);
  CHECK(all[3].resize_grad());
  CHECK(model.mixed.grad.size() == 4);
  CHECK_FALSE(all[4].resize_grad());
  struct {
    std::span<float> value, grad;
  } views;
  CHECK_FALSE(gradsync::parameters_of(views)[0].resize_grad());
}

TEST_CASE("two Eigen objects of one type pair up, and ranges of matrices are walked") {
  struct net {
    std::vector<Eigen::MatrixXf> weights;
    Eigen::VectorXd scale;
  };
  net model{{Eigen::MatrixXf::Ones(2, 2), Eigen::MatrixXf::Ones(1, 3)}, Eigen::VectorXd::Ones(2)};
  net grads = model;
  const auto all = gradsync::parameters_of(model, grads);
  REQUIRE(all.size() == 3);
  CHECK(all[1].name() == "weights[1]");
  CHECK(all[1].count == 3);
  CHECK(all[2].grad().data == reinterpret_cast<std::byte*>(grads.scale.data()));
}

TEST_CASE("a map is a view that can be pointed elsewhere: it keeps its shape, and without memory it is empty") {
  using map = Eigen::Map<Eigen::MatrixXf>;
  struct net {
    struct {
      map value, grad;
    } first, second;
  };
  std::array<float, 8> values{};
  alignas(64) std::array<float, 6> home = {1, 2, 3, 4, 5, 6};
  net model{{map(values.data(), 2, 3), map(nullptr, 2, 3)}, {map(values.data() + 6, 1, 2), map(nullptr, 1, 2)}};
  const auto all = gradsync::parameters_of(model);  // two gradients of no memory are not one
  REQUIRE(all.size() == 2);
  CHECK(all[0].grad().count == 0);
  REQUIRE((all[0].grad_access.point != nullptr));
  all[0].grad_access.point(&model.first.grad, reinterpret_cast<std::byte*>(home.data()), 6);
  CHECK(all[0].grad().data == reinterpret_cast<std::byte*>(home.data()));
  CHECK(model.first.grad(1, 2) == 6);
  model.first.grad(0, 1) = 7;
  CHECK(home[2] == 7);
  all[0].grad_access.point(&model.first.grad, nullptr, 0);
  CHECK(all[0].grad().count == 0);
  CHECK(model.first.grad.cols() == 3);

  model.second.grad.~map();
  new (&model.second.grad) map(nullptr, 0, 0);
  CHECK_THROWS_WITH_AS(all[1].grad_access.point(&model.second.grad, reinterpret_cast<std::byte*>(home.data()), 2),
                       doctest::Contains("needs the shape of its value"), gradsync::usage_error);
  using gradsync::detail::is_eigen_map;
  static_assert(is_eigen_map<Eigen::Map<Eigen::VectorXd, Eigen::Aligned64>>);
  static_assert(is_eigen_map<Eigen::Map<Eigen::Array<float, 2, 3, Eigen::RowMajor>>>);
  static_assert(!is_eigen_map<Eigen::Map<Eigen::MatrixXf, 0, Eigen::OuterStride<>>>);
  static_assert(!is_eigen_map<Eigen::MatrixXf> && !is_eigen_map<Eigen::Vector3f> && !is_eigen_map<Eigen::Ref<Eigen::MatrixXf>>);
}

TEST_CASE("a value without memory is an error at once") {
  using map = Eigen::Map<Eigen::VectorXf>;
  struct {
    struct {
      map value, grad;
    } bias;
  } model{{map(nullptr, 3), map(nullptr, 3)}};
  CHECK_THROWS_WITH_AS(gradsync::parameters_of(model), "gradsync \"bias\": its value is a view of no memory; point it somewhere first",
                       gradsync::usage_error);
}

TEST_CASE("a strided map is an error at once: its elements are not contiguous") {
  using strided = Eigen::Map<Eigen::MatrixXf, 0, Eigen::OuterStride<>>;
  float memory[24] = {};
  struct net {
    struct {
      strided value, grad;
    } block;
  };
  net gaps{{strided(memory, 2, 3, Eigen::OuterStride<>(4)), strided(memory + 12, 2, 3, Eigen::OuterStride<>(4))}};
  CHECK_THROWS_WITH_AS(gradsync::parameters_of(gaps),
                       "gradsync \"block\": its elements are not contiguous; copy them into a matrix of their own", gradsync::usage_error);
  net tight{{strided(memory, 2, 3, Eigen::OuterStride<>(2)), strided(memory + 12, 2, 3, Eigen::OuterStride<>(2))}};
  CHECK(gradsync::parameters_of(tight)[0].count == 6);
}

TEST_CASE("a matrix and its gradient have one shape") {
  struct pair {
    Eigen::MatrixXf value, grad;
  };
  struct model {
    pair a;
  } net;
  net.a.value.setZero(2, 3);
  CHECK(gradsync::parameters_of(net).size() == 1);  // an empty gradient is made later
  net.a.grad.setZero(3, 2);
  CHECK_THROWS_WITH_AS(gradsync::parameters_of(net), doctest::Contains("\"a\": the value is 2 x 3, its gradient 3 x 2"),
                       gradsync::usage_error);
  net.a.grad.setZero(2, 3);
  CHECK(gradsync::parameters_of(net).size() == 1);
}
