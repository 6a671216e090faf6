// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// MPI that promises less about threads than MPI_THREAD_MULTIPLE, as one has that a user's program has initialised so: messages are driven
// by the rank's own thread, at marks and in finish(), with the same bits.
#include <doctest/doctest.h>

#include <cstdlib>
#include <string>

#include "gradsync/comm/faulty.hpp"
#include "gradsync/comm/threads.hpp"
#include "gradsync/synchronizer.hpp"
#include "tests/mpi/processes.hpp"
#include "tests/sync/models.hpp"

using namespace gradsync;
using laws::processes;

namespace {

template <class Comm>
concept says_who_drives = requires(const Comm& comm) {
  comm.allows_driver_thread();
};
static_assert(says_who_drives<mpi_communicator> && says_who_drives<faulty<mpi_communicator>>);
static_assert(!says_who_drives<faulty<thread_communicator>>);

// Before main(), whose mpi_group finds MPI initialised. Ranks may differ in what they ask for.
struct initialised {
  initialised() {
    const char *open_mpi = std::getenv("OMPI_COMM_WORLD_RANK"), *mpich = std::getenv("PMI_RANK");
    const char* rank = open_mpi != nullptr ? open_mpi : mpich != nullptr ? mpich : "0";
    asked = std::atoi(rank) % 2 == 0 ? MPI_THREAD_FUNNELED : MPI_THREAD_SERIALIZED;
    MPI_Init_thread(nullptr, nullptr, asked, &given);
  }
  ~initialised() { MPI_Finalize(); }
  int asked = 0, given = 0;
} const mpi;

template <class Comm>
std::vector<float> trained(Comm& comm, std::size_t& early, bool process) {
  test::layers net = test::make_layers({40'000, 5, 3'000, 3'000, 3'000, 3'000});
  synchronizer sync{net, comm, {.bucket_bytes = 10'000}};
  for (int update = 0; update < 4; ++update) {
    for (std::size_t i = net.layer.size(); i-- > 0;) {
      net.layer[i].grad = test::random_floats(static_cast<std::uint64_t>(100 * update + 10 * comm.rank()) + i, net.layer[i].value.size());
      sync.mark_ready(net.layer[i]);
      if (process && i > 0) comm.barrier();  // all others have marked it too
    }
    early += sync.completed_buckets();
    sync.finish();
    for (test::param& p : net.layer)
      for (std::size_t i = 0; i < p.value.size(); ++i) p.value[i] -= p.grad[i];
  }
  return net.layer[0].value;
}

}  // namespace

TEST_CASE("what is in use is visible, and a driving thread is refused") {
  REQUIRE(mpi.given < MPI_THREAD_MULTIPLE);
  const std::string size = std::to_string(processes().size());
  CHECK(processes().describe() == "MPI with " + size + " ranks; one thread communicates, when it marks or waits");
  processes().run([](auto& comm) {
    CHECK_FALSE(comm.allows_driver_thread());
    test::layers net = test::make_layers({10});
    synchronizer sync{net, comm};
    CHECK(sync.progress() == progress::at_marks);
  });
  const auto asks = [](auto& comm) {
    test::layers net = test::make_layers({10});
    synchronizer sync{net, comm, {.progress = progress::thread}};
  };
  CHECK_THROWS_WITH(processes().run(asks),
                    doctest::Contains("progress::thread is not to be had here: only the rank's own thread"));  // told, or own
}

TEST_CASE("marks alone bring buckets home, with the bits of threads") {
  std::vector<float> by_processes, by_threads;
  std::size_t early = 0;
  processes().run([&](auto& comm) { by_processes = trained(comm, early, true); });
  CHECK(early > 0);  // done before finish()
  thread_group(processes().size()).run([&](auto& comm) {
    std::size_t none = 0;
    const auto values = trained(comm, none, false);
    if (comm.rank() == 0) by_threads = values;
  });
  CHECK(laws::same_bits(by_processes, by_threads));
}

TEST_CASE("such processes obey the laws of failure") {
  const auto body = [](auto& comm) {
    comm.barrier();
    if (comm.rank() == 1) throw std::domain_error("the batch is not a number");
    for (;;) comm.barrier();
  };
  CHECK_THROWS_AS(laws::over_processes(processes().size(), body), std::domain_error);
}
