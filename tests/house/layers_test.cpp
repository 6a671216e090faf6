// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>

#include "tests/house/text.hpp"

namespace {

namespace fs = std::filesystem;

// What a room may include besides itself. bazel/rooms.bzl gives the build targets the same dependencies.
const std::map<std::string, std::set<std::string>> below = {
    {"core", {}},
    {"model", {"core"}},
    {"data", {"core"}},
    {"trace", {"core"}},
    {"cuda", {"core"}},
    {"bucket", {"core", "model"}},
    {"comm", {"core", "cuda"}},  // cuda_peer and nccl; the umbrella, which reaches the others, reaches nothing of cuda
    {"collective", {"core", "comm", "trace"}},
    {"sync", {"core", "model", "bucket", "comm", "collective", "trace"}},
    {"optim", {"core", "model", "bucket", "collective"}},
    {"guard", {"core", "model", "bucket", "comm", "collective", "trace"}},
    {"adapt", {"core", "model", "bucket", ""}},  // above the front door
};

// What a room may take from the operating system: which processors it may run on, the waits between ranks, and where processes meet.
const std::map<std::string, std::set<std::string>> system_headers = {
    {"core", {"sched.h", "sys/mman.h"}},
    {"comm",
     {"fcntl.h", "ifaddrs.h", "linux/futex.h", "net/if.h", "netdb.h", "netinet/in.h", "poll.h", "sys/mman.h", "sys/socket.h",
      "sys/syscall.h", "unistd.h"}},
};

// Headers that need a library of somebody else, and how what they include of it begins. A name that ends in / stands for a whole room, one
// that ends in * for all that begin with it.
const std::map<std::string, std::set<std::string>> third_parties = {
    {"gradsync/comm/cuda_peer*", {"cuda"}},
    {"gradsync/comm/nccl*", {"cuda", "nccl.h"}},
    {"gradsync/cuda/", {"cuda", "device_launch_parameters.h", "vector_types.h", "tests/cuda_standin/"}},
    {"gradsync/adapt/thrust.hpp", {"thrust/"}},
    {"gradsync/adapt/torch.hpp", {"torch/"}},
    {"gradsync/adapt/torch_parameters.hpp", {"torch/"}},
    {"gradsync/comm/mpi*", {"mpi.h"}},
};

// Transports between processes: who uses one includes it, and every other file is spared the time that it takes to compile.
const std::set<std::string> between_processes = {"gradsync/comm/message_communicator.hpp", "gradsync/comm/message_world.hpp",
                                                 "gradsync/comm/processes.hpp"};

// Reads files, which few users' files do.
const std::set<std::string> by_request = {"gradsync/collective/tuning.hpp"};

// They cost each user's file up to a second, or bring what a library has no business to bring.
const std::set<std::string> too_heavy = {"ranges", "variant", "functional", "iostream", "regex", "format"};

struct source {
  fs::path path;
  std::vector<std::string> lines;

  std::string name() const { return path.generic_string(); }
};

std::vector<source> sources_in(const fs::path& folder) {
  std::vector<source> found;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (const auto kind = entry.path().extension(); kind == ".hpp" || kind == ".cpp" || kind == ".cu")
      found.push_back({entry.path(), house::lines_of(house::text_of(entry.path()))});
  return found;
}

const std::vector<source>& headers() {
  static const auto found = sources_in("include/gradsync");
  return found;
}

// Room of a header as an include names it: "gradsync/core/error.hpp" is in "core", and the umbrella in "".
std::string room_of(const std::string& include) {
  const fs::path path{include};
  return path.parent_path() == "gradsync" ? "" : path.parent_path().filename().string();
}

std::string as_included(const source& header) { return header.path.lexically_relative("include").generic_string(); }

// The names between quotes, or between angle brackets.
std::vector<std::string> includes_of(const source& file, char open, char close) {
  std::vector<std::string> names;
  for (const auto& line : file.lines) {
    if (!line.starts_with("#include")) continue;
    const std::size_t begin = line.find(open), end = line.find(close, begin + 1);
    if (begin != std::string::npos && end != std::string::npos) names.push_back(line.substr(begin + 1, end - begin - 1));
  }
  return names;
}

// What a header may include of somebody else's: nullptr if it is one of those that need the standard library alone.
const std::set<std::string>* third_party_of(const std::string& include) {
  if (const auto own = third_parties.find(include); own != third_parties.end()) return &own->second;
  for (const auto& [name, allowed] : third_parties)
    if (name.ends_with('*') && include.starts_with(name.substr(0, name.size() - 1))) return &allowed;
  const auto room = third_parties.find(include.substr(0, include.rfind('/') + 1));
  return room == third_parties.end() ? nullptr : &room->second;
}

// These headers, and all that they include of the library.
std::set<std::string> reached_from(const std::set<std::string>& begin) {
  std::set<std::string> reached;
  std::vector<std::string> left(begin.begin(), begin.end());
  while (!left.empty()) {
    const std::string name = left.back();
    left.pop_back();
    if (!reached.insert(name).second) continue;
    for (const auto& header : headers())
      if (as_included(header) == name)
        for (const auto& include : includes_of(header, '"', '"')) left.push_back(include);
  }
  return reached;
}

}  // namespace

TEST_CASE("a header includes only its own room and the rooms below it") {
  REQUIRE_FALSE(headers().empty());
  for (const auto& header : headers()) {
    const std::string room = room_of(as_included(header));
    CHECK_MESSAGE((room.empty() || below.contains(room)), header.name() << " stands in a room that the table does not know");
    for (const auto& include : includes_of(header, '"', '"')) {
      CHECK_MESSAGE(include.starts_with("gradsync/"), header.name() << " includes \"" << include << "\" without its full name");
      CHECK_MESSAGE(fs::exists("include/" + include), header.name() << " includes \"" << include << "\", which does not exist");
      if (room.empty() || !below.contains(room)) continue;
      const std::string other = room_of(include);
      CHECK_MESSAGE((other == room || below.at(room).contains(other)), header.name() << " may not include \"" << include << "\"");
    }
  }
}

TEST_CASE("headers take from outside only the light part of the standard library") {
  for (const auto& header : headers())
    for (const auto& include : includes_of(header, '<', '>')) {
      const auto system = system_headers.find(room_of(as_included(header)));
      const bool standard = include.find_first_of("/.") == std::string::npos;
      const auto* prefixes = third_party_of(as_included(header));
      const auto begins = [&](const std::string& prefix) { return include.starts_with(prefix); };
      const bool third_party = prefixes != nullptr && std::any_of(prefixes->begin(), prefixes->end(), begins);
      const bool allowed = standard || (system != system_headers.end() && system->second.contains(include)) || third_party;
      CHECK_MESSAGE(allowed, header.name() << " includes <" << include << ">, which is not C++'s own");
      CHECK_MESSAGE(!too_heavy.contains(include), header.name() << " includes <" << include << ">, which is too heavy");
    }
}

TEST_CASE("the umbrella reaches every header that needs the standard library alone, but those asked for, and no other") {
  const auto umbrella = reached_from({"gradsync/gradsync.hpp"});
  const auto by_processes = reached_from(between_processes);
  for (const auto& header : headers()) {
    const std::string name = as_included(header);
    const bool needs_more = third_party_of(name) != nullptr, found = umbrella.contains(name);
    CHECK_MESSAGE((found || needs_more || by_processes.contains(name) || by_request.contains(name)), header.name()
                                                                                                         << " is not in the umbrella");
    CHECK_MESSAGE(!(found && needs_more), header.name() << " is in the umbrella, and with it the library that it needs");
    CHECK_MESSAGE(!(found && (between_processes.contains(name) || by_request.contains(name))),
                  header.name() << " is in the umbrella, and each file compiles it");
  }
}

TEST_CASE("every header is the first that some test includes, so it has all that it needs") {
  std::set<std::string> first;
  for (const auto& test : sources_in("tests"))
    if (const auto names = includes_of(test, '"', '"'); !names.empty())
      for (const auto& line : test.lines)
        if (line.starts_with("#include")) {
          if (line == "#include \"" + names.front() + '"') first.insert(names.front());
          break;
        }
  for (const auto& header : headers())
    if (third_party_of(as_included(header)) == nullptr)
      CHECK_MESSAGE(first.contains(as_included(header)), header.name() << " is not included first by any test");
}

TEST_CASE("a header opens with its licence and a page that teaches, guards itself and defines no macro") {
  for (const auto& header : headers()) {
    const auto& lines = header.lines;
    REQUIRE_MESSAGE(lines.size() > 4, header.name() << " is all but empty");
    CHECK_MESSAGE(lines[2].empty(), header.name() << ":3: an empty line parts licence and page");
    CHECK_MESSAGE(lines[3].starts_with("///"), header.name() << ":4: the page at its head is missing");
    std::size_t after = 3;
    while (after < lines.size() && lines[after].starts_with("///")) ++after;
    const bool guarded = after < lines.size() && lines[after] == "#pragma once";
    CHECK_MESSAGE(guarded, header.name() << ":" << after + 1 << ": #pragma once follows the page");
    for (const auto& line : lines) CHECK_MESSAGE(!line.starts_with("#define"), header.name() << " defines a macro: " << line);
  }
}

TEST_CASE("no header is longer than 300 lines") {
  for (const auto& header : headers())
    CHECK_MESSAGE(header.lines.size() <= 300, header.name() << " has " << header.lines.size() << " lines: split it where a reader would");
}

TEST_CASE("a numbered example is at most 80 lines long") {
  for (const auto& example : sources_in("examples"))
    if (const char first = example.path.filename().string()[0]; first >= '0' && first <= '9')
      CHECK_MESSAGE(example.lines.size() <= 80, example.name() << " has " << example.lines.size() << " lines");
}

TEST_CASE("every source states its licence, and no line is wider than 140 columns") {
  for (const char* folder : {"include", "examples", "tests"})
    for (const auto& file : sources_in(folder)) {
      // A program that must not compile begins with the sentence it is refused with.
      const std::size_t first = file.path.parent_path().filename() == "refused" ? 1 : 0;
      REQUIRE_MESSAGE(file.lines.size() > first + 1, file.name() << " is all but empty");
      CHECK_MESSAGE(file.lines[first] == "// SPDX-FileCopyrightText: 2026 The gradsync authors", file.name() << ":" << first + 1);
      CHECK_MESSAGE(file.lines[first + 1] == "// SPDX-License-Identifier: Apache-2.0", file.name() << ":" << first + 2);
      for (std::size_t i = 0; i < file.lines.size(); ++i)
        CHECK_MESSAGE(house::columns_of(file.lines[i]) <= 140, file.name() << ":" << i + 1 << " is wider than that");
    }
}
