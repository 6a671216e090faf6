// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/comm/thread_communicator.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "gradsync/collective/collective.hpp"
#include "gradsync/collective/ring.hpp"
#include "gradsync/comm/threads.hpp"
#include "gradsync/synchronizer.hpp"
#include "tests/laws/transport_laws.hpp"

using namespace gradsync;
using namespace std::chrono_literals;

namespace {

// `size` ranks that are a part of a larger group, in reverse order, beside another part.
const auto run_part = [](int size, auto body) {
  thread_group(size + 2).run([&](auto& comm) {
    auto part = comm.split(comm.rank() < 2 ? 1 : 0, -comm.rank());
    if (comm.rank() >= 2) body(part);
    else CHECK(part.all_reduce(1) == 2);
  });
};

// The same with the numbers of the whole group, so that messages read as there.
const auto run_first_ranks = [](int size, auto body) {
  thread_group(size + 1).run([&](auto& comm) {
    auto part = comm.split(comm.rank() < size ? -7 : 3);
    if (comm.rank() < size) body(part);
  });
};

std::atomic<int> minutes_passed{0};
std::chrono::steady_clock::time_point test_clock() {
  return std::chrono::steady_clock::time_point{} + std::chrono::minutes(minutes_passed.load());
}

struct param {
  std::vector<float> value, grad;
};
struct model {
  param weight, bias;
};

// One update, in which each rank's gradients are its number in the whole group. What the mean came to.
template <class Comm>
float mean_of_ranks(Comm& comm, const collective<Comm>& sum, int rank) {
  model net{{std::vector<float>(300, static_cast<float>(rank)), {}}, {std::vector<float>(2), {}}};
  synchronizer sync{net, sum, {.bucket_bytes = 0}};
  net.weight.grad.assign(300, static_cast<float>(rank));
  net.bias.grad.assign(2, static_cast<float>(rank));
  sync.mark_ready(net.bias);
  sync.mark_ready(net.weight);
  CHECK(sync.finish().weight == comm.size());
  CHECK(net.weight.grad[299] == net.bias.grad[0]);
  CHECK(comm.broadcast(net.weight.value[0]) == net.weight.value[0]);  // rank 0's of this part
  return net.bias.grad[0];
}

// What `body(comm)` is told of a failure on each rank.
template <class Body>
std::vector<std::string> told(int size, Body&& body) {
  std::vector<std::string> messages(static_cast<std::size_t>(size));
  CHECK_THROWS(thread_group(size, {.deadline = 1min, .clock = test_clock}).run([&](auto& comm) {
    try {
      body(comm);
    } catch (const std::exception& e) {
      messages[static_cast<std::size_t>(comm.rank())] = e.what();
      throw;
    }
  }));
  return messages;
}

}  // namespace

TEST_CASE("a part of a group obeys the laws of a transport") {
  laws::communicator_laws(run_part, 4);
  laws::channel_laws(run_part);
  laws::mean_laws(run_part, {1, 2, 3});
}

TEST_CASE("a part of a group obeys the laws of failure") { laws::failure_laws(run_first_ranks); }

TEST_CASE("ranks of one color are a group, ordered by key, then by rank") {
  thread_group(6).run([](auto& comm) {
    const int rank = comm.rank();
    auto row = comm.split(rank / 3), column = comm.split(rank % 3), reversed = comm.split(5, -rank), folded = comm.split(0, rank / 2 % 2);
    CHECK((row.size() == 3 && row.rank() == rank % 3));
    CHECK((column.size() == 2 && column.rank() == rank / 3));
    CHECK((reversed.size() == 6 && reversed.rank() == 5 - rank));
    const int expected[] = {0, 1, 4, 5, 2, 3};
    CHECK(folded.rank() == expected[rank]);
    CHECK(row.all_reduce(rank) == (rank < 3 ? 3 : 12));
    CHECK(column.all_reduce(rank) == 2 * (rank % 3) + 3);
    CHECK(reversed.broadcast(rank) == 5);
    CHECK(comm.all_reduce(1) == 6);
    CHECK(row.place_of(row.rank()).whole == (rank < 3 ? -1 : rank));

    auto alone = comm.split(rank);
    CHECK((alone.size() == 1 && alone.rank() == 0));
    CHECK(alone.all_reduce(rank) == rank);
    alone.barrier();
    CHECK(alone.split(9).broadcast(rank) == rank);

    auto part_of_row = row.split(row.rank() == 0 ? 0 : 1, -row.rank());
    CHECK(part_of_row.size() == (row.rank() == 0 ? 1 : 2));
    CHECK(part_of_row.rank() == (row.rank() == 1 ? 1 : 0));
    CHECK(part_of_row.place_of(0).whole == (row.rank() > 0 ? 2 + rank / 3 * 3 : rank == 3 ? 3 : -1));
  });
}

TEST_CASE("colors and keys are any integers") {
  thread_group(4).run([](auto& comm) {
    constexpr int colors[] = {std::numeric_limits<int>::min(), std::numeric_limits<int>::max(), -1, std::numeric_limits<int>::min()};
    constexpr int keys[] = {std::numeric_limits<int>::max(), 0, 0, std::numeric_limits<int>::min()};
    auto part = comm.split(colors[comm.rank()], keys[comm.rank()]);
    CHECK(part.size() == (comm.rank() % 3 == 0 ? 2 : 1));
    CHECK(part.rank() == (comm.rank() == 0 ? 1 : 0));
  });
}

TEST_CASE("a synchronizer in each row gives the row's mean, also with a strategy, and columns have theirs") {
  for (int repeat = 0; repeat < 5; ++repeat)
    thread_group(6).run([](auto& comm) {
      auto row = comm.split(comm.rank() / 3), column = comm.split(comm.rank() % 3);
      CHECK(mean_of_ranks(row, collective{row}, comm.rank()) == (comm.rank() < 3 ? 1 : 4));
      CHECK(mean_of_ranks(row, collective{row, ring{}}, comm.rank()) == (comm.rank() < 3 ? 1 : 4));
      CHECK(mean_of_ranks(column, collective{column, ring{}}, comm.rank()) == static_cast<float>(comm.rank() % 3) + 1.5f);
      CHECK(mean_of_ranks(comm, collective{comm}, comm.rank()) == 2.5f);
    });
}

TEST_CASE("a part may be moved, and given up, and made again") {
  thread_group(4).run([](auto& comm) {
    std::vector<thread_communicator> parts;
    for (int color = 1; color < 4; ++color) parts.push_back(comm.split(comm.rank() % color));
    CHECK(parts[1].all_reduce(1) == 2);
    parts.erase(parts.begin());
    CHECK(parts[1].all_reduce(comm.rank()) == (comm.rank() % 3 == 0 ? 3 : comm.rank()));
    for (int i = 0; i < 50; ++i) CHECK(comm.split(comm.rank() % 2).all_reduce(1) == 2);
  });
}

TEST_CASE("what ranks share is theirs alone once all have it: nothing of it stays with the group") {
  detail::meeting_point<int> point;
  const auto make = [] { return std::make_shared<int>(7); };
  const std::weak_ptr<int> other = point.meet(1, 0, 2, make), color = point.meet(0, 1, 1, make);
  CHECK((!other.expired() && color.expired()));
  auto first = point.meet(0, 0, 3, make), second = point.meet(0, 0, 3, make);
  CHECK(first == second);
  CHECK(first.use_count() == 3);
  auto third = point.meet(0, 0, 3, make);
  CHECK((first == third && first.use_count() == 3));
  CHECK(point.meet(0, 0, 1, make) != first);
}

TEST_CASE("whoever fails in one part ends the waits of all parts, with one cause and unambiguous numbers") {
  const auto messages = told(6, [](auto& comm) {
    auto row = comm.split(comm.rank() / 3);
    if (comm.rank() == 4) throw std::runtime_error("disk full");
    for (;;) row.barrier();  // rows 0 and 1 never meet
  });
  CHECK(messages == std::vector<std::string>{
                        "gradsync[rank 0]: rank 4 of the whole group failed: disk full",
                        "gradsync[rank 1]: rank 4 of the whole group failed: disk full",
                        "gradsync[rank 2]: rank 4 of the whole group failed: disk full",
                        "gradsync[rank 0 (rank 3 of the whole group)]: rank 1 (rank 4 of the whole group) failed: disk full", "disk full",
                        "gradsync[rank 2 (rank 5 of the whole group)]: rank 1 (rank 4 of the whole group) failed: disk full"});
}

TEST_CASE("a rank that returns is missed by its part") {
  const auto messages = told(4, [](auto& comm) {
    auto part = comm.split(comm.rank() / 2);
    if (comm.rank() == 2) return;
    if (comm.rank() == 3) part.barrier();
    comm.barrier();
  });
  const std::string returned = " has returned from its function and takes no part any more";
  CHECK((messages[3].find("rank 0 (rank 2 of the whole group)" + returned) != std::string::npos ||
         messages[3].find("failed: gradsync[rank ") != std::string::npos));  // told by a rank that waits for it in the whole group
  for (int rank : {0, 1}) CHECK(messages[static_cast<std::size_t>(rank)].find("rank 2") != std::string::npos);
}

TEST_CASE("the late rank is found in whatever part it is waited for") {
  const auto messages = told(4, [](auto& comm) {
    auto row = comm.split(comm.rank() / 2), column = comm.split(comm.rank() % 2);
    if (comm.rank() == 3) {
      while (!comm.others_wait()) std::this_thread::yield();
      ++minutes_passed;
      while (!comm.failed()) std::this_thread::yield();
    }
    if (comm.rank() == 1) column.barrier();  // waits for rank 3
    row.barrier();                           // rank 0 waits for rank 1, rank 2 for rank 3
    comm.barrier();                          // 2 and 3 may have met, and learn of it here
  });
  for (const auto& message : messages) {
    CHECK_MESSAGE(message.find("rank 3") != std::string::npos, message);
    CHECK_MESSAGE(message.find("did not come before the deadline of 60 s") != std::string::npos, message);
  }
}

TEST_CASE("an error of a synchronizer in a part says both numbers") {
  const auto unlike = told(4, [](auto& comm) {
    auto part = comm.split(comm.rank() / 2);
    model net{{std::vector<float>(3), {}}, {std::vector<float>(comm.rank() == 3 ? 4u : 2u), {}}};
    if (comm.rank() >= 2) synchronizer sync{net, part};
    comm.barrier();
  });
  const std::string differs = "gradsync[rank 1 (rank 3 of the whole group)] \"bias\": has 4 elements of float32, rank 0 has 2 elements";
  for (const auto& message : unlike) CHECK_MESSAGE(message.find(differs) != std::string::npos, message);
  for (std::size_t rank : {2u, 3u}) CHECK(unlike[rank].find(differs) == 0);

  const auto wrong = told(4, [](auto& comm) {
    auto part = comm.split(comm.rank() / 2);
    model net{{std::vector<float>(3), {}}, {std::vector<float>(2), {}}};
    synchronizer sync{net, part};
    if (comm.rank() == 3) sync.finish();
    comm.barrier();
  });
  CHECK(wrong[3] == "gradsync[rank 1 (rank 3 of the whole group)] step 0: finish() without a micro-step: begin() or mark a gradient first");
}

TEST_CASE("ranks that call split while another calls something else are told so") {
  for (int odd = 0; odd < 3; ++odd) {
    std::atomic<int> seen{0};
    CHECK_THROWS_AS(thread_group(3).run([&](auto& comm) {
      std::vector<int> six(6);
      try {
        if (comm.rank() == odd) comm.all_reduce(std::span<int>(six));
        else comm.split(0);
      } catch (const mismatch_error& e) {
        const std::string message = e.what();
        if (message.find("rank " + std::to_string(odd)) != message.npos && message.find("split") != message.npos) ++seen;
        throw;
      }
    }),
                    mismatch_error);
    CHECK(seen == 3);
    CHECK_THROWS_WITH_AS(thread_group(2).run([&](auto& comm) { comm.rank() == 0 ? comm.barrier() : void(comm.split(0)); }),
                         doctest::Contains("barrier"), mismatch_error);
  }
}

TEST_CASE("a communicator knows its group's clock, and says whether the group has failed and who sleeps") {
  CHECK_THROWS_AS(thread_group(2).run([](auto& comm) {
    CHECK_FALSE(comm.failed());
    comm.check();
    const auto before = comm.now();
    CHECK(std::chrono::steady_clock::now() >= before);
    comm.barrier();
    if (comm.rank() == 1) {
      while (!comm.others_wait()) std::this_thread::yield();
      throw std::runtime_error("disk full");
    }
    CHECK_THROWS_AS(comm.barrier(), transport_error);
    CHECK(comm.failed());
    CHECK_THROWS_WITH_AS(comm.check(), "gradsync[rank 0]: rank 1 failed: disk full", transport_error);
  }),
                  std::runtime_error);
}
