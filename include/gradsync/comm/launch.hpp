// SPDX-FileCopyrightText: 2026 The gradsync authors
// SPDX-License-Identifier: Apache-2.0

/// Which process of a job this one is: rank, size, and the same among the processes of its host, as the launcher has put it into the
/// environment. Of several launchers around the process the nearest counts, which is the first in this list:
///
///                  rank                  size                  local rank           local size                 job
///     options      .rank                 .size                 .local_rank          .local_size                .job
///     GRADSYNC_*   GRADSYNC_RANK         GRADSYNC_SIZE         GRADSYNC_LOCAL_RANK  GRADSYNC_LOCAL_SIZE        GRADSYNC_JOB
///     torchrun     RANK                  WORLD_SIZE            LOCAL_RANK           LOCAL_WORLD_SIZE           TORCHELASTIC_RUN_ID
///     Open MPI     OMPI_COMM_WORLD_RANK  …_SIZE                …_LOCAL_RANK         …_LOCAL_SIZE               PMIX_NAMESPACE
///     PMI (Hydra)  PMI_RANK              PMI_SIZE              MPI_LOCALRANKID      MPI_LOCALNRANKS            PMI_JOBID
///     SLURM        SLURM_PROCID          SLURM_STEP_NUM_TASKS  SLURM_LOCALID        SLURM_STEP_TASKS_PER_NODE  SLURM_JOB_ID
///
/// The first two are yours. Where the launcher says a number too it must be the same one, or both are printed in a `usage_error`; so they
/// serve to say what it doesn't know. A launcher hides those after it: srun may have started the mpirun or torchrun that started this
/// process, and has then other numbers. Without any of them the process is rank 0 of 1. An empty variable counts as none. MASTER_ADDR and
/// MASTER_PORT (GRADSYNC_ADDRESS, `.address`) say where the processes meet, comm/rendezvous.hpp how.
///
///     const gradsync::launch me = gradsync::find_launch();
///     std::cout << describe(me) << '\n';   // rank 5 of 8, local rank 1 of 4, job 4711.0, from SLURM (SLURM_PROCID=5, …)
#pragma once

#include <charconv>  // whole numbers, and nothing else
#include <cstdlib>   // the process's environment
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "gradsync/core/error.hpp"

namespace gradsync {

/// The environment variables to go by: those of this process, or a list.
class environment {
 public:
  using variable = std::pair<std::string, std::string>;  // name and value

  environment() = default;
  environment(std::initializer_list<variable> variables) : listed_(variables), own_(false) {}
  explicit environment(std::vector<variable> variables) : listed_(std::move(variables)), own_(false) {}

  std::optional<std::string> operator[](const char* name) const {
    std::optional<std::string> found;
    for (const auto& [listed, value] : listed_)
      if (listed == name) found = value;
    if (const char* value = own_ ? std::getenv(name) : nullptr) found = value;
    return found && !found->empty() ? found : std::nullopt;
  }

 private:
  std::vector<variable> listed_;
  bool own_ = true;
};

/// What you say yourself. It goes before GRADSYNC_*.
struct launch_options {
  std::optional<int> rank{}, size{}, local_rank{}, local_size{};
  std::string job{};      ///< the same for all processes of the job, another one for each other job
  std::string host{};     ///< the same for all processes of a host, which is otherwise known by its name and boot
  std::string address{};  ///< where the processes meet: "host:port", "[::1]:port", or "file:/path/on/all/hosts"
};

/// What was found. Ranks count from 0.
struct launch {
  int rank = 0, size = 1;
  int local_rank = -1, local_size = -1;  ///< among the processes of this host; -1: nobody has said
  std::string job{}, host{}, address{};  ///< as in `launch_options`; empty: nobody has said
  std::string launcher{};                ///< its name in the table; empty: none
  std::string from{};                    ///< each number with the name it was found by, for messages
};

namespace detail {

// A number, and what it was found by: "RANK=2". Without the latter nobody has said any.
struct said_number {
  int value = -1;
  std::string by{};

  explicit operator bool() const { return !by.empty(); }
};

// In the order of the fields everywhere below.
struct said_numbers {
  said_number rank{}, size{}, local_rank{}, local_size{};
};

struct launcher_variables {
  const char *name, *rank, *size, *local_rank, *local_size, *job;
};

inline constexpr launcher_variables own_variables = {"GRADSYNC_*",          "GRADSYNC_RANK",       "GRADSYNC_SIZE",
                                                     "GRADSYNC_LOCAL_RANK", "GRADSYNC_LOCAL_SIZE", "GRADSYNC_JOB"};
inline constexpr launcher_variables launchers[] = {
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "TORCHELASTIC_RUN_ID"},
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE",
     "PMIX_NAMESPACE"},
    {"PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "PMI_JOBID"},
};
// What stands in SLURM_STEP_TASKS_PER_NODE is no number: 2(x3),1.
inline constexpr launcher_variables slurm_variables = {"SLURM",         "SLURM_PROCID", "SLURM_STEP_NUM_TASKS",
                                                       "SLURM_LOCALID", nullptr,        "SLURM_JOB_ID"};

inline std::optional<int> whole_number(std::string_view text) {
  int value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  return failed == std::errc{} && end == text.data() + text.size() && value >= 0 ? std::optional(value) : std::nullopt;
}

inline said_number number_in(const environment& variables, const char* name) {
  const auto text = name != nullptr ? variables[name] : std::nullopt;
  if (!text) return {};
  const auto value = whole_number(*text);
  if (!value) throw usage_error(std::string(name) + "=" + *text + " is not a whole number from 0 on");
  return {*value, std::string(name) + "=" + *text};
}

inline said_numbers numbers_in(const environment& variables, const launcher_variables& names) {
  return {number_in(variables, names.rank), number_in(variables, names.size), number_in(variables, names.local_rank),
          number_in(variables, names.local_size)};
}

// The tasks of node number `node` in a list such as 2(x3),1: three nodes with two tasks each, then one with one.
inline std::optional<int> slurm_tasks_of(std::string_view list, int node) {
  while (!list.empty()) {
    const std::string_view entry = list.substr(0, list.find(','));
    list.remove_prefix(entry.size() < list.size() ? entry.size() + 1 : entry.size());
    const auto open = entry.find("(x");
    const auto tasks = whole_number(entry.substr(0, open));
    auto nodes = std::optional(1);
    if (open != entry.npos) nodes = entry.back() == ')' ? whole_number(entry.substr(open + 2, entry.size() - open - 3)) : std::nullopt;
    if (!tasks || !nodes) return std::nullopt;
    if (node < *nodes) return tasks;
    node -= *nodes;
  }
  return std::nullopt;
}

inline said_numbers numbers_of_slurm(const environment& variables) {
  said_numbers found = numbers_in(variables, slurm_variables);
  const auto list = variables["SLURM_STEP_TASKS_PER_NODE"];
  const said_number node = number_in(variables, "SLURM_NODEID");
  if (!list || !node) return found;
  const auto tasks = slurm_tasks_of(*list, node.value);
  if (!tasks) throw usage_error("SLURM_STEP_TASKS_PER_NODE=" + *list + " does not say how many tasks node " + node.by + " has");
  found.local_size = {*tasks, "SLURM_STEP_TASKS_PER_NODE=" + *list + " with " + node.by};
  return found;
}

// The nearest launcher: which it is, what it says, and the job's name.
struct nearest_launcher {
  std::string name{}, job{};
  said_numbers numbers{};
};

inline nearest_launcher find_nearest(const environment& variables) {
  for (const launcher_variables& names : launchers) {
    if (!variables[names.rank]) continue;  // a size alone is often exported for all programs of a script
    // srun --mpi=pmi2 gives its tasks PMI_RANK, but no local ranks, which it has under its own names.
    if (names.rank == std::string_view("PMI_RANK") && !variables[names.local_rank] && variables["SLURM_STEP_ID"]) continue;
    return {names.name, variables[names.job].value_or(""), numbers_in(variables, names)};
  }
  // Batch scripts and shells have a job, but no step: nobody has started the other tasks.
  const auto job = variables[slurm_variables.job], step = variables["SLURM_STEP_ID"];
  if (!job || !step) return {};
  return {slurm_variables.name, *job + "." + *step, numbers_of_slurm(variables)};
}

// What looks like one process alone, but should have been several.
inline void refuse_half_a_launch(const environment& variables) {
  if (const said_number world = number_in(variables, "WORLD_SIZE"); world.value > 1)
    throw usage_error(world.by + " is set, but RANK is not");
  const said_number tasks = variables[slurm_variables.job] ? number_in(variables, "SLURM_NTASKS") : said_number{};
  if (tasks.value > 1)
    throw usage_error("SLURM has made room for " + std::to_string(tasks.value) + " tasks (" + tasks.by +
                      "), but this process is none of them; start the program with srun");
}

using option_field = std::optional<int> launch_options::*;  // named, since nvcc puts parentheses around a member that is one
using said_field = said_number said_numbers::*;

struct number_field {
  const char* name;
  option_field option;
  said_field said;
};

inline constexpr number_field number_fields[] = {
    {"rank", &launch_options::rank, &said_numbers::rank},
    {"size", &launch_options::size, &said_numbers::size},
    {"local_rank", &launch_options::local_rank, &said_numbers::local_rank},
    {"local_size", &launch_options::local_size, &said_numbers::local_size},
};

// What you say yourself and what the launcher says of one number must be the same.
inline said_number settle(const number_field& field, const std::optional<int>& option, said_number own, const said_number& launchers_own) {
  if (option) own = {*option, "." + std::string(field.name) + " = " + std::to_string(*option)};
  if (own && launchers_own && own.value != launchers_own.value)
    throw usage_error("you set " + own.by + ", but the launcher says " + launchers_own.by + "; leave it to the launcher");
  return own ? own : launchers_own;
}

inline void expect_sense(const said_numbers& n) {
  const auto within = [](const char* what, const said_number& rank, const said_number& size) {
    if (size && size.value < 1) throw usage_error(size.by + ": there must be at least one process");
    if (rank && rank.value < 0) throw usage_error(rank.by + ": ranks count from 0");
    if (rank && size && rank.value >= size.value)
      throw usage_error(rank.by + " is none of the " + what + " 0 to " + std::to_string(size.value - 1) + " that " + size.by + " has");
  };
  if (n.rank && !n.size) throw usage_error(n.rank.by + " is said, but not how many processes there are");
  if (n.size && !n.rank && n.size.value != 1) throw usage_error(n.size.by + " is said, but not which of these processes this one is");
  within("ranks", n.rank, n.size);
  within("local ranks", n.local_rank, n.local_size);
  if (n.size && n.local_size && n.local_size.value > n.size.value)
    throw usage_error(n.local_size.by + ": this host cannot have more processes than the whole job, " + n.size.by);
}

// Where torchrun's own store goes on listening at MASTER_PORT, the job's port is the next one.
inline std::string meeting_address(const environment& variables) {
  if (const auto own = variables["GRADSYNC_ADDRESS"]) return *own;
  const auto host = variables["MASTER_ADDR"], port = variables["MASTER_PORT"];
  if (!host && !port) return {};
  if (!port) throw usage_error("MASTER_ADDR=" + *host + " is set, but MASTER_PORT is not");
  if (!host) throw usage_error("MASTER_PORT=" + *port + " is set, but MASTER_ADDR is not");
  const int number = whole_number(*port).value_or(0), taken = variables["TORCHELASTIC_USE_AGENT_STORE"] == "True" ? 1 : 0;
  if (number < 1 || number + taken > 65535) throw usage_error("MASTER_PORT=" + *port + " is not a port");
  const bool bare_ipv6 = host->find(':') != host->npos && host->front() != '[';
  return (bare_ipv6 ? "[" + *host + "]" : *host) + ":" + std::to_string(number + taken);
}

}  // namespace detail

/// Throws `usage_error` for what makes no sense or contradicts itself.
inline launch find_launch(const launch_options& options = {}, const environment& variables = {}) {
  const auto own = detail::numbers_in(variables, detail::own_variables);
  const auto nearest = detail::find_nearest(variables);
  detail::said_numbers said;
  launch found{.launcher = nearest.name};
  for (const detail::number_field& f : detail::number_fields) {
    said.*f.said = detail::settle(f, options.*f.option, own.*f.said, nearest.numbers.*f.said);
    if (const auto& by = (said.*f.said).by; !by.empty()) found.from += (found.from.empty() ? "" : ", ") + by;
  }
  if (!said.rank && !said.size) detail::refuse_half_a_launch(variables);
  detail::expect_sense(said);
  if (said.rank) found.rank = said.rank.value;
  if (said.size) found.size = said.size.value;
  found.local_rank = found.size == 1 ? 0 : said.local_rank.value;
  found.local_size = found.size == 1 ? 1 : said.local_size.value;
  const auto first = [&](const std::string& option, const char* name, const std::string& otherwise) {
    return !option.empty() ? option : variables[name].value_or(otherwise);
  };
  found.job = first(options.job, detail::own_variables.job, nearest.job);
  found.host = first(options.host, "GRADSYNC_HOST", "");
  found.address = !options.address.empty() ? options.address : detail::meeting_address(variables);
  return found;
}

/// What MPI's own world makes of it: the numbers are MPI's, which `found` must not contradict.
inline launch launch_in_mpi(launch found, int rank, int size) {
  const auto text = [](int r, int s) { return "rank " + std::to_string(r) + " of " + std::to_string(s); };
  if (!found.from.empty() && (found.rank != rank || found.size != size))
    throw usage_error("this process is " + text(found.rank, found.size) + " by " + found.from + ", but MPI sees " + text(rank, size) +
                      (size == 1 ? "; start the program with the mpirun of the MPI it was built with" : ""));
  if (found.size != size) found.local_rank = found.local_size = -1;
  found.rank = rank;
  found.size = size;
  return found;
}

/// The CUDA device for this process: the one with its local rank's number, or the only one that it can see.
inline int cuda_device_of(const launch& me, int visible_devices) {
  const place here{.rank = me.rank, .step = -1, .bucket = -1, .parameter = {}};
  if (visible_devices < 1) throw usage_error("this process sees no CUDA device", here);
  if (visible_devices == 1) return 0;
  if (me.local_rank < 0) throw usage_error("the local rank is not known; set GRADSYNC_LOCAL_RANK", here);
  if (me.local_rank < visible_devices) return me.local_rank;
  throw usage_error("local rank " + std::to_string(me.local_rank) + " finds only " + std::to_string(visible_devices) +
                        " CUDA devices; start one process a device",
                    here);
}

/// One line: what was found, and by what.
inline std::string describe(const launch& me) {
  std::string text = "rank " + std::to_string(me.rank) + " of " + std::to_string(me.size);
  if (me.local_rank >= 0) text += ", local rank " + std::to_string(me.local_rank);
  if (me.local_rank >= 0 && me.local_size >= 0) text += " of " + std::to_string(me.local_size);
  for (const auto& [name, value] : {std::pair(", host ", &me.host), std::pair(", job ", &me.job), std::pair(", meeting at ", &me.address)})
    if (!value->empty()) text += name + *value;
  if (me.from.empty()) return text + ", as no launcher was found";
  return text + ", from " + (me.launcher.empty() ? "what you set" : me.launcher) + " (" + me.from + ")";
}

}  // namespace gradsync
