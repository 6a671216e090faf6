// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "gradsync/model/erased_leaf.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace gradsync::detail;

namespace {

struct param {
  std::vector<float> value{1, 2}, grad;
};

struct notes {
  std::vector<const void*> objects, twins;
  std::vector<std::string> refusals, names;
  void found(const path& at, const found_parameter& p) {
    objects.push_back(p.object);
    twins.push_back(p.twin);
    refusals.push_back(p.refusal != nullptr ? p.refusal : "");
    names.push_back(p.make != nullptr ? p.make(at, p.object, p.twin).name() : "");
  }
};
struct state_notes : notes {
  static constexpr bool collects_states = true;
  using notes::found;
  std::vector<std::size_t> counts;
  void found(const path& at, const found_state& s) { counts.push_back(s.make(at, s.object).count); }
};

}  // namespace

TEST_CASE("a leaf without its type is told what was found, and can have an entry made of it") {
  const path top, at{&top, "x"};
  notes leaf;
  erased_leaf erased(leaf);
  param whole;
  std::vector<float> value(3), grad(3);
  erased(at, whole);
  erased(at, value, grad);
  CHECK(leaf.objects == std::vector<const void*>{&whole, &value});
  CHECK(leaf.twins == std::vector<const void*>{nullptr, &grad});
  CHECK(leaf.names == std::vector<std::string>{"x", "x"});
  erased(at, value);
  erased(at, whole, whole);
  CHECK(leaf.refusals == std::vector<std::string>{"", "", no_gradient, two_gradients});
  int number = 0;
  erased.state(at, number);  // this leaf does not ask for states
  CHECK(leaf.objects.size() == 4);
}

TEST_CASE("a leaf that collects states gets those too") {
  const path top, at{&top, "x"};
  state_notes leaf;
  erased_leaf erased(leaf);
  int numbers[3] = {};
  erased.state(at, numbers);
  CHECK(leaf.counts == std::vector<std::size_t>{3});
  CHECK(leaf.objects.empty());
}
