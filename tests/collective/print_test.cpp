// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0
#include "gradsync/collective/print.hpp"

#include <doctest/doctest.h>

#include <string>

#include "gradsync/collective/halving_doubling.hpp"
#include "gradsync/collective/native.hpp"
#include "gradsync/collective/recursive_doubling.hpp"
#include "gradsync/collective/ring.hpp"
#include "gradsync/collective/tree.hpp"

using namespace gradsync;

TEST_CASE("the table of the header's page is what is printed") {
  CHECK(print(halving_doubling{}, 2) ==
        "halving_doubling on 2 ranks: 2 chunks, 2 rounds, claims canonical\n"
        "round  from  to  chunks   what\n"
        "    0     1   0  0        add, divide\n"
        "    0     0   1  1        add, divide\n"
        "    1     1   0  1        copy\n"
        "    1     0   1  0        copy\n");
}

TEST_CASE("ranges of chunks are printed as ranges") {
  CHECK(print(halving_doubling{}, 3) ==
        "halving_doubling on 3 ranks: 2 chunks, 4 rounds, claims canonical\n"
        "round  from  to  chunks   what\n"
        "    0     1   0  0        add\n"
        "    0     0   1  1        add\n"
        "    1     2   0  0        add, divide\n"
        "    1     2   1  1        add, divide\n"
        "    2     0   2  0        copy\n"
        "    2     1   2  1        copy\n"
        "    3     1   0  1        copy\n"
        "    3     0   1  0        copy\n");
  CHECK(print(halving_doubling{}, 4).find("    0     1   0  0..1     add\n") != std::string::npos);
}

TEST_CASE("a join is one line for each rank that takes part") {
  CHECK(print(native{}, 2) ==
        "native on 2 ranks: 2 chunks, 2 rounds, claims canonical\n"
        "round  from  to  chunks   what\n"
        "    0     1   0  0        join, divide\n"
        "    0     0   1  1        join, divide\n"
        "    1     1   0  1        copy\n"
        "    1     0   1  0        copy\n");
}

TEST_CASE("a line says where a chunk lies in scratch, and which goes there; what ends there is copied home") {
  CHECK(print(recursive_doubling{}, 3) ==
        "recursive_doubling on 3 ranks: 1 chunk, 2 rounds and one to copy home, claims canonical\n"
        "round  from  to  chunks   what\n"
        "    0     1   0  0        add, into scratch\n"
        "    0     0   1  0        add, into scratch\n"
        "    1     2   0  0        add, divide\n"
        "    1     2   1  0        add, divide, into scratch\n"
        "    1     0   2  0        add from scratch, divide, into scratch\n"
        "    2     1   1  0        copy from scratch\n"
        "    2     2   2  0        copy from scratch\n");
  CHECK(print(recursive_doubling{}, 4).find(" on 4 ranks: 1 chunk, 2 rounds, claims canonical\n") != std::string::npos);
}

TEST_CASE("one rank has no rounds to print") {
  CHECK(print(ring{}, 1) == "ring on 1 rank: 1 chunk, 0 rounds, claims canonical\n");
  CHECK(print(tree{.segments = 3}, 1) == "tree on 1 rank: 3 chunks, 0 rounds, claims canonical\n");
}

TEST_CASE("numbers of three digits stay in their columns") {
  const std::string table = print(ring{}, 128);
  CHECK(table.find("\n  253   127   0  1        copy\n") != std::string::npos);
  CHECK(table.find("\n    0   126 127  125      add\n") != std::string::npos);
}
