// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

#include "examples/bench/contestants.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <stdexcept>
#include <utility>

namespace bench {
namespace {

std::string filled(std::string text, const std::vector<std::pair<std::string, std::string>>& words) {
  for (const auto& [word, value] : words)
    for (std::size_t at; (at = text.find(word)) != std::string::npos;) text.replace(at, word.size(), value);
  return text;
}

constexpr int patience_ms = 60'000;

}  // namespace

bool succeeds(const std::string& command) { return std::system(("( " + command + " ) > /dev/null 2>&1").c_str()) == 0; }

std::vector<contestant> contestants(const std::string& self) {
  const std::string compile = " -std=c++20 -O3 -march=native -I. -Iinclude -o {program} ";
  const std::string tuned = "MALLOC_MMAP_THRESHOLD_=4294967296 MALLOC_TRIM_THRESHOLD_=8589934592 ";
  const auto unless_newer = [](const std::string& source) { return "[ {program} -nt " + source + " ] || "; };
  const auto mpi = [&](const std::string& name, const std::string& which, const std::string& flags, const std::string& environment,
                       bool crowds) {
    return contestant{name, "command -v mpicxx." + which + " && command -v mpirun." + which,
                      unless_newer("examples/bench/peers/mpi.cpp") + "mpicxx." + which + compile + "examples/bench/peers/mpi.cpp",
                      environment + "exec mpirun." + which + " " + flags + " -np {ranks} {program} {folder}", crowds};
  };
  const std::string open_mpi = "--allow-run-as-root --oversubscribe --bind-to none";
  const auto gloo = [&](const std::string& which) {
    return contestant{"Gloo " + which, "test -e /usr/include/gloo/allreduce.h && command -v g++",
                      unless_newer("examples/bench/peers/gloo.cpp") + "g++" + compile + "examples/bench/peers/gloo.cpp -lgloo -pthread",
                      "exec {program} {folder} {ranks} " + which};
  };
  return {{"gradsync", "true", "", "exec " + self + " --serve {folder} {ranks}"},
          mpi("Open MPI", "openmpi", open_mpi, "", true),
          mpi("Open MPI, tuned malloc", "openmpi", open_mpi, tuned, true),
          mpi("MPICH, tuned malloc", "mpich", "", tuned, false),
          gloo("ring"),
          gloo("bcube"),
          {"PyTorch (Gloo)", "/usr/bin/python3 -c 'import torch.distributed'", "",
           "for rank in $(seq 0 $(({ranks} - 1))); do /usr/bin/python3 examples/bench/peers/torch_gloo.py {folder} {ranks} $rank & done; "
           "wait"}};
}

running::running(const contestant& what, int ranks, const std::string& scratch) : name_(what.name), folder_(scratch + "/pipes-XXXXXX") {
  if (mkdtemp(folder_.data()) == nullptr) throw std::runtime_error(scratch + " can't be written to");
  const std::string said = folder_ + "/said", programs = scratch + "/../gradsync-peers-" + std::to_string(getuid());
  std::string program = programs + "/" + name_;  // kept for the next time
  for (char& letter : program)
    if (letter == ' ' || letter == ',' || letter == '(' || letter == ')') letter = '_';
  mkdir(programs.c_str(), 0700);
  const auto fill = [&](const std::string& text) {
    return filled(text, {{"{program}", program}, {"{folder}", folder_}, {"{ranks}", std::to_string(ranks)}});
  };
  if (!what.build.empty() && std::system((fill(what.build) + " > " + said + " 2>&1").c_str()) != 0)
    throw std::runtime_error("could not be built: " + fill(what.build) + "; see " + said);
  for (int rank = 0; rank <= ranks; ++rank) {
    const std::string pipe = folder_ + "/" + (rank == ranks ? "answer" : std::to_string(rank));
    if (mkfifo(pipe.c_str(), 0600) != 0) throw std::runtime_error(pipe + " can't be made");
    // For both ways, so that it opens before there is anybody at the other end.
    const int end = open(pipe.c_str(), O_RDWR | O_CLOEXEC);
    rank == ranks ? void(answer_ = end) : pipes_.push_back(end);
  }
  group_ = fork();
  if (group_ == 0) {
    setpgid(0, 0);
    const int none = open("/dev/null", O_RDONLY), to = open(said.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    dup2(none, 0), dup2(to, 1), dup2(to, 2);
    execl("/bin/sh", "sh", "-c", fill(what.start).c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }
  if (group_ < 0) throw std::runtime_error("no process can be started");
  setpgid(group_, group_);
}

running::running(running&& other) noexcept
    : name_(std::move(other.name_)), folder_(std::move(other.folder_)), pipes_(std::move(other.pipes_)),
      answer_(std::exchange(other.answer_, -1)), group_(std::exchange(other.group_, 0)) {
  other.pipes_.clear();
}

running::~running() {
  for (const int pipe : pipes_) close(pipe);
  if (answer_ >= 0) close(answer_);
  if (group_ <= 0) return;
  kill(-group_, SIGTERM);  // a launcher ends its ranks
  for (int i = 0; i < 100 && waitpid(group_, nullptr, WNOHANG) == 0; ++i) usleep(20'000);
  kill(-group_, SIGKILL);
  waitpid(group_, nullptr, WNOHANG);
}

double running::ask(std::size_t bytes, int times, bool produced) {
  const std::string line = std::to_string(bytes) + " " + std::to_string(times) + " " + (produced ? "1" : "0") + "\n";
  for (const int pipe : pipes_)
    if (write(pipe, line.data(), line.size()) != static_cast<ssize_t>(line.size())) throw std::runtime_error("does not listen");
  std::string text;
  for (char letter = 0; letter != '\n';) {
    pollfd answered{answer_, POLLIN, 0};
    if (poll(&answered, 1, patience_ms) != 1 || read(answer_, &letter, 1) != 1)
      throw std::runtime_error("does not answer; see " + folder_ + "/said");
    text += letter;
  }
  return std::stod(text);
}

}  // namespace bench
