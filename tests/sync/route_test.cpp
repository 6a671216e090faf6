// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// What is done to a gradient when it is taken: no more than its bucket's way asks for.
#include "gradsync/sync/route.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "gradsync/collective/ring.hpp"
#include "gradsync/comm/threads.hpp"
#include "gradsync/model/for_each_parameter.hpp"
#include "tests/sync/models.hpp"

using namespace gradsync;

namespace {

// What a synchronizer owns, for one layer.
struct parts {
  parts(const collective<thread_communicator>& sum, layout how)
      : net(test::make_layers({3})), parameters(parameters_of(net)), plan(make_plan(parameters)),
        micro_steps(accumulation_mode::tree, parameters), storage(plan, parameters, how),
        reduce(sum, plan, parameters, storage, progress::at_marks), way(parameters, micro_steps, storage, reduce) {
    net.layer[0].grad = {1, 2, 3};
  }

  // What the bucket holds before it leaves; nothing yet in a micro-step that is not the last.
  std::vector<float> taken(const step_options& step) {
    way.begin(step, [](std::size_t bytes) { return aligned_bytes(bytes); });
    way.take(0, {});
    if (!micro_steps.last()) return way.end_micro_step({}), std::vector<float>{};
    const auto* first = reinterpret_cast<const float*>(storage.view(0).extents[0].data);
    return {first, first + 3};
  }

  test::layers net;
  series<parameter> parameters;
  bucket_plan plan;
  window micro_steps;
  bucket_storage storage;
  reducer<thread_communicator> reduce;
  route<thread_communicator> way;
};

const std::vector<float> as_it_was = {1, 2, 3}, times_3 = {3, 6, 9};

}  // namespace

TEST_CASE("in place and in one micro-step, a fused pass finds the gradient as it was, and others find it times its weight") {
  thread_group(2).run([](thread_communicator& comm) {
    parts fused(collective{comm}, layout::in_place);
    CHECK(fused.taken({.weight = 3}) == as_it_was);
    parts by_rounds(collective{comm, ring{}}, layout::in_place);
    CHECK(by_rounds.taken({.weight = 3}) == times_3);
    CHECK(by_rounds.net.layer[0].grad == times_3);
  });
}

TEST_CASE("a packed bucket gets a copy times its weight, and the gradient stays what it was") {
  thread_group(2).run([](thread_communicator& comm) {
    parts packed(collective{comm}, layout::packed);
    CHECK(packed.taken({.weight = 3}) == times_3);
    CHECK(packed.net.layer[0].grad == as_it_was);
  });
}

TEST_CASE("after other micro-steps the bucket gets the sum of all of them") {
  thread_group(2).run([](thread_communicator& comm) {
    parts all(collective{comm}, layout::in_place);
    all.taken({.weight = 2, .micro_step = micro_step::more});
    CHECK(all.net.layer[0].grad == as_it_was);
    CHECK(all.taken({.weight = 1}) == times_3);
  });
}

TEST_CASE("one rank's one mean is not touched") {
  thread_group(1).run([](thread_communicator& comm) {
    for (const layout how : {layout::in_place, layout::packed}) CHECK(parts(collective{comm}, how).taken({.weight = 3}) == as_it_was);
  });
}

TEST_CASE("a gradient of another length is refused, and one of a rank without data is made") {
  thread_group(2).run([](thread_communicator& comm) {
    parts p(collective{comm}, layout::in_place);
    p.net.layer[0].grad = {1, 2};
    CHECK_THROWS_AS(p.taken({.weight = 3}), usage_error);
    p.net.layer[0].grad.clear();
    p.taken({.weight = 0});
    CHECK(p.net.layer[0].grad.size() == 3);
  });
}
