// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// One rank differs from the others: in its model, its options, its strategy, or in what it calls. Whichever rank it is, every rank ends
// with a mismatch_error that names it, and so does run().
#include <doctest/doctest.h>

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "gradsync/collective/collective.hpp"
#include "gradsync/collective/ring.hpp"
#include "gradsync/collective/tree.hpp"
#include "gradsync/comm/threads.hpp"
#include "gradsync/synchronizer.hpp"
#include "tests/sync/models.hpp"

using namespace gradsync;

namespace {

using communicator = thread_communicator;

struct wide_param {
  std::vector<double> value, grad;
};
struct model {
  test::param weight, bias;
};
struct swapped {
  test::param bias, weight;
};
struct wide {
  test::param weight;
  wide_param bias;
};
struct longer {
  test::param weight, bias, more;
};

test::param param_of(std::size_t n) { return {std::vector<float>(n), {}}; }

// Makes a synchronizer, which no rank may come through.
template <class Model>
void make(Model net, const collective<communicator>& sum, const synchronizer_options& options = {}) {
  synchronizer sync{net, sum, options};
  CHECK_MESSAGE(false, "rank ", sum.communicator().rank(), " was not told");
}
model usual() { return {param_of(20), param_of(3)}; }

struct difference {
  const char* name;
  void (*usual)(communicator&);
  void (*odd)(communicator&);
};

const difference differences[] = {
    {"length", [](communicator& c) { make(usual(), collective{c}); },
     [](communicator& c) {
       make(model{param_of(20), param_of(4)}, collective{c});
     }},
    {"type", [](communicator& c) { make(usual(), collective{c}); },
     [](communicator& c) {
       make(wide{param_of(20), {std::vector<double>(3), {}}}, collective{c});
     }},
    {"order of parameters", [](communicator& c) { make(usual(), collective{c}); },
     [](communicator& c) {
       make(swapped{param_of(3), param_of(20)}, collective{c});
     }},
    {"number of parameters", [](communicator& c) { make(usual(), collective{c}); },
     [](communicator& c) {
       make(longer{param_of(20), param_of(3), param_of(1)}, collective{c});
     }},
    {"strategy", [](communicator& c) { make(usual(), collective{c}); },
     [](communicator& c) {
       make(usual(), collective{c, ring{}});
     }},
    {"parameters of a strategy",
     [](communicator& c) {
       make(usual(), collective{c, tree{.segments = 4}});
     },
     [](communicator& c) {
       make(usual(), collective{c, tree{.segments = 2}});
     }},
    {"bucket size", [](communicator& c) { make(usual(), collective{c}); },
     [](communicator& c) { make(usual(), collective{c}, {.bucket_bytes = 100}); }},
    {"size of the first bucket", [](communicator& c) { make(usual(), collective{c}); },
     [](communicator& c) { make(usual(), collective{c}, {.first_bucket_bytes = 100}); }},
    {"layout", [](communicator& c) { make(usual(), collective{c}); },
     [](communicator& c) { make(usual(), collective{c}, {.layout = layout::packed}); }},
    {"accumulation", [](communicator& c) { make(usual(), collective{c}); },
     [](communicator& c) { make(usual(), collective{c}, {.accumulation = accumulation_mode::plain}); }},
    {"barrier in place of all_reduce", [](communicator& c) { c.all_reduce(1); }, [](communicator& c) { c.barrier(); }},
    {"broadcast in place of all_reduce", [](communicator& c) { c.all_reduce(1); }, [](communicator& c) { c.broadcast(1); }},
    {"split in place of barrier", [](communicator& c) { c.barrier(); }, [](communicator& c) { c.split(0); }},
    {"minimum in place of sum", [](communicator& c) { c.all_reduce(1); }, [](communicator& c) { c.all_reduce(1, reduce_op::min); }},
    {"root of a broadcast", [](communicator& c) { c.broadcast(1, 0); }, [](communicator& c) { c.broadcast(1, 2); }},
    {"length of own values", [](communicator& c) { c.all_reduce(1); },
     [](communicator& c) {
       int two[2] = {};
       c.all_reduce(std::span<int>(two));
     }},
    {"type of own values", [](communicator& c) { c.all_reduce(1); }, [](communicator& c) { c.all_reduce(1.0f); }},
    {"barrier in place of a synchronizer", [](communicator& c) { make(usual(), collective{c}); }, [](communicator& c) { c.barrier(); }},
    {"all_reduce in place of a synchronizer", [](communicator& c) { make(usual(), collective{c}); },
     [](communicator& c) { c.all_reduce(std::uint64_t{1}); }},
};

std::atomic<std::int64_t> minutes_passed{0};
std::chrono::steady_clock::time_point still_clock() {
  return std::chrono::steady_clock::time_point{} + std::chrono::minutes(minutes_passed.load());
}

}  // namespace

TEST_CASE("one rank differs, and a mismatch_error on every rank names it") {
  for (const difference& d : differences)
    for (int size : {2, 3, 5})
      for (int odd = 0; odd < size; ++odd) {
        INFO(d.name << ", rank " << odd << " of " << size);
        if (d.name == std::string("root of a broadcast") && size < 3) continue;
        std::vector<std::string> messages(static_cast<std::size_t>(size));
        CHECK_THROWS_AS(thread_group(size).run([&](communicator& comm) {
          try {
            (comm.rank() == odd ? d.odd : d.usual)(comm);
          } catch (const mismatch_error& e) {
            messages[static_cast<std::size_t>(comm.rank())] = e.what();
            throw;
          }
        }),
                        mismatch_error);
        for (const std::string& message : messages) CHECK_MESSAGE(message.find("rank " + std::to_string(odd)) != message.npos, message);
      }
}

TEST_CASE("a rank that waits in another call than its peers is late, and the message says where it is") {
  for (int odd = 0; odd < 2; ++odd) {
    minutes_passed = 0;
    CHECK_THROWS_WITH_AS(thread_group(2, {.deadline = std::chrono::minutes(9), .clock = still_clock}).run([&](communicator& comm) {
      model net = usual();
      synchronizer sync{net, comm, {.progress = progress::at_marks}};
      net.weight.grad.resize(20);
      net.bias.grad.resize(3);
      std::thread clock;
      if (comm.rank() != odd)
        clock = std::thread([&] {
          while (!comm.failed()) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
            minutes_passed += 1;
          }
        });
      try {
        if (comm.rank() != odd) sync.mark_all_ready();
        comm.rank() == odd ? comm.barrier() : void(sync.finish());
      } catch (...) {
        if (clock.joinable()) clock.join();
        throw;
      }
    }),
                         doctest::Contains("did not come before the deadline of 540 s; it waits for this rank: make the same calls"),
                         timeout_error);
  }
}
