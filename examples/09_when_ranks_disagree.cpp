// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

// What happens when one rank differs, throws, or comes late?
//
//     bazel run //examples:09_when_ranks_disagree
//
// Every rank ends with an exception that names the one to look at, within the deadline; run() throws the first. The values of the model are
// as they were before the update that failed: start a new group and go on from there. The last part splits the group: its parts work apart,
// but live and die together. To try such things on your own program, see include/gradsync/comm/faulty.hpp.

#include <chrono>
#include <iostream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "gradsync/gradsync.hpp"

using communicator = gradsync::thread_communicator;

struct param {
  std::vector<float> value, grad;
};
struct model {
  param weight, bias;
};

model make_model(std::size_t width) { return {{std::vector<float>(width), std::vector<float>(width)}, {{0}, {0}}}; }

// Runs four ranks and prints what each of them was told, and what run() threw.
void drill(const char* title, void (*rank)(communicator& comm)) {
  std::vector<std::string> told(4, "nothing");
  std::cout << title << '\n';
  try {
    gradsync::thread_group{4, {.deadline = std::chrono::seconds(2)}}.run([&](communicator& comm) {
      try {
        rank(comm);
      } catch (const std::exception& e) {
        told[static_cast<std::size_t>(comm.rank())] = e.what();
        throw;  // an exception that stays in the function is not quoted to the others
      }
    });
  } catch (const gradsync::timeout_error& e) {
    std::cout << "  run() threw a timeout_error: " << e.what() << '\n';
  } catch (const gradsync::mismatch_error& e) {
    std::cout << "  run() threw a mismatch_error: " << e.what() << '\n';
  } catch (const std::exception& e) {
    std::cout << "  run() threw: " << e.what() << '\n';
  }
  for (std::size_t r = 0; r < 4; ++r) std::cout << "  rank " << r << " was told: " << told[r] << '\n';
}

int main() {
  drill("Rank 2 has another model:", [](communicator& comm) {
    model net = make_model(comm.rank() == 2 ? 5 : 4);
    gradsync::synchronizer sync{net, comm};
  });
  drill("Rank 2 throws in the middle of its update:", [](communicator& comm) {
    model net = make_model(4);
    gradsync::synchronizer sync{net, comm};
    sync.mark_ready(net.bias);
    if (comm.rank() == 2) throw std::runtime_error("disk full");
    sync.mark_ready(net.weight);
    sync.finish();
  });
  drill("Rank 2 is later than the deadline:", [](communicator& comm) {
    comm.barrier();
    while (comm.rank() == 2 && !comm.failed()) std::this_thread::yield();
    comm.barrier();
  });
  drill("Two groups of two, and the second one's second rank throws:", [](communicator& comm) {
    auto part = comm.split(comm.rank() / 2);
    if (comm.rank() == 3) throw std::runtime_error("out of memory");
    for (;;) part.barrier();
  });
}

// Next: 10_doors shows how models of other kinds get in.
