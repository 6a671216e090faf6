// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// The reducer alone: launch, poll, finish, without a synchronizer before it.
#include "gradsync/sync/reducer.hpp"

#include <doctest/doctest.h>

#include <stdexcept>
#include <thread>
#include <vector>

#include "gradsync/comm/threads.hpp"
#include "gradsync/model/for_each_parameter.hpp"
#include "tests/sync/models.hpp"

using namespace gradsync;

namespace {

// What a synchronizer owns, for two layers in a bucket each.
struct parts {
  parts(thread_communicator& comm, progress how, float value)
      : net(test::make_layers({1000, 10})), parameters(parameters_of(net)), plan(make_plan(parameters, {.bucket_bytes = 0})),
        storage(plan, parameters, layout::in_place), reduce(collective(comm), plan, parameters, storage, how) {
    fill(value);
  }

  void fill(float value) {
    for (std::size_t i = 0; i < 2; ++i) {
      net.layer[i].grad.assign(net.layer[i].value.size(), value);
      storage.place(i, parameters[i].grad());
    }
  }

  test::layers net;
  series<parameter> parameters;
  bucket_plan plan;
  bucket_storage storage;
  reducer<thread_communicator> reduce;
};

}  // namespace

TEST_CASE("launched buckets come home with the mean and the sum of the weights, update after update") {
  for (progress how : {progress::at_marks, progress::thread})
    thread_group(3).run([&](thread_communicator& comm) {
      parts p(comm, how, 0);
      CHECK(p.reduce.how() == how);
      CHECK(p.reduce.scales(0));
      for (int step = 0; step < 20; ++step) {
        p.fill(static_cast<float>(comm.rank() + step));
        p.reduce.begin(step);
        CHECK(p.reduce.completed() == 0);
        p.reduce.launch(2, 2);
        p.reduce.poll();
        p.reduce.launch(2, 2);
        CHECK(p.reduce.launched() == 2);
        p.reduce.finish();
        CHECK(p.reduce.total_weight() == 6);
        CHECK(p.reduce.completed() == 2);
        CHECK(p.net.layer[0].grad == std::vector<float>(1000, static_cast<float>(1 + step)));
        CHECK(p.net.layer[1].grad == std::vector<float>(10, static_cast<float>(1 + step)));
      }
    });
}

TEST_CASE("one rank divides by itself, or leaves what is a mean already") {
  thread_group(1).run([](thread_communicator& comm) {
    parts p(comm, progress::automatic, 6);
    CHECK(p.reduce.how() == progress::at_marks);  // there is nothing to drive
    CHECK_FALSE(p.reduce.scales(0));
    p.reduce.begin(0);
    p.reduce.launch(1, 4);
    p.reduce.skip(4);
    p.reduce.finish();
    CHECK(p.reduce.total_weight() == 4);
    CHECK(p.net.layer[1].grad == std::vector<float>(10, 1.5f));
    CHECK(p.net.layer[0].grad == std::vector<float>(1000, 6.0f));
  });
}

TEST_CASE("an error names rank, step, bucket and parameter, at a poll as in finish()") {
  for (progress how : {progress::at_marks, progress::thread})
    CHECK_THROWS_WITH_AS(thread_group(2).run([&](thread_communicator& comm) {
      parts p(comm, how, 1);
      if (comm.rank() == 1) throw std::logic_error("no more");
      p.reduce.begin(17);
      p.reduce.launch(1, 1);
      const std::string text = "gradsync[rank 0] step 17 bucket 0 \"layer[1]\": rank 1 failed: no more";
      CHECK_THROWS_WITH_AS(
          [&] {
            while (true) p.reduce.poll();
          }(),
          text.c_str(), transport_error);
      p.reduce.launch(1, 1);
      CHECK_THROWS_WITH_AS(p.reduce.finish(), text.c_str(), transport_error);
    }),
                         "no more", std::logic_error);
}

TEST_CASE("destroyed with a bucket on its way, it tells the others") {
  for (progress how : {progress::at_marks, progress::thread})
    CHECK_THROWS_WITH_AS(thread_group(2).run([&](thread_communicator& comm) {
      parts p(comm, how, 1);
      p.reduce.begin(3);
      p.reduce.launch(1, 1);
      if (comm.rank() == 1) return;
      p.reduce.launch(1, 1);
      CHECK_THROWS_WITH_AS(p.reduce.finish(), doctest::Contains("rank 1 failed"), transport_error);
    }),
                         doctest::Contains("step 3"), transport_error);
}
